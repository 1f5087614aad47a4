#include "server/decode/fast_entropy.h"

#include <jerror.h>
#include <link.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "common/aligned_buffer.h"
#include "server/decode/seek_index.h"

namespace millrace::decode {
namespace {

// The same layout as jpeg_entropy_decoder of libjpeg-turbo's jpegint.h.
struct EntropyModule {
  void (*start_pass)(j_decompress_ptr);
  boolean (*decode_mcu)(j_decompress_ptr, JBLOCKROW*);
  boolean insufficient_data;
};

// The executable memory of the program or library that contains an address.
struct CodeRange {
  uintptr_t begin = 0;
  uintptr_t end = 0;

  bool Holds(uintptr_t address) const {
    return address >= begin && address < end;
  }
};

// Empty: no range contains the address.
CodeRange CodeAround(uintptr_t address) {
  struct Search {
    uintptr_t address;
    CodeRange found;
  } search = {address, {}};
  dl_iterate_phdr(
      [](dl_phdr_info* object, size_t, void* data) {
        auto& wanted = *static_cast<Search*>(data);
        for (int i = 0; i < object->dlpi_phnum; ++i) {
          const ElfW(Phdr)& part = object->dlpi_phdr[i];
          if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0) continue;
          const uintptr_t begin = object->dlpi_addr + part.p_vaddr;
          const CodeRange range = {begin, begin + part.p_memsz};
          if (!range.Holds(wanted.address)) continue;
          wanted.found = range;
          return 1;
        }
        return 0;
      },
      &search);
  return search.found;
}

// Shifts by a variable take most of the time, and BMI2 has faster ones. The
// same code is compiled twice and selected by CPU.
#if defined(__x86_64__)
#define MR_HAVE_BMI2_VERSION 1
#define MR_BMI2 __attribute__((target("bmi2")))
#else
#define MR_HAVE_BMI2_VERSION 0
#endif
#define MR_INLINE inline __attribute__((always_inline))

// Bits of one table lookup: code and value bits together.
constexpr int kLookBits = 11;
constexpr int kLookSize = 1 << kLookBits;
// Zero bytes after the data: one MCU may be read past the end before this is
// detected. (10 blocks of 64 symbols of at most 31 bits.)
constexpr size_t kPadding = 4096;

// Zigzag to natural order.
constexpr uint8_t kNaturalOrder[64] = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,
    12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6,  7,  14, 21, 28,
    35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51,
    58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63};

// Bit of an entry: decode the symbol by its code instead.
constexpr int32_t kSlow = 64;

// A pair entry: one lookup gives up to two coefficients and the end of the
// block. Bits 0-5: length. Bit 6: kSlow. Bit 7: kEnds, the block ends here
// (with kSlow: and nothing precedes the end). Bits 8-12: places to advance for
// the first coefficient. Bits 13-17: places for the second (0: there is none).
// Bits 18-23: value of the second. Bits 24-31: value of the first.
constexpr uint32_t kEnds = 128;
constexpr int kMaxFirstSize = 7;
constexpr int kMaxSecondSize = 5;

// A skip entry: several coefficients that are not needed. Bits 0-4: length. Bit
// 5: kSkipEnds, the block ends. Bits 8-15: places to advance. 0: no complete
// coefficient fits.
constexpr uint16_t kSkipEnds = 32;

int32_t Extend(int32_t bits, int size) {
  return bits < (1 << (size - 1)) ? bits - (1 << size) + 1 : bits;
}

// Codes and symbols of a Huffman table; empty without a table.
struct Codes {
  struct Code {
    uint16_t bits;
    uint8_t length;
    uint8_t symbol;
  };

  // The table that this object was built from.
  uint8_t counts[17] = {};
  uint8_t symbols[256] = {};
  bool built = false;

  Code codes[256];  // those that fit a lookup, shortest first
  int code_count = 0;
  // Longer codes: `limit[L]` is the first 16-bit code after those of length L;
  // the offset converts a code of length L into an index of `symbols`.
  uint32_t limit[18];
  int32_t offset[18];

  // False: the table has not changed.
  bool Build(const JHUFF_TBL& from) {
    if (built && std::memcmp(counts + 1, from.bits + 1, 16) == 0 &&
        std::memcmp(symbols, from.huffval, 256) == 0) {
      return false;
    }
    built = true;
    std::memcpy(counts, from.bits, sizeof(counts));
    std::memcpy(symbols, from.huffval, sizeof(symbols));
    code_count = 0;
    uint32_t code = 0;
    int index = 0;
    for (int length = 1; length <= 16; ++length) {
      offset[length] = index - static_cast<int32_t>(code);
      for (int i = 0; i < counts[length] && index < 256; ++i) {
        if (length <= kLookBits && code < 1u << length) {
          codes[code_count++] = {static_cast<uint16_t>(code),
                                 static_cast<uint8_t>(length), symbols[index]};
        }
        ++code;
        ++index;
      }
      limit[length] = code << (16 - length);
      code <<= 1;
    }
    limit[17] = 0xFFFFFFFF;
    return true;
  }
};

// Table of DC coefficients, whose symbols are sizes.
struct DcTable {
  Codes codes;
  // Bits 0-5: length. Bit 6: kSlow. Then:
  //   fast: bits 16-31: the value.
  //   slow: bits 8-15: the symbol. The length is that of its code alone; length
  //         0: the code is longer than a lookup.
  int32_t look[kLookSize];

  void Build(const JHUFF_TBL& from) {
    if (!codes.Build(from)) return;
    std::fill(look, look + kLookSize, kSlow);
    for (int i = 0; i < codes.code_count; ++i) {
      const Codes::Code c = codes.codes[i];
      const int spare = kLookBits - c.length;
      int32_t* at = look + (c.bits << spare);
      if (c.symbol > spare) {
        std::fill(at, at + (1 << spare), c.length | kSlow | c.symbol << 8);
        continue;
      }
      const int size = c.symbol;
      const int run = 1 << (spare - size);
      for (int32_t bits = 0; bits < (1 << size); ++bits, at += run) {
        const int32_t value = size == 0 ? 0 : Extend(bits, size);
        std::fill(at, at + run,
                  static_cast<int32_t>(static_cast<uint32_t>(value) << 16 |
                                       (c.length + size)));
      }
    }
  }
};

// Table of AC coefficients, whose symbols are a run of zeros and a size. Each
// image may have its own tables, so building must be fast: what can follow a
// coefficient is computed once for each number of remaining lookup bits and not
// for each entry, and entries are written in runs.
struct AcTable {
  Codes codes;
  uint32_t pair[kLookSize];
  uint16_t skip[kLookSize];
  bool skip_built = false;
  // Bits 0-7: length. Bits 8-15: the symbol. 0: the code is longer than a
  // lookup.
  uint16_t code[kLookSize];

  // Whether the symbol ends the block.
  static bool IsEnd(uint8_t symbol) {
    return (symbol & 15) == 0 && symbol >> 4 != 15;
  }

  void Build(const JHUFF_TBL& from) {
    if (!codes.Build(from)) return;
    skip_built = false;
    const Codes::Code* end = nullptr;
    for (int i = 0; i < codes.code_count && end == nullptr; ++i) {
      if (IsEnd(codes.codes[i].symbol)) end = &codes.codes[i];
    }

    // tails[2^m + j]: the meaning of bits j (m bits) after a first coefficient:
    // nothing, a second coefficient, or the end.
    uint32_t tails[kLookSize];
    std::fill(tails, tails + kLookSize, 0);
    const auto fill_end = [end](uint32_t* at, int bits_left, uint32_t entry) {
      if (end == nullptr || end->length > bits_left) return;
      const int run = 1 << (bits_left - end->length);
      at += end->bits * run;
      std::fill(at, at + run, entry + (kEnds | end->length));
    };
    for (int m = 0; m < kLookBits; ++m) fill_end(tails + (1 << m), m, 0);
    for (int i = 0; i < codes.code_count; ++i) {
      const Codes::Code c = codes.codes[i];
      const int size = c.symbol & 15;
      const int length = c.length + size;
      if (IsEnd(c.symbol) || size > kMaxSecondSize) continue;
      const uint32_t places = ((c.symbol >> 4) + 1) << 13;
      for (int m = length; m < kLookBits; ++m) {
        const int run = 1 << (m - length);
        uint32_t* at = tails + (1 << m) + (c.bits << (m - c.length));
        for (int32_t bits = 0; bits < (1 << size); ++bits, at += run) {
          const int32_t value = size == 0 ? 0 : Extend(bits, size);
          const uint32_t entry =
              (static_cast<uint32_t>(value) & 63) << 18 | places | length;
          std::fill(at, at + run, entry);
          fill_end(at, m - length, entry);
        }
      }
    }

    std::fill(pair, pair + kLookSize, kSlow);
    std::fill(code, code + kLookSize, 0);
    for (int i = 0; i < codes.code_count; ++i) {
      const Codes::Code c = codes.codes[i];
      const int spare = kLookBits - c.length;
      const uint32_t begin = c.bits << spare;
      std::fill(code + begin, code + begin + (1 << spare),
                static_cast<uint16_t>(c.length | c.symbol << 8));
      uint32_t* at = pair + begin;
      const int size = c.symbol & 15;
      if (IsEnd(c.symbol)) {
        std::fill(at, at + (1 << spare), c.length | kSlow | kEnds);
        continue;
      }
      if (size > spare || size > kMaxFirstSize) continue;
      const uint32_t places = ((c.symbol >> 4) + 1) << 8;
      const int run = 1 << (spare - size);
      const uint32_t* tail = tails + run;
      for (int32_t bits = 0; bits < (1 << size); ++bits, at += run) {
        const int32_t value = size == 0 ? 0 : Extend(bits, size);
        const uint32_t first =
            static_cast<uint32_t>(value) << 24 | places | (c.length + size);
        for (int j = 0; j < run; ++j) at[j] = first + tail[j];
      }
    }
  }

  // Must be called before the first skip.
  void BuildSkip() {
    if (skip_built) return;
    skip_built = true;
    // As above: the complete symbols in m bits, the last of them `skip` itself.
    uint16_t tails[kLookSize];
    for (int m = 0; m <= kLookBits; ++m) {
      uint16_t* const to = m == kLookBits ? skip : tails + (1 << m);
      std::fill(to, to + (1 << m), 0);
      for (int i = 0; i < codes.code_count; ++i) {
        const Codes::Code c = codes.codes[i];
        if (c.length > m) break;
        uint16_t* at = to + (c.bits << (m - c.length));
        const int size = c.symbol & 15;
        const int length = c.length + size;
        if (IsEnd(c.symbol)) {
          std::fill(at, at + (1 << (m - length)), length | kSkipEnds);
          continue;
        }
        if (length > m) continue;
        const int run = 1 << (m - length);
        const uint16_t* tail = tails + run;
        const int first = ((c.symbol >> 4) + 1) << 8 | length;
        for (int copies = 1 << size; copies > 0; --copies, at += run) {
          for (int j = 0; j < run; ++j) {
            at[j] = static_cast<uint16_t>(first + tail[j]);
          }
        }
      }
    }
  }
};

struct Bits {
  uint64_t word;  // the next bits, starting at the top
  int count;      // number of valid bits
  const uint8_t* next;

  MR_INLINE void Refill() {
    uint64_t load;
    std::memcpy(&load, next, 8);
    if constexpr (std::endian::native == std::endian::little) {
      load = __builtin_bswap64(load);
    }
    word |= load >> count;
    next += (63 - count) >> 3;
    count |= 56;
  }
  MR_INLINE void Consume(int n) {
    word <<= n;
    count -= n;
  }
  MR_INLINE uint32_t Look() const {
    return static_cast<uint32_t>(word >> (64 - kLookBits));
  }
};

}  // namespace

struct FastEntropy::State {
  EntropyModule module;  // first: libjpeg gets a pointer to it
  DcTable dc[NUM_HUFF_TBLS];
  AcTable ac[NUM_HUFF_TBLS];
  AlignedBuffer bytes;

  Bits bits;
  const uint8_t* end;    // end of the segment's data
  uint8_t* initialised;  // memory before it was written
  const uint8_t* raw;    // start of the next segment, still stuffed
  const uint8_t* raw_end;
  uint8_t marker;  // that ended the segment; 0: end of data
  absl::Span<const uint8_t> scan;
  absl::Span<const uint8_t> index;  // unverified seek index; or empty
  uint32_t segments;                // restart intervals of the scan
  uint32_t segment;                 // the segment of the bits
  // MCUs are numbered through the scan. MCUs that are not needed are skipped
  // when a later one is needed.
  uint32_t asked;        // the next MCU that libjpeg requests
  uint32_t next;         // the MCU that the bits start with
  uint32_t segment_end;  // the first MCU of the next segment
  uint32_t column;       // column of `asked`
  uint32_t first_column;
  uint32_t last_column;
  int32_t last_dc[MAX_COMPS_IN_SCAN];
  // For each block of an MCU.
  int blocks;
  const DcTable* block_dc[D_MAX_BLOCKS_IN_MCU];
  AcTable* block_ac[D_MAX_BLOCKS_IN_MCU];
  uint8_t block_component[D_MAX_BLOCKS_IN_MCU];
  bool block_wanted[D_MAX_BLOCKS_IN_MCU];  // needs its AC coefficients
  bool may_skip;                           // the tables for skips are built

  [[noreturn]] static void Fail(j_decompress_ptr info, int code) {
    info->err->msg_code = code;
    info->err->msg_parm.i[0] = 0;
    (*info->err->error_exit)(reinterpret_cast<j_common_ptr>(info));
    __builtin_unreachable();
  }

  // Copies the entropy-coded bytes up to the next marker and removes the
  // stuffing.
  void NextSegment() {
    uint8_t* to = bytes.data();
    const uint8_t* from = raw;
    marker = 0;
    while (from < raw_end) {
      const auto* stop =
          static_cast<const uint8_t*>(std::memchr(from, 0xFF, raw_end - from));
      const size_t n = (stop == nullptr ? raw_end : stop) - from;
      std::memcpy(to, from, n);
      to += n;
      from += n;
      if (stop == nullptr) break;
      // Any number of FF bytes may precede the marker's code.
      while (from < raw_end && *from == 0xFF) ++from;
      if (from == raw_end) break;
      const uint8_t code = *from++;
      if (code != 0) {
        marker = code;
        break;
      }
      *to++ = 0xFF;
    }
    raw = from;
    end = to;
    // Memory after the data is cleared when it is used for the first time.
    // Later, the remains of an earlier segment do no harm.
    if (to + kPadding > initialised) {
      uint8_t* from_here = std::max(to, initialised);
      std::memset(from_here, 0, to + kPadding - from_here);
      initialised = to + kPadding;
    }
    std::memset(to, 0, 8);
    bits = {0, 0, bytes.data()};
    std::fill(last_dc, last_dc + MAX_COMPS_IN_SCAN, 0);
  }

  // Moves `raw` after the next marker.
  void PassSegment() {
    marker = 0;
    while (marker == 0 && raw < raw_end) {
      const auto* stop =
          static_cast<const uint8_t*>(std::memchr(raw, 0xFF, raw_end - raw));
      raw = stop == nullptr ? raw_end : stop;
      while (raw < raw_end && *raw == 0xFF) ++raw;
      if (raw < raw_end) marker = *raw++;
    }
  }

  // Starts segment `wanted`, which comes after the current one.
  void GoToSegment(j_decompress_ptr info, uint32_t wanted) {
    std::optional<size_t> at;
    if (!index.empty() && (wanted > segment + 1 || wanted == segments - 1)) {
      at = FindInterval(index, scan, segments, wanted);
      if (!at.has_value()) index = {};
    }
    if (at.has_value() && wanted > segment + 1) {
      raw = scan.data() + *at;
      segment = wanted;
    }
    while (segment < wanted) {
      if (marker != JPEG_RST0 + (segment & 7)) {
        Fail(info, marker == 0 ? JWRN_HIT_MARKER : JWRN_MUST_RESYNC);
      }
      if (++segment < wanted) PassSegment();
    }
    // An index lists as many markers as the scan should have. Data with more
    // markers has two possible readings; a decoder that reads all data finds
    // this here.
    if (at.has_value() && raw != scan.data() + *at) {
      Fail(info, JWRN_MUST_RESYNC);
    }
    NextSegment();
    next = segment * info->restart_interval;
    segment_end = next + info->restart_interval;
  }

  // Decodes a symbol whose code is longer than a lookup.
  static int LongSymbol(j_decompress_ptr info, const Codes& codes, Bits& b) {
    const uint32_t code = static_cast<uint32_t>(b.word >> 48);
    int length = kLookBits + 1;
    while (length <= 16 && code >= codes.limit[length]) ++length;
    if (length > 16) Fail(info, JWRN_HUFF_BAD_CODE);
    b.Consume(length);
    return codes
        .symbols[((code >> (16 - length)) + codes.offset[length]) & 255];
  }

  static MR_INLINE int32_t TakeValue(Bits& b, int size) {
    if (size == 0) return 0;
    const int32_t value =
        Extend(static_cast<int32_t>(b.word >> (64 - size)), size);
    b.Consume(size);
    return value;
  }

  static MR_INLINE int32_t DecodeDc(j_decompress_ptr info, const DcTable& table,
                                    Bits& b) {
    b.Refill();
    const int32_t entry = table.look[b.Look()];
    if ((entry & kSlow) == 0) {
      b.Consume(entry & 63);
      return entry >> 16;
    }
    int symbol = (entry >> 8) & 255;
    if ((entry & 63) == 0) {
      symbol = LongSymbol(info, table.codes, b);
    } else {
      b.Consume(entry & 63);
    }
    return TakeValue(b, symbol & 15);
  }

  // Decodes one symbol at place k and returns the next place; 65 at the end of
  // the block. `block` may be null.
  static int DecodeOne(j_decompress_ptr info, const AcTable& table, Bits& b,
                       int k, JCOEF* block) {
    b.Refill();
    const uint32_t code = table.code[b.Look()];
    int symbol = static_cast<int>(code >> 8);
    if (code == 0) {
      symbol = LongSymbol(info, table.codes, b);
    } else {
      b.Consume(code & 255);
    }
    if (AcTable::IsEnd(static_cast<uint8_t>(symbol))) return 65;
    const int32_t value = TakeValue(b, symbol & 15);
    k += (symbol >> 4) + 1;
    if (k > 64) Fail(info, JWRN_HUFF_BAD_CODE);
    if (block != nullptr)
      block[kNaturalOrder[k - 1]] = static_cast<JCOEF>(value);
    return k;
  }

  static MR_INLINE void DecodeAc(j_decompress_ptr info, const AcTable& table,
                                 Bits& b, JCOEF* block) {
    int k = 1;
    do {
      b.Refill();
      for (int i = 0; i < 4; ++i) {
        const uint32_t entry = table.pair[b.Look()];
        const int first = k + ((entry >> 8) & 31);
        const int second = first + ((entry >> 13) & 31);
        if (__builtin_expect(
                (entry & kSlow) == 0 &&
                    second + static_cast<int>((entry & kEnds) != 0) <= 64,
                1)) {
          b.Consume(entry & 63);
          // Without a second coefficient, both have the same place. The first
          // one is stored last, so it stays.
          block[kNaturalOrder[second - 1]] =
              static_cast<JCOEF>(static_cast<int32_t>(entry << 8) >> 26);
          block[kNaturalOrder[first - 1]] =
              static_cast<JCOEF>(static_cast<int32_t>(entry) >> 24);
          if (entry & kEnds) return;
          k = second;
        } else if ((entry & kSlow) != 0 && (entry & kEnds) != 0) {
          b.Consume(entry & 63);
          return;
        } else {
          k = DecodeOne(info, table, b, k, block);
          if (k < 64) b.Refill();
        }
        if (k >= 64) return;
      }
    } while (true);
  }

  static MR_INLINE void SkipAc(j_decompress_ptr info, const AcTable& table,
                               Bits& b) {
    int k = 1;
    do {
      b.Refill();
      for (int i = 0; i < 4; ++i) {
        const uint32_t several = table.skip[b.Look()];
        const int to = k + static_cast<int>(several >> 8);
        const bool ends = (several & kSkipEnds) != 0;
        if (__builtin_expect(several != 0 && to + ends <= 64, 1)) {
          b.Consume(several & 31);
          if (ends) return;
          k = to;
        } else {
          k = DecodeOne(info, table, b, k, nullptr);
          if (k < 64) b.Refill();
        }
        if (k >= 64) return;
      }
    } while (true);
  }

  void BuildSkips() {
    for (int i = 0; i < blocks; ++i) block_ac[i]->BuildSkip();
    may_skip = true;
  }

  void CheckOverrun(j_decompress_ptr info, const Bits& b) const {
    // Were more bits used than there are?
    if (b.next - b.count / 8 > end) Fail(info, JWRN_HIT_MARKER);
  }

  MR_INLINE void DecodeBlockDc(j_decompress_ptr info, int i, Bits& b) {
    int32_t& last = last_dc[block_component[i]];
    // Damaged data may make the sum arbitrarily large.
    last = static_cast<int32_t>(
        static_cast<uint32_t>(last) +
        static_cast<uint32_t>(DecodeDc(info, *block_dc[i], b)));
  }

  // Continues to MCU `wanted`.
  MR_INLINE void AdvanceBody(j_decompress_ptr info, uint32_t wanted) {
    if (!may_skip) BuildSkips();
    if (wanted >= segment_end) {
      GoToSegment(info, wanted / info->restart_interval);
    }
    Bits b = bits;
    for (; next < wanted; ++next) {
      for (int i = 0; i < blocks; ++i) {
        DecodeBlockDc(info, i, b);
        SkipAc(info, *block_ac[i], b);
      }
      CheckOverrun(info, b);
    }
    bits = b;
  }

  template <void (*advance)(State&, j_decompress_ptr, uint32_t)>
  static MR_INLINE boolean DecodeMcuBody(j_decompress_ptr info,
                                         JBLOCKROW* mcu) {
    State& s = *reinterpret_cast<State*>(info->entropy);
    const uint32_t asked = s.asked++;
    const bool wanted = mcu != nullptr && s.column >= s.first_column &&
                        s.column <= s.last_column;
    if (++s.column == info->MCUs_per_row) s.column = 0;
    if (!wanted) return TRUE;
    if (asked != s.next || asked == s.segment_end) advance(s, info, asked);
    Bits b = s.bits;
    for (int i = 0; i < s.blocks; ++i) {
      s.DecodeBlockDc(info, i, b);
      (*mcu[i])[0] = static_cast<JCOEF>(s.last_dc[s.block_component[i]]);
      if (s.block_wanted[i]) {
        DecodeAc(info, *s.block_ac[i], b, *mcu[i]);
      } else {
        SkipAc(info, *s.block_ac[i], b);
      }
    }
    s.bits = b;
    ++s.next;
    s.CheckOverrun(info, b);
    return TRUE;
  }

  static void Advance(State& s, j_decompress_ptr info, uint32_t wanted) {
    s.AdvanceBody(info, wanted);
  }
  static boolean DecodeMcu(j_decompress_ptr info, JBLOCKROW* mcu) {
    return DecodeMcuBody<Advance>(info, mcu);
  }

#if MR_HAVE_BMI2_VERSION
  MR_BMI2 static void AdvanceBmi2(State& s, j_decompress_ptr info,
                                  uint32_t wanted) {
    s.AdvanceBody(info, wanted);
  }
  MR_BMI2 static boolean DecodeMcuBmi2(j_decompress_ptr info, JBLOCKROW* mcu) {
    return DecodeMcuBody<AdvanceBmi2>(info, mcu);
  }
#endif

  static void StartPass(j_decompress_ptr) {}
};

FastEntropy::FastEntropy() : state_(std::make_unique<State>()) {}

FastEntropy::~FastEntropy() = default;

bool FastEntropy::Fits(const jpeg_decompress_struct& info) {
#if LIBJPEG_TURBO_VERSION_NUMBER >= 2000000 && \
    LIBJPEG_TURBO_VERSION_NUMBER < 3000000
  return !info.progressive_mode && !info.arith_code &&
         info.comps_in_scan == info.num_components && info.Ss == 0 &&
         info.Se == DCTSIZE2 - 1;
#else
  return false;
#endif
}

bool FastEntropy::LayoutIsKnown(const jpeg_decompress_struct& info) {
  // The address of a libjpeg function, taken from a public struct.
  static const CodeRange libjpeg =
      CodeAround(reinterpret_cast<uintptr_t>(info.mem->free_pool));
  const auto* words = reinterpret_cast<const uintptr_t*>(info.entropy);
  static_assert(offsetof(EntropyModule, insufficient_data) ==
                2 * sizeof(uintptr_t));
  return words != nullptr && libjpeg.Holds(words[0]) &&
         libjpeg.Holds(words[1]) && !libjpeg.Holds(words[2]) &&
         reinterpret_cast<const EntropyModule*>(words)->insufficient_data ==
             FALSE;
}

bool FastEntropy::Reserve(size_t bytes) {
  return state_->bytes.Reserve(bytes + kPadding) != nullptr;
}

bool FastEntropy::truncated() const { return state_->marker == 0; }

size_t FastEntropy::kept_bytes() const { return state_->bytes.capacity(); }

void FastEntropy::ReleaseAbove(size_t bytes) {
  state_->bytes.ReleaseAbove(bytes);
}

void FastEntropy::Attach(jpeg_decompress_struct* info,
                         absl::Span<const uint8_t> scan,
                         absl::Span<const uint8_t> index, uint32_t first_column,
                         uint32_t last_column) {
  State& s = *state_;
  for (int c = 0; c < info->comps_in_scan; ++c) {
    const jpeg_component_info* component = info->cur_comp_info[c];
    s.dc[component->dc_tbl_no].Build(
        *info->dc_huff_tbl_ptrs[component->dc_tbl_no]);
    s.ac[component->ac_tbl_no].Build(
        *info->ac_huff_tbl_ptrs[component->ac_tbl_no]);
  }
  s.blocks = info->blocks_in_MCU;
  s.may_skip = false;
  for (int i = 0; i < s.blocks; ++i) {
    const int c = info->MCU_membership[i];
    const jpeg_component_info* component = info->cur_comp_info[c];
    s.block_component[i] = static_cast<uint8_t>(c);
    s.block_dc[i] = &s.dc[component->dc_tbl_no];
    s.block_ac[i] = &s.ac[component->ac_tbl_no];
    // At 1/8 of the size, the DC coefficient is the pixel.
    s.block_wanted[i] =
        component->component_needed && component->DCT_scaled_size > 1;
    if (!s.block_wanted[i]) s.block_ac[i]->BuildSkip();
  }
  s.raw = scan.data();
  s.raw_end = scan.data() + scan.size();
  s.initialised = s.bytes.data();
  s.scan = scan;
  const uint32_t interval = info->restart_interval;
  // Each jump checks the whole index. With intervals of a row of MCUs or more,
  // a crop jumps once or twice. A file with many more intervals, each with a
  // jump, would make a foreign file expensive.
  const bool rows = interval >= info->MCUs_per_row;
  s.index = rows ? index : absl::Span<const uint8_t>();
  const uint32_t mcus = info->MCUs_per_row * info->MCU_rows_in_scan;
  s.segments = interval == 0 ? 1 : (mcus + interval - 1) / interval;
  s.segment = 0;
  s.asked = 0;
  s.next = 0;
  s.segment_end = interval == 0 ? UINT32_MAX : interval;
  s.column = 0;
  s.first_column = first_column;
  s.last_column = last_column;
  s.NextSegment();
  s.module.start_pass = State::StartPass;
  s.module.decode_mcu = State::DecodeMcu;
#if MR_HAVE_BMI2_VERSION
  if (__builtin_cpu_supports("bmi2")) {
    s.module.decode_mcu = State::DecodeMcuBmi2;
  }
#endif
  s.module.insufficient_data = FALSE;
  info->entropy = reinterpret_cast<jpeg_entropy_decoder*>(&s.module);
}

}  // namespace millrace::decode
