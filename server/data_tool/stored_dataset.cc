#include "server/data_tool/stored_dataset.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/byte_budget.h"
#include "common/count_text.h"
#include "common/first_of.h"
#include "common/status_macros.h"
#include "common/stop_signals.h"
#include "common/utf8.h"
#include "server/data_tool/image_check.h"
#include "server/data_tool/known_classes.h"
#include "server/data_tool/ordered_reads.h"
#include "server/data_tool/progress.h"
#include "server/data_tool/sample_place.h"
#include "server/storage/sample_files.h"

namespace millrace::data_tool {
namespace {

// Of decoded Parquet row groups.
constexpr uint64_t kCacheBytes = 256 << 20;

class StoredDataset final : public SampleReader {
 public:
  explicit StoredDataset(const StoredDatasetOptions& options)
      : options_(options), cache_(kCacheBytes) {}

  absl::Status Open() {
    MR_ASSIGN_OR_RETURN(OpenedSource opened,
                        OpenWithClasses(options_.uri,
                                        {.cache_budget = &cache_,
                                         .cache_bytes = kCacheBytes,
                                         .cache_dir = options_.cache_dir,
                                         .operators = options_.operators},
                                        options_.skip_bad));
    source_ = std::move(opened.source);
    doubt_ = std::move(opened.doubt);
    const DatasetInfo& info = source_->info();
    for (int i = 0; i < info.schema().fields_size(); ++i) {
      if (info.schema().fields(i).kind() == FIELD_KIND_ENCODED_IMAGE) {
        images_.push_back(i);
      }
    }
    if (options_.decode_threads == 0) images_.clear();
    if (options_.skip_bad || !images_.empty()) MR_RETURN_IF_ERROR(Check());
    const auto bad = static_cast<int64_t>(bad_.size());
    if (bad == info.samples()) {
      return absl::DataLossError(absl::StrCat(
          "no sample of ", options_.uri, " can be packed: ", BadSamples()));
    }
    if (bad > 0 && !options_.skip_bad) {
      return absl::DataLossError(absl::StrCat(
          bad == 1
              ? ""
              : absl::StrCat(CountText(bad, "sample"), " cannot be packed: "),
          BadSamples(), "; repair or remove ", bad == 1 ? "it" : "them",
          ", or skip such samples with --skip_bad"));
    }
    description_.set_samples(info.samples() - bad);
    *description_.mutable_schema() = info.schema();
    description_.set_train_preset(info.train_preset());
    description_.set_eval_preset(info.eval_preset());
    MR_ASSIGN_OR_RETURN(reads_, OrderedReads::Start(*source_, {}));
    return absl::OkStatus();
  }

  const DatasetInfo& description() const override { return description_; }

  absl::Status Next(Sample* sample) override {
    const OrderedReads::Sample* read = &reads_->Next();
    while (bad_.contains(read->index)) read = &reads_->Next();
    MR_RETURN_IF_ERROR(read->status);
    sample->fields = read->fields;
    const storage::SampleFiles* const files = source_->sample_files();
    sample->origin = files == nullptr ? "" : files->FileOf(read->index);
    // Parquet holds UTF-8.
    if (!IsUtf8(sample->origin)) sample->origin.clear();
    return ++given_ == description_.samples() ? source_->CheckFiles()
                                              : absl::OkStatus();
  }

  std::vector<std::string> Warnings() const override {
    std::vector<std::string> warnings;
    if (!doubt_.empty()) warnings.push_back(doubt_);
    if (!bad_.empty()) {
      warnings.push_back(absl::StrCat(CountText(bad_.size(), "bad sample"),
                                      " left out: ", BadSamples()));
    }
    for (const LeftOutColumn& column : source_->info().left_out()) {
      warnings.push_back(absl::StrCat("column ", column.name(),
                                      " left out: ", column.reason()));
    }
    return warnings;
  }

 private:
  std::string BadSamples() const {
    return FirstOf(first_bad_, "; ", static_cast<int64_t>(bad_.size()));
  }

  void AddBad(int64_t sample, absl::string_view why) {
    if (!bad_.insert(sample).second) return;  // two images of one sample
    if (first_bad_.size() >= kMaxListed) return;
    first_bad_.push_back(absl::StrCat("sample ", sample, " (",
                                      PlaceOf(*source_, sample), "): ", why));
  }

  // Reads every sample, decodes its images, and fills bad_.
  absl::Status Check() {
    const int64_t samples = source_->info().samples();
    const auto images = static_cast<int64_t>(images_.size());
    MR_ASSIGN_OR_RETURN(const auto reads, OrderedReads::Start(*source_, {}));
    ImageCheck check(std::max(options_.decode_threads, 1u), options_.operators);
    ToolProgress progress("checking", samples);
    std::vector<std::pair<int64_t, std::string>> bad;
    int64_t bytes = 0;
    for (int64_t i = 0; i < samples; ++i) {
      if (StopSignals::signal() != 0) {
        return absl::CancelledError(
            "interrupted during the check of the samples; nothing is written");
      }
      const OrderedReads::Sample& sample = reads->Next();
      if (!sample.status.ok()) {
        if (!absl::IsDataLoss(sample.status)) return sample.status;
        bad.emplace_back(i, sample.status.message());
        continue;
      }
      for (const auto& field : sample.fields) bytes += field.size();
      for (int64_t n = 0; n < images; ++n) {
        const auto& field = sample.fields[images_[n]];
        check.Add(i * images + n,
                  [copy = std::string(
                       reinterpret_cast<const char*>(field.data()),
                       field.size())]() mutable -> absl::StatusOr<std::string> {
                    return std::move(copy);
                  });
      }
      progress.Update(i + 1, bytes);
    }
    for (const ImageCheck::Bad& image : check.Finish()) {
      const Field& field =
          source_->info().schema().fields(images_[image.number % images]);
      bad.emplace_back(
          image.number / images,
          absl::StrCat("field ", field.name(),
                       " does not decode: ", image.status.message()));
    }
    std::sort(bad.begin(), bad.end());
    for (const auto& [sample, why] : bad) AddBad(sample, why);
    return absl::OkStatus();
  }

  const StoredDatasetOptions options_;
  ByteBudget cache_;
  std::unique_ptr<storage::RecordSource> source_;
  std::string doubt_;        // about the classes; empty: there is none
  std::vector<int> images_;  // fields to decode
  DatasetInfo description_;
  std::set<int64_t> bad_;               // samples that are left out
  std::vector<std::string> first_bad_;  // the first of them
  int64_t given_ = 0;
  std::unique_ptr<OrderedReads> reads_;  // last: it reads the source
};

}  // namespace

absl::StatusOr<std::unique_ptr<SampleReader>> OpenStoredDataset(
    const StoredDatasetOptions& options) {
  auto dataset = std::make_unique<StoredDataset>(options);
  MR_RETURN_IF_ERROR(dataset->Open());
  return dataset;
}

}  // namespace millrace::data_tool
