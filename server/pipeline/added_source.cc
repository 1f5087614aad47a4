#include "server/pipeline/added_source.h"

#include <utility>

#include "absl/functional/function_ref.h"
#include "common/status_macros.h"

namespace millrace::pipeline {

void AddedSource::OpenReader::Close() {
  // Under the lock: the source, which closes its files next, must not find an
  // empty handle while another thread still destroys the reader.
  MutexLock lock(mu);
  reader.reset();
}

class AddedSource::Handle final : public storage::RecordReader {
 public:
  Handle(std::shared_ptr<OpenReader> open, storage::RecordReader* reader)
      : open_(std::move(open)), reader_(reader) {}
  ~Handle() override { open_->Close(); }

  absl::Status Read(
      int64_t index,
      absl::FunctionRef<absl::Status(const storage::EncodedSample&)> visit)
      override {
    return reader_->Read(index, visit);
  }
  absl::Status UseFields(const std::vector<bool>& used) override {
    return reader_->UseFields(used);
  }
  void Prefetch(int64_t index) override { reader_->Prefetch(index); }
  void Release() override { reader_->Release(); }

 private:
  const std::shared_ptr<OpenReader> open_;
  // That of open_. Used without its lock: the caller holds the source, so only
  // this handle can close the reader.
  storage::RecordReader* const reader_;
};

AddedSource::AddedSource(const std::string& name,
                         std::shared_ptr<const storage::RecordSource> base)
    : ForwardingSource(std::move(base)), named_info_(this->base().info()) {
  named_info_.set_name(name);
}

AddedSource::~AddedSource() {
  // Threads may keep handles longer than the dataset is served. The readers
  // behind them are closed here, so that the files close when the dataset is
  // removed. No handle is in use any more: a user of one holds the source.
  std::vector<std::weak_ptr<OpenReader>> readers;
  {
    MutexLock lock(mu_);
    readers.swap(readers_);
  }
  for (const std::weak_ptr<OpenReader>& weak : readers) {
    if (const std::shared_ptr<OpenReader> open = weak.lock()) open->Close();
  }
}

absl::StatusOr<std::unique_ptr<storage::RecordReader>> AddedSource::NewReader()
    const {
  MR_ASSIGN_OR_RETURN(std::unique_ptr<storage::RecordReader> reader,
                      base().NewReader());
  storage::RecordReader* const used = reader.get();
  auto open = std::make_shared<OpenReader>();
  {
    MutexLock lock(open->mu);
    open->reader = std::move(reader);
  }
  {
    MutexLock lock(mu_);
    // Handles that are gone are removed here and not in their destructor, which
    // then needs no reference to the source.
    std::erase_if(readers_, [](const std::weak_ptr<OpenReader>& other) {
      return other.expired();
    });
    readers_.push_back(open);
  }
  return std::make_unique<Handle>(std::move(open), used);
}

}  // namespace millrace::pipeline
