// CRC-32C (Castagnoli), the checksum of TensorFlow's record files. What it is
// not: fast. A table of 256 words is enough for the few kilobytes a minute of a
// training log.
//
// Pure functions, safe from any thread.
//
//   const uint32_t mask = MaskCrc32c(Crc32c(record));
//
// Polynomial 0x1EDC6F41, as in RFC 3720 (iSCSI), appendix B.4, which also has
// the values of the tests.

#ifndef MILLRACE_TRAINER_MONITORING_CRC32C_H_
#define MILLRACE_TRAINER_MONITORING_CRC32C_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace millrace::monitoring {

uint32_t Crc32c(absl::string_view bytes);

// As record files store it, so that the checksum of bytes that hold checksums
// is no weaker: turned right by 15 bits, plus 0xa282ead8
// (tensorflow/core/lib/hash/crc32c.h).
uint32_t MaskCrc32c(uint32_t crc);

}  // namespace millrace::monitoring

#endif  // MILLRACE_TRAINER_MONITORING_CRC32C_H_
