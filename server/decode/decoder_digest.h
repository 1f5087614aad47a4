// DecoderDigest is a digest of the built-in images as the decoders of this
// process decode them: 32 hexadecimal digits that are equal on two servers
// whose libjpeg, libpng and libwebp produce the same pixels, whatever their
// versions. It is part of every plan that decodes images. It does not cover
// decoders of operators: a spec names their files.
//
// Thread-safe. The images are decoded once in a process, in some milliseconds.
//
//   MR_ASSIGN_OR_RETURN(const std::string digest, DecoderDigest());

#ifndef MILLRACE_SERVER_DECODE_DECODER_DIGEST_H_
#define MILLRACE_SERVER_DECODE_DECODER_DIGEST_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/decode/probe_images.h"

namespace millrace::decode {

// Internal: an image is not decoded; names it and the reason.
absl::StatusOr<std::string> DecoderDigest();

// Of `images`, each decoded whole, in part, at every scale, in both numbers of
// channels.
absl::StatusOr<std::string> DigestOf(absl::Span<const ProbeImage> images);

}  // namespace millrace::decode

#endif  // MILLRACE_SERVER_DECODE_DECODER_DIGEST_H_
