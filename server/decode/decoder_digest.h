// DecoderDigest says what the image decoders of this process make of the
// built-in images: 32 hexadecimal digits that two servers share when their
// libjpeg, libpng and libwebp make the same pixels, whatever their versions. It
// is part of every plan that decodes images. Decoders of operators are not in
// it: a spec names their files.
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

namespace millrace {

// Internal: an image is not decoded; names it and the reason.
absl::StatusOr<std::string> DecoderDigest();

// Of `images`, decoded anew: whole, in part, at every scale, in both numbers of
// channels.
absl::StatusOr<std::string> DigestOf(absl::Span<const ProbeImage> images);

}  // namespace millrace

#endif  // MILLRACE_SERVER_DECODE_DECODER_DIGEST_H_
