// A decoder for tests that takes every JPEG for its own, as one does that reads
// what cameras write beside the picture. It is asked who it is, not for pixels.

#include "millrace_operator.h"

static int32_t sniff(millrace_bytes bytes) {
  return bytes.size >= 3 && bytes.data[0] == 0xFF && bytes.data[1] == 0xD8 &&
         bytes.data[2] == 0xFF;
}

static millrace_result read_header(void* state, millrace_bytes bytes,
                                   millrace_image_header* header, char* error) {
  return millrace_fail(MILLRACE_INVALID, error, "reads no pixels");
}

static millrace_result decode(void* state, millrace_bytes bytes,
                              const millrace_region* region, uint8_t* pixels,
                              int64_t row_stride, char* error) {
  return millrace_fail(MILLRACE_INVALID, error, "reads no pixels");
}

static const millrace_decoder kJpegReader = {
    .struct_size = sizeof(millrace_decoder),
    .name = "jpeg_reader",
    .version = "1.0",
    .sniff = sniff,
    .read_header = read_header,
    .decode = decode,
};
static const millrace_decoder* const kDecoders[] = {&kJpegReader};
static const millrace_library kLibrary = {
    .abi_version = MILLRACE_ABI_VERSION,
    .struct_size = sizeof(millrace_library),
    .decoders = kDecoders,
    .decoder_count = 1,
};

const millrace_library* millrace_operators(const millrace_host* host) {
  return &kLibrary;
}
