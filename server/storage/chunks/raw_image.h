// The raw images that both mosaicml-streaming and litdata store as "pil": the
// pixels of a PIL image with a header,
//
//   u32 width | u32 height | u32 m | mode, m bytes | pixels
//
// Pure function, safe from any thread.

#ifndef MILLRACE_SERVER_STORAGE_CHUNKS_RAW_IMAGE_H_
#define MILLRACE_SERVER_STORAGE_CHUNKS_RAW_IMAGE_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/storage/chunks/column_choice.h"

namespace millrace::storage {

// A ParseArrayHeader: [height, width] for the modes L, I, F, I;16 and
// [height, width, channels] for RGB, RGBA, ... nullopt: another mode (1, P).
absl::StatusOr<std::optional<ArrayHeader>> ParseRawImage(
    absl::Span<const uint8_t> value);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_CHUNKS_RAW_IMAGE_H_
