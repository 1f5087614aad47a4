// CRC-32C (Castagnoli's polynomial, as in RFC 3720), and the masked form in
// which TFRecord files store it.
//
// It is no protection against an attacker.
//
// Pure functions, safe from any thread.
//
//   if (MaskedCrc32c(payload) != stored) return Damaged();

#ifndef MILLRACE_SERVER_STORAGE_TFRECORD_CRC32C_H_
#define MILLRACE_SERVER_STORAGE_TFRECORD_CRC32C_H_

#include <cstdint>

#include "absl/types/span.h"

namespace millrace::storage {

uint32_t Crc32c(absl::Span<const uint8_t> bytes);

// As Crc32c(), without the CPU's instruction for it: what CPUs without SSE4.2
// run.
uint32_t Crc32cByTable(absl::Span<const uint8_t> bytes);

// The checksum of `bytes` as a TFRecord file stores it: rotated and with a
// constant added, so that the checksum of bytes that hold a checksum is as good
// as any other.
uint32_t MaskedCrc32c(absl::Span<const uint8_t> bytes);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_TFRECORD_CRC32C_H_
