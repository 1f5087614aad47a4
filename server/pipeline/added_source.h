// AddedSource is a dataset that was added to a running engine and may be
// removed again. It owns the readers of its dataset: worker threads keep theirs
// for long, and a reader of storage must not outlive its source. When the last
// pipeline of the dataset is gone, the source closes its readers and the files;
// what a worker thread still holds is an empty handle.
//
// Immutable as other sources are; thread-safe. A reader of it belongs to one
// thread at a time, is used while the source lives, and may be destroyed later,
// by any thread.
//
//   auto added = std::make_shared<AddedSource>("photos", std::move(source));
//   datasets.push_back({&added->named_info(), added});

#ifndef MILLRACE_SERVER_PIPELINE_ADDED_SOURCE_H_
#define MILLRACE_SERVER_PIPELINE_ADDED_SOURCE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/mutex.h"
#include "proto/dataset.pb.h"
#include "proto/names.h"
#include "server/storage/forwarding_source.h"
#include "server/storage/record_source.h"

namespace millrace::pipeline {

class AddedSource final : public storage::ForwardingSource {
 public:
  AddedSource(const std::string& name,
              std::shared_ptr<const storage::RecordSource> base);
  ~AddedSource() override;

  // info() with the name that the dataset is registered under.
  const DatasetInfo& named_info() const { return named_info_; }

  absl::StatusOr<std::unique_ptr<storage::RecordReader>> NewReader()
      const override;

 private:
  // What a handle and the source share. The first of the two to be destroyed
  // closes the reader.
  struct OpenReader {
    Mutex mu;
    std::unique_ptr<storage::RecordReader> reader MR_GUARDED_BY(mu);
    void Close();
  };
  class Handle;

  DatasetInfo named_info_;  // constant after the constructor
  mutable Mutex mu_;
  // Expired: the handle is gone.
  mutable std::vector<std::weak_ptr<OpenReader>> readers_ MR_GUARDED_BY(mu_);
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_SERVER_PIPELINE_ADDED_SOURCE_H_
