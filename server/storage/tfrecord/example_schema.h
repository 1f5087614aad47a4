// The rule of a dataset of tf.train.Examples: which features become fields, and
// of which kinds, by the first record and the options.
//
// Pure function.
//
//   MR_ASSIGN_OR_RETURN(auto rule, InferExampleRule(payload, options));

#ifndef MILLRACE_SERVER_STORAGE_TFRECORD_EXAMPLE_SCHEMA_H_
#define MILLRACE_SERVER_STORAGE_TFRECORD_EXAMPLE_SCHEMA_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/storage/tfrecord/example_options.h"
#include "server/storage/tfrecord/example_rule.h"

namespace millrace::storage {

// Max number of features that become fields without being named.
inline constexpr int kMaxExampleFields = 256;

// `payload` is that of the first record, without its checksum. Fields: image,
// label, those of `fields` in their order; without any of these the features of
// the record in bytewise order of their names.
//
// DataLoss: the payload is damaged. Unimplemented: it is no tf.train.Example.
// InvalidArgument: a feature cannot become a field, or an option names one that
// the record does not have; the message names the feature and the option that
// helps.
absl::StatusOr<std::unique_ptr<ExampleRule>> InferExampleRule(
    absl::Span<const uint8_t> payload, const ExampleOptions& options);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_TFRECORD_EXAMPLE_SCHEMA_H_
