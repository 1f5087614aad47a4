#include "server/budget_advice.h"

#include <algorithm>
#include <memory>
#include <set>

#include "absl/strings/str_cat.h"
#include "common/byte_budget.h"
#include "server/cache_of_budget.h"
#include "server/storage/record_source.h"

namespace millrace::server {
namespace {

constexpr uint64_t kMiB = 1 << 20;
// Number of candidates that are tried one by one: creating an engine takes
// milliseconds.
constexpr int kOneByOne = 512;
// Larger than the memory of any machine.
constexpr uint64_t kMaxBudget = uint64_t{1} << 50;
// Enough for a few rows of any preset.
constexpr uint64_t kBatchOfAnyPreset = 16 * kMiB;
constexpr char kNone[] = "no memory budget is sufficient";

// A dataset of images, the kind of data for which threads need the most memory.
class OfImages final : public storage::RecordSource {
 public:
  OfImages() {
    Field& image = *info_.mutable_schema()->add_fields();
    image.set_name("image");
    image.set_kind(FIELD_KIND_ENCODED_IMAGE);
  }
  const DatasetInfo& info() const override { return info_; }
  absl::StatusOr<std::unique_ptr<storage::RecordReader>> NewReader()
      const override {
    return absl::UnimplementedError("the source has no samples");
  }
  storage::ReadWait read_wait() const override {
    return storage::ReadWait::kRead;
  }

 private:
  DatasetInfo info_;
};

// Whether the pipeline can be built and a batch of one rank fits. Other
// mistakes, for example a preset for images of different sizes, are reported
// elsewhere, and no budget corrects them.
bool Fits(
    const absl::StatusOr<std::shared_ptr<const pipeline::Pipeline>>& pipeline) {
  if (!pipeline.ok()) return !absl::IsFailedPrecondition(pipeline.status());
  return (*pipeline)->MaxPayloadBytes(1).ok();
}

}  // namespace

uint64_t BudgetForFooters(const ServerSettings& settings,
                          const pipeline::Engine::Options& options,
                          uint64_t bytes) {
  absl::StatusOr<pipeline::MemoryNeeds> needs = pipeline::Engine::Needs(
      options, {{"images", std::make_shared<OfImages>()}});
  if (!needs.ok()) return 0;
  needs->file_metadata = bytes;
  return pipeline::SmallestBudget(*needs, kBatchOfAnyPreset,
                                  [&settings](uint64_t budget) {
                                    return ReadMemoryBytes(settings, budget);
                                  });
}

std::vector<PipelineSpec> PresetSpecs(const pipeline::DatasetCatalog& catalog,
                                      uint64_t rows) {
  std::vector<PipelineSpec> specs;
  for (const auto& [name, source] : catalog) {
    const DatasetInfo& info = source->info();
    std::set<std::string> presets = {info.train_preset(), info.eval_preset()};
    presets.erase("");
    if (presets.empty()) presets.insert("");  // the fields without transforms
    for (const std::string& preset : presets) {
      PipelineSpec& spec = specs.emplace_back();
      spec.add_sources()->set_dataset(name);
      spec.set_preset(preset);
      spec.set_last_batch(LAST_BATCH_PAD);
      spec.set_batch_size(rows);
    }
  }
  return specs;
}

std::string BudgetAdvice::Sentence(uint64_t wanted,
                                   const PipelineSpec* spec) const {
  // The calculation gives a lower bound, because it uses the current number of
  // threads. The part for the datasets of leases grows with the budget.
  pipeline::MemoryNeeds needs = needs_;
  needs.file_metadata -= options_.added_metadata_bytes;
  uint64_t yes =
      pipeline::SmallestBudget(needs, wanted, [this](uint64_t bytes) {
        return ReadMemoryBytes(settings_, bytes) +
               LeasedMetadataBytes(settings_, bytes);
      });
  if (yes == 0) return kNone;
  yes = std::max(yes, kMinBudgetBytes);
  uint64_t no = yes - kMiB;
  // The first candidates are tried one by one: if each thread needs much
  // memory, a smaller budget with fewer threads may work although a larger one
  // does not. Then the distance doubles, so that few engines are created.
  for (int tried = 0; !Works(yes, spec); ++tried) {
    if (yes > kMaxBudget) return kNone;
    const uint64_t step = tried < kOneByOne ? kMiB : 2 * (yes - no);
    no = yes;
    yes += step;
  }
  while (yes - no > kMiB) {
    const uint64_t middle = no + (yes - no) / 2 / kMiB * kMiB;
    (Works(middle, spec) ? yes : no) = middle;
  }
  return absl::StrCat(
      "the smallest sufficient value is --memory_budget=", yes / kMiB, "MiB");
}

bool BudgetAdvice::Works(uint64_t budget, const PipelineSpec* spec) const {
  ByteBudget bytes(budget);
  pipeline::Engine::Options options = options_;
  options.budget = &bytes;
  options.budget_held_elsewhere_bytes = ReadMemoryBytes(settings_, budget);
  options.added_metadata_bytes = LeasedMetadataBytes(settings_, budget);
  options.decoder_digest = "not compared";  // saves the decoding for it
  pipeline::DatasetCatalog catalog;
  for (const auto& [name, source] : catalog_) {
    catalog[name] = std::make_shared<CacheOfBudget>(
        source, RowGroupCacheBytesEach(settings_, budget));
  }
  const auto engine = pipeline::Engine::Create(options, catalog);
  if (!engine.ok()) return false;
  for (const PipelineSpec& preset : PresetSpecs(catalog_, 1)) {
    if (!PresetWorks(**engine, preset)) return false;
  }
  return (spec == nullptr || Fits((*engine)->Open(*spec))) &&
         std::all_of(specs_.begin(), specs_.end(),
                     [&](const PipelineSpec& one) {
                       return Fits((*engine)->Open(one));
                     });
}

bool BudgetAdvice::PresetWorks(pipeline::Engine& engine,
                               const PipelineSpec& preset) const {
  const auto pipeline = engine.Open(preset);
  return (!pipeline.ok() && Reads(preset.sources(0).dataset())) ||
         Fits(pipeline);
}

bool BudgetAdvice::Reads(const std::string& dataset) const {
  return std::any_of(
      specs_.begin(), specs_.end(), [&](const PipelineSpec& spec) {
        return std::any_of(
            spec.sources().begin(), spec.sources().end(),
            [&](const Source& source) { return source.dataset() == dataset; });
      });
}

}  // namespace millrace::server
