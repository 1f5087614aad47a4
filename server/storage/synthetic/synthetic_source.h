// A dataset without storage: sample i is computed from (seed, fields, i), so up
// to 10^12 samples take no memory. It replaces storage in measurements and
// tests: with a latency, every read blocks its thread like a read from a
// distant object store.
//
// Fields of plain integers are windows of one table of noise that all sources
// of the process share (9 MiB, made at the first use): to read such a sample
// costs what it costs to read one from the page cache, and 65,536 contents
// differ. Others (classes, floating point, bool) are computed sample by sample.
//
// Thread-safe as RecordSource says. Its readers may outlive it.
//
//   MR_ASSIGN_OR_RETURN(auto source, NewSyntheticSource(spec.synthetic()));

#ifndef MILLRACE_SERVER_STORAGE_SYNTHETIC_SYNTHETIC_SOURCE_H_
#define MILLRACE_SERVER_STORAGE_SYNTHETIC_SYNTHETIC_SOURCE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "proto/names.h"
#include "proto/pipeline.pb.h"
#include "server/storage/record_source.h"

namespace millrace::storage {

// The name that errors and descriptions call it by.
inline constexpr char kSyntheticName[] = "synthetic";

// The fingerprint follows from samples, fields and seed: what a wait or
// ready_batches change is no content. InvalidArgument: see CheckSynthetic().
absl::StatusOr<std::shared_ptr<const RecordSource>> NewSyntheticSource(
    const Synthetic& synthetic);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_SYNTHETIC_SYNTHETIC_SOURCE_H_
