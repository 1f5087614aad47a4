// A decoder of the two PNM formats that hold 8-bit pixels, PGM (P5, grey) and
// PPM (P6, RGB): a text header, then uncompressed rows.
//
//   transforms { decode_image { decoders { name: "pnm" } } }

#include <string.h>

#include "millrace_operator.h"

// Parses the number at `*at`, after white space and comments, and moves `*at`
// past it. Returns -1 if there is no number, or if it is above 99,999,999.
static int64_t read_number(millrace_bytes bytes, uint64_t* at) {
  while (*at < bytes.size) {
    const uint8_t c = bytes.data[*at];
    if (c == '#') {
      while (*at < bytes.size && bytes.data[*at] != '\n') ++*at;
    } else if (c != ' ' && c != '\t' && c != '\r' && c != '\n') {
      break;
    }
    if (*at < bytes.size) ++*at;
  }
  int64_t number = -1;
  for (; *at < bytes.size; ++*at) {
    const uint8_t c = bytes.data[*at];
    if (c < '0' || c > '9') break;
    number = (number < 0 ? 0 : number) * 10 + (c - '0');
    if (number > 99999999) return -1;
  }
  return number;
}

static int32_t sniff(millrace_bytes bytes) {
  return bytes.size > 2 && bytes.data[0] == 'P' &&
         (bytes.data[1] == '5' || bytes.data[1] == '6') &&
         (bytes.data[2] == '\n' || bytes.data[2] == ' ' ||
          bytes.data[2] == '\r' || bytes.data[2] == '\t');
}

// Parses the header and sets `*begin` to the offset of the first pixel.
static millrace_result parse(millrace_bytes bytes,
                             millrace_image_header* header, uint64_t* begin,
                             char* error) {
  uint64_t at = 2;
  header->channels = bytes.data[1] == '5' ? 1 : 3;
  header->width = read_number(bytes, &at);
  header->height = read_number(bytes, &at);
  const int64_t most = read_number(bytes, &at);
  if (header->width < 1 || header->height < 1 || most < 0) {
    return millrace_fail(MILLRACE_INVALID, error,
                         "the header of the PNM is damaged");
  }
  if (most != 255) {
    return millrace_fail(MILLRACE_INVALID, error,
                         "the PNM's largest value is not 255; only 8-bit "
                         "images are read");
  }
  *begin = at + 1;  // skips one white space character
  // Width and height are below 10^8, so the product fits into 64 bits.
  const uint64_t pixels = (uint64_t)header->width * (uint64_t)header->height;
  if (*begin > bytes.size ||
      (bytes.size - *begin) / (uint64_t)header->channels < pixels) {
    return millrace_fail(MILLRACE_INVALID, error, "the PNM is truncated");
  }
  return MILLRACE_OK;
}

static millrace_result read_header(void* state, millrace_bytes bytes,
                                   millrace_image_header* header, char* error) {
  uint64_t begin = 0;
  return parse(bytes, header, &begin, error);
}

static millrace_result decode(void* state, millrace_bytes bytes,
                              const millrace_region* region, uint8_t* pixels,
                              int64_t row_stride, char* error) {
  millrace_image_header header = {.struct_size = sizeof(header)};
  uint64_t begin = 0;
  const millrace_result parsed = parse(bytes, &header, &begin, error);
  if (parsed != MILLRACE_OK) return parsed;
  const int64_t row_bytes = region->width * header.channels;
  for (int64_t y = 0; y < region->height; ++y) {
    const int64_t first =
        ((region->top + y) * header.width + region->left) * header.channels;
    memcpy(pixels + y * row_stride, bytes.data + begin + first,
           (size_t)row_bytes);
  }
  return MILLRACE_OK;
}

static const millrace_decoder kPnm = {
    .struct_size = sizeof(millrace_decoder),
    .name = "pnm",
    .version = "1.0",
    .sniff = sniff,
    .read_header = read_header,
    .decode = decode,
};

static const millrace_decoder* const kDecoders[] = {&kPnm};
static const millrace_library kLibrary = {
    .abi_version = MILLRACE_ABI_VERSION,
    .struct_size = sizeof(millrace_library),
    .decoders = kDecoders,
    .decoder_count = 1,
};

const millrace_library* millrace_operators(const millrace_host* host) {
  return &kLibrary;
}
