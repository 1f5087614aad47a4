// The plan hash: 16 bytes that are equal on two servers exactly when the
// servers give the same batches. It covers the resolved spec, the content
// fingerprint, the content revision and, for a plan that decodes images, the
// decoder digest. Opaque to clients. The hashed encoding is specific to this
// program and leaves out default values, so that a field of a later version
// does not change the hash of specs that do not use it (docs/protocol.md).
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

namespace millrace::plan {

// The canonical encoding of a resolved spec, without what changes no batch: the
// compression, and numbers in the names of datasets (proto/dataset_name.h).
std::string CanonicalEncoding(const PipelineSpec& resolved);

// The fingerprint of a plan: that of its source; for several sources, 32
// hexadecimal digits of XXH3-128 over all fingerprints in order.
std::string JoinFingerprints(absl::Span<const std::string> fingerprints);

// Whether the batches depend on the image decoders.
bool DecodesImages(const PipelineSpec& resolved);

// XXH3-128 (canonical big-endian form) of revision, fingerprint, encoding and,
// if DecodesImages() and it is not empty, `decoder_digest`.
std::string PlanHash(const PipelineSpec& resolved,
                     absl::string_view fingerprint, uint32_t content_revision,
                     absl::string_view decoder_digest = "");

}  // namespace millrace::plan

#endif  // MILLRACE_SERVER_PLAN_PLAN_HASH_H_
