// The plan hash: 16 bytes that two servers share when, and only when, they
// give the same batches: resolved spec, content fingerprint, content revision
// and, of a plan that decodes images, what the decoders make of images. Opaque
// to clients. The encoding that is hashed is our own and leaves default values
// out, so that a field which a later version adds does not change the hash of
// specs that do not use it; docs/protocol.md has it.
//
// Pure functions, safe from any thread.

#ifndef MILLRACE_SERVER_PLAN_PLAN_HASH_H_
#define MILLRACE_SERVER_PLAN_PLAN_HASH_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "proto/names.h"
#include "proto/pipeline.pb.h"

namespace millrace {

// The canonical encoding of a resolved spec.
std::string CanonicalEncoding(const PipelineSpec& resolved);

// The fingerprint of a plan: that of its source or, of several, 32 hexadecimal
// digits of XXH3-128 over all of them in their order.
std::string JoinFingerprints(absl::Span<const std::string> fingerprints);

// Whether the batches depend on the image decoders.
bool DecodesImages(const PipelineSpec& resolved);

// XXH3-128 (canonical big-endian form) of revision, fingerprint, encoding and,
// where DecodesImages() and it is not empty, `decoder_digest`.
std::string PlanHash(const PipelineSpec& resolved,
                     absl::string_view fingerprint, uint32_t content_revision,
                     absl::string_view decoder_digest = "");

}  // namespace millrace

#endif  // MILLRACE_SERVER_PLAN_PLAN_HASH_H_
