#include "server/data_tool/seekable_reader.h"

#include <any>
#include <deque>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "server/data_tool/parallel_reader.h"
#include "server/data_tool/report.h"
#include "server/decode/seekable_jpeg.h"

namespace millrace::data_tool {
namespace {

using Outcome = decode::SeekableJpeg::Outcome;

// Max images named in a warning.
constexpr size_t kMaxListed = 10;

class RewritingReader final : public SeekableReader {
 public:
  RewritingReader(std::unique_ptr<SampleReader> reader, uint32_t threads,
                  const operators::Operators* operators)
      : operators_(operators),
        images_(ImageFields(reader->description())),
        reader_(std::move(reader), {.threads = threads, .name = "mr-rewrite"},
                [this](ParallelReader::Work& work) { Rewrite(work); }) {}

  const DatasetInfo& description() const override {
    return reader_.description();
  }

  absl::Status Next(Sample* sample) override {
    MR_RETURN_IF_ERROR(reader_.Next(sample));
    for (const Image& image :
         std::any_cast<const Images&>(reader_.given().note)) {
      Count(image);
    }
    return absl::OkStatus();
  }

  std::vector<std::string> Warnings() const override {
    std::vector<std::string> warnings = reader_.Warnings();
    warnings.insert(warnings.end(), doubts_.begin(), doubts_.end());
    if (doubt_count_ > static_cast<int64_t>(doubts_.size())) {
      warnings.push_back(absl::StrCat("... and ", doubt_count_ - doubts_.size(),
                                      " more images stored unchanged"));
    }
    return warnings;
  }

  std::string Summary() const override {
    int64_t images = 0;
    std::vector<std::string> kept;
    for (int i = 0; i < decode::SeekableJpeg::kOutcomes; ++i) {
      images += counts_[i];
      if (counts_[i] == 0 || i == static_cast<int>(Outcome::kRewritten)) {
        continue;
      }
      kept.push_back(
          absl::StrCat(counts_[i], " ",
                       decode::SeekableJpeg::Reason(static_cast<Outcome>(i))));
    }
    images += operators_count_;
    if (operators_count_ > 0) {
      kept.push_back(
          absl::StrCat(operators_count_, " for a decoder of --operators"));
    }
    const int64_t rewritten = counts_[static_cast<int>(Outcome::kRewritten)];
    std::string text =
        absl::StrFormat("made %d of %d images seekable", rewritten, images);
    if (rewritten > 0) {
      absl::StrAppendFormat(&text, ": %s became %s (%+.1f %%)",
                            SizeText(bytes_before_), SizeText(bytes_after_),
                            100.0 * (bytes_after_ - bytes_before_) /
                                static_cast<double>(bytes_before_));
    }
    if (!kept.empty()) {
      absl::StrAppend(&text, "; stored unchanged: ", absl::StrJoin(kept, ", "));
    }
    return text;
  }

 private:
  struct Image {
    bool of_operators;  // true: the other fields have no meaning
    Outcome outcome;
    std::string message;
    size_t bytes_before;
    size_t bytes_after;
  };
  using Images = std::vector<Image>;

  static std::vector<int> ImageFields(const DatasetInfo& info) {
    std::vector<int> images;
    for (int i = 0; i < info.schema().fields_size(); ++i) {
      if (info.schema().fields(i).kind() == FIELD_KIND_ENCODED_IMAGE) {
        images.push_back(i);
      }
    }
    return images;
  }

  void Rewrite(ParallelReader::Work& work) {
    std::unique_ptr<decode::SeekableJpeg> rewriter = rewriters_.Take();
    Images images;
    std::string out;
    for (const int i : images_) {
      std::string& field = work.fields[i];
      const absl::Span<const uint8_t> bytes = {
          reinterpret_cast<const uint8_t*>(field.data()), field.size()};
      Image image = {};
      if (operators_ != nullptr && operators_->SniffedBy(bytes) != nullptr) {
        image.of_operators = true;
        images.push_back(std::move(image));
        continue;
      }
      image.bytes_before = field.size();
      image.outcome = rewriter->Rewrite(bytes, &out);
      image.message = std::string(rewriter->message());
      if (image.outcome == Outcome::kRewritten) field.swap(out);
      image.bytes_after = field.size();
      images.push_back(std::move(image));
    }
    work.note = std::move(images);
    rewriters_.Give(std::move(rewriter));
  }

  void Count(const Image& image) {
    if (image.of_operators) {
      ++operators_count_;
      return;
    }
    ++counts_[static_cast<int>(image.outcome)];
    if (image.outcome == Outcome::kRewritten) {
      bytes_before_ += image.bytes_before;
      bytes_after_ += image.bytes_after;
    }
    if (image.outcome == Outcome::kDamaged ||
        image.outcome == Outcome::kDifferent) {
      ++doubt_count_;
      if (doubts_.size() >= kMaxListed) return;
      doubts_.push_back(absl::StrCat(
          reader_.given().origin, " is stored unchanged: ",
          image.outcome == Outcome::kDamaged
              ? absl::StrCat("it is damaged (", image.message, ")")
              : "after rewriting it would decode to other pixels"));
    }
  }

  const operators::Operators* const operators_;
  const std::vector<int> images_;  // indices in the schema

  int64_t counts_[decode::SeekableJpeg::kOutcomes] = {};
  int64_t operators_count_ = 0;
  int64_t bytes_before_ = 0;  // of the rewritten images
  int64_t bytes_after_ = 0;
  int64_t doubt_count_ = 0;
  std::vector<std::string> doubts_;  // the first warnings

  SpareStates<decode::SeekableJpeg> rewriters_;
  ParallelReader reader_;  // last, because its threads use the members above
};

}  // namespace

std::unique_ptr<SeekableReader> MakeSeekable(
    std::unique_ptr<SampleReader> reader, uint32_t threads,
    const operators::Operators* operators) {
  return std::make_unique<RewritingReader>(std::move(reader), threads,
                                           operators);
}

}  // namespace millrace::data_tool
