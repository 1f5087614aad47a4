#include "server/opening_advice.h"

#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "common/byte_budget.h"
#include "proto/dataset.pb.h"
#include "proto/names.h"
#include "server/budget_advice.h"
#include "server/pipeline/memory_use.h"
#include "server/storage/open.h"
#include "server/storage/record_source.h"
#include "server/storage/schemes.h"

namespace millrace::server {
namespace {

// An image folder, or records in files, of which only the memory is known. No
// sample is read.
class UnopenedFolder final : public storage::RecordSource {
 public:
  // `known`: its description; null: images of classes.
  UnopenedFolder(uint64_t metadata_bytes, const DatasetInfo* known)
      : metadata_bytes_(metadata_bytes) {
    if (known != nullptr) {
      info_ = *known;
      return;
    }
    info_.set_samples(1);
    info_.set_train_preset("imagenet_train");
    info_.set_eval_preset("imagenet_eval");
    Field& image = *info_.mutable_schema()->add_fields();
    image.set_name("image");
    image.set_kind(FIELD_KIND_ENCODED_IMAGE);
    Field& label = *info_.mutable_schema()->add_fields();
    label.set_name("label");
    label.set_kind(FIELD_KIND_TENSOR);
    label.set_dtype(DTYPE_INT64);
    label.set_num_classes(1);
  }

  const DatasetInfo& info() const override { return info_; }
  absl::StatusOr<std::unique_ptr<storage::RecordReader>> NewReader()
      const override {
    return absl::UnimplementedError("the folder is not open");
  }
  storage::ReadWait read_wait() const override {
    return storage::ReadWait::kRead;
  }
  uint64_t metadata_bytes() const override { return metadata_bytes_; }

 private:
  const uint64_t metadata_bytes_;
  DatasetInfo info_;
};

// Budgets of the size of the server's, for one dataset.
struct OwnBudgets {
  explicit OwnBudgets(const storage::OpenSourceOptions& server)
      : caches(server.cache_budget->capacity()),
        metadata(server.metadata_budget->capacity()),
        reads(server.read_budget->capacity()) {}
  ByteBudget caches;
  ByteBudget metadata;
  ByteBudget reads;
};

}  // namespace

std::string OpeningAdvice::Sentence(const pipeline::DatasetCatalog& opened,
                                    const std::string& refused, uint64_t bytes,
                                    const DatasetInfo* known) const {
  // Destroyed after the sources.
  std::deque<OwnBudgets> budgets;
  pipeline::DatasetCatalog all = opened;
  all[refused] = std::make_shared<UnopenedFolder>(bytes, known);
  for (const ServerSettings::Dataset& dataset : settings_.datasets) {
    if (all.contains(dataset.name)) continue;
    OwnBudgets& own = budgets.emplace_back(sources_);
    uint64_t wanted = 0;
    std::optional<DatasetInfo> refused_too;
    storage::OpenSourceOptions options = sources_;
    options.cache_budget = &own.caches;
    options.metadata_budget = &own.metadata;
    options.read_budget = &own.reads;
    options.metadata_advice = [&](uint64_t more, const DatasetInfo* about) {
      wanted = own.metadata.used() + more;
      if (about != nullptr) refused_too = *about;
      return std::string();
    };
    absl::StatusOr<std::unique_ptr<storage::RecordSource>> source =
        storage::OpenRecordSource(dataset.uri, options);
    if (source.ok() && !storage::ReadsFiles(dataset.uri)) {
      all[dataset.name] = *std::move(source);
    } else if (source.ok()) {  // without its list
      all[dataset.name] = std::make_shared<UnopenedFolder>(
          (*source)->metadata_bytes(), &(*source)->info());
    } else if (wanted > 0) {
      all[dataset.name] = std::make_shared<UnopenedFolder>(
          wanted, refused_too.has_value() ? &*refused_too : nullptr);
    }
    // Another error is none of memory: it is said when this one is gone.
  }
  const absl::StatusOr<pipeline::MemoryNeeds> needs =
      pipeline::Engine::Needs(options_, all);
  if (!needs.ok()) return "";
  return BudgetAdvice(settings_, options_, all, *needs)
      .Sentence(pipeline::kMinBatchBytes + 1);
}

}  // namespace millrace::server
