// A dataset that lives in memory: for tests and benchmarks.
// It is a full RecordSource: it checks samples against the schema and has a
// fingerprint, equal to that of the same content packed into files.
//
// Thread-safe, immutable; owns the samples.
//
//   DatasetInfo info;
//   Field* label = info.mutable_schema()->add_fields();
//   ...
//   auto source = NewMemorySource(info, {{image0, label0}, {image1, label1}});

#ifndef MILLRACE_TESTS_SERVER_STORAGE_MEMORY_MEMORY_SOURCE_H_
#define MILLRACE_TESTS_SERVER_STORAGE_MEMORY_MEMORY_SOURCE_H_

#include <memory>
#include <string>
#include <vector>

#include "server/storage/record_source.h"

namespace millrace::storage {

// `samples[i][j]` holds the bytes of schema.fields(j) of sample i. Of `info`
// the schema must be valid and every sample must have as many fields as it
// (checked: a mistake here is a bug). Format and sample count are filled in;
// so are the fingerprint and one shard named "memory" where `info` has none.
std::shared_ptr<const RecordSource> NewMemorySource(
    DatasetInfo info, std::vector<std::vector<std::string>> samples);

}  // namespace millrace::storage

#endif  // MILLRACE_TESTS_SERVER_STORAGE_MEMORY_MEMORY_SOURCE_H_
