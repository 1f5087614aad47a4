// What TensorCast::Apply() does with its tables, on a device: for each byte of
// the source the value of its channel's table. One pass: a byte is read, a
// result written.
//
// A thread makes four neighbours: source and target are aligned to as many. `n`
// is below 2^32 - 1024. Elements lie in runs of `run` of one channel, the
// channels in turn.
//
// OpenCL C, from which clang makes lookup_kernel.ptx, which is what is built in;
// write both with tools/make-lookup-ptx. tests/client/torch runs this source on
// the host.

#define LOOKUP(name, type, type4)                                             \
  __kernel void name(__global const uchar* restrict source,                   \
                     __global type* restrict target,                          \
                     __global const type* restrict tables, uint n,            \
                     uint channels, uint run) {                               \
    const uint thread = __nvvm_read_ptx_sreg_ctaid_x() *                      \
                            __nvvm_read_ptx_sreg_ntid_x() +                   \
                        __nvvm_read_ptx_sreg_tid_x();                         \
    const uint first = thread * 4;                                            \
    if (first >= n) return;                                                   \
    uint in_run = first % run;                                                \
    uint channel = first / run % channels;                                    \
    if (n - first >= 4) {                                                     \
      const uchar4 bytes = *(__global const uchar4*)(source + first);         \
      type4 out;                                                              \
      out.x = tables[channel * 256 + bytes.x];                                \
      STEP                                                                    \
      out.y = tables[channel * 256 + bytes.y];                                \
      STEP                                                                    \
      out.z = tables[channel * 256 + bytes.z];                                \
      STEP                                                                    \
      out.w = tables[channel * 256 + bytes.w];                                \
      *(__global type4*)(target + first) = out;                               \
      return;                                                                 \
    }                                                                         \
    for (uint i = first; i < n; ++i) {                                        \
      target[i] = tables[channel * 256 + source[i]];                          \
      STEP                                                                    \
    }                                                                         \
  }
#define STEP                                   \
  if (++in_run == run) {                       \
    in_run = 0;                                \
    if (++channel == channels) channel = 0;    \
  }
LOOKUP(lookup2, ushort, ushort4)
LOOKUP(lookup4, uint, uint4)
LOOKUP(lookup8, ulong, ulong4)
