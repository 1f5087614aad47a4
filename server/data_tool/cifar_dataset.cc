#include "server/data_tool/cifar_dataset.h"

#include <unistd.h>

#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/count_text.h"
#include "common/regular_file.h"
#include "common/status_macros.h"
#include "common/usage_error.h"
#include "server/data_tool/png_encoder.h"

namespace millrace::data_tool {
namespace {

constexpr int64_t kSide = 32;
constexpr int64_t kPlane = kSide * kSide;
constexpr int64_t kChannels = 3;
constexpr int64_t kImageBytes = kPlane * kChannels;
constexpr int kTrainBatches = 5;  // of CIFAR-10
// More than CIFAR-10 has, so that a file beyond a gap is found.
constexpr int kMaxBatches = 99;

// A label byte of each record, and the field that it becomes.
struct LabelByte {
  const char* field;
  int64_t classes;
  const char* names_file;
};
constexpr LabelByte kTenClasses = {"label", 10, "batches.meta.txt"};
constexpr LabelByte kCoarse = {"coarse_label", 20, "coarse_label_names.txt"};
constexpr LabelByte kFine = {"label", 100, "fine_label_names.txt"};

bool Exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

absl::Status Missing(absl::string_view name, const std::string& folder) {
  return UsageError(absl::NotFoundError(absl::StrCat(
      "there is no ", name, " in ", folder,
      "; set --input to the folder of the binary version's .bin files and "
      "--split to train or test")));
}

// The training files of CIFAR-10, which are numbered from 1.
absl::StatusOr<std::vector<std::string>> BatchFiles(const std::string& folder) {
  std::vector<std::string> files;
  std::string missing;
  for (int i = 1; i <= kMaxBatches; ++i) {
    const std::string name = absl::StrCat("data_batch_", i, ".bin");
    std::string path = absl::StrCat(folder, "/", name);
    if (!Exists(path)) {
      if (missing.empty()) missing = name;
      continue;
    }
    if (!missing.empty()) return Missing(missing, folder);
    files.push_back(std::move(path));
  }
  if (files.empty()) return Missing(missing, folder);
  return files;
}

class CifarDataset final : public SampleReader {
 public:
  explicit CifarDataset(const CifarOptions& options)
      : options_(options),
        labels_(options.fine_and_coarse ? std::vector<LabelByte>{kCoarse, kFine}
                                        : std::vector<LabelByte>{kTenClasses}),
        record_bytes_(static_cast<int64_t>(labels_.size()) + kImageBytes) {}

  absl::Status Open() {
    std::vector<std::string> paths;
    if (!options_.fine_and_coarse && options_.split == "train") {
      MR_ASSIGN_OR_RETURN(paths, BatchFiles(options_.folder));
    } else {
      const std::string name = options_.fine_and_coarse
                                   ? absl::StrCat(options_.split, ".bin")
                                   : "test_batch.bin";
      paths = {absl::StrCat(options_.folder, "/", name)};
      if (!Exists(paths[0])) return Missing(name, options_.folder);
    }
    batches_ = static_cast<int>(paths.size());
    for (const std::string& path : paths) MR_RETURN_IF_ERROR(Read(path));
    return Describe();
  }

  const DatasetInfo& description() const override { return description_; }

  absl::Status Next(Sample* sample) override {
    const auto* const record =
        reinterpret_cast<const uint8_t*>(records_.data()) +
        next_ * record_bytes_;
    const uint8_t* const planes = record + labels_.size();
    for (int64_t pixel = 0; pixel < kPlane; ++pixel) {
      for (int64_t channel = 0; channel < kChannels; ++channel) {
        pixels_[pixel * kChannels + channel] = planes[channel * kPlane + pixel];
      }
    }
    absl::Span<const uint8_t> image(pixels_, kImageBytes);
    if (options_.as_png) {
      MR_RETURN_IF_ERROR(EncodePng(image, kSide, kSide, kChannels, &png_));
      image = {reinterpret_cast<const uint8_t*>(png_.data()), png_.size()};
    }
    sample->fields = {image};
    // The last label byte is the field `label`, and comes first.
    for (size_t i = labels_.size(); i-- > 0;) {
      values_[i] = record[i];
      sample->fields.emplace_back(reinterpret_cast<const uint8_t*>(&values_[i]),
                                  sizeof(values_[i]));
    }
    sample->origin = options_.as_png ? absl::StrCat(next_, ".png") : "";
    ++next_;
    return absl::OkStatus();
  }

  std::vector<std::string> Warnings() const override {
    if (options_.fine_and_coarse || options_.split != "train" ||
        batches_ == kTrainBatches) {
      return {};
    }
    return {absl::StrCat("the training data are ", CountText(batches_, "file"),
                         " data_batch_N.bin; "
                         "CIFAR-10 has ",
                         kTrainBatches)};
  }

 private:
  absl::Status Read(const std::string& path) {
    std::string bytes;
    MR_RETURN_IF_ERROR(ReadRegularFile(path, &bytes));
    const auto size = static_cast<int64_t>(bytes.size());
    if (size == 0 || size % record_bytes_ != 0) {
      return absl::DataLossError(
          absl::StrCat(path, " has ", CountText(bytes.size(), "byte"),
                       ", which is no multiple of ", record_bytes_,
                       " (the bytes of a record of CIFAR-",
                       options_.fine_and_coarse ? 100 : 10,
                       "): it is truncated or another file; copy it again"));
    }
    for (int64_t at = 0; at < size; at += record_bytes_) {
      for (size_t i = 0; i < labels_.size(); ++i) {
        const auto label = static_cast<uint8_t>(bytes[at + i]);
        if (label < labels_[i].classes) continue;
        return absl::DataLossError(absl::StrCat(
            path, " has ", labels_[i].field, " ", label, " at byte ", at + i,
            ", but there are ", labels_[i].classes,
            " classes: it is damaged or another file; copy it again"));
      }
    }
    records_ += bytes;
    return absl::OkStatus();
  }

  absl::Status Describe() {
    description_.set_samples(static_cast<int64_t>(records_.size()) /
                             record_bytes_);
    Field* const image = description_.mutable_schema()->add_fields();
    image->set_name("image");
    if (options_.as_png) {
      image->set_kind(FIELD_KIND_ENCODED_IMAGE);
    } else {
      image->set_kind(FIELD_KIND_TENSOR);
      image->set_dtype(DTYPE_UINT8);
      for (const int64_t extent : {kSide, kSide, kChannels}) {
        image->add_shape(extent);
      }
    }
    for (size_t i = labels_.size(); i-- > 0;) {
      Field* const field = description_.mutable_schema()->add_fields();
      field->set_name(labels_[i].field);
      field->set_kind(FIELD_KIND_TENSOR);
      field->set_dtype(DTYPE_INT64);
      field->set_num_classes(labels_[i].classes);
      MR_RETURN_IF_ERROR(NameClasses(labels_[i], field));
    }
    description_.set_train_preset("cifar_train");
    description_.set_eval_preset("cifar_eval");
    return absl::OkStatus();
  }

  // Without the file, classes have no names.
  absl::Status NameClasses(const LabelByte& label, Field* field) const {
    const std::string path =
        absl::StrCat(options_.folder, "/", label.names_file);
    if (!Exists(path)) return absl::OkStatus();
    std::string text;
    MR_RETURN_IF_ERROR(ReadRegularFile(path, &text));
    for (absl::string_view line : absl::StrSplit(text, '\n')) {
      line = absl::StripAsciiWhitespace(line);
      if (!line.empty()) field->add_class_names(std::string(line));
    }
    if (field->class_names_size() == label.classes) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat(
        path, " has ", CountText(field->class_names_size(), "name"),
        ", but there are ", label.classes,
        " classes; copy the file again, or remove it"));
  }

  const CifarOptions options_;
  const std::vector<LabelByte> labels_;  // in the order of the bytes
  const int64_t record_bytes_;
  DatasetInfo description_;
  std::string records_;
  int batches_ = 0;
  int64_t next_ = 0;
  // Of the last sample.
  uint8_t pixels_[kImageBytes];
  int64_t values_[2] = {};
  std::string png_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<SampleReader>> OpenCifarDataset(
    const CifarOptions& options) {
  auto dataset = std::make_unique<CifarDataset>(options);
  MR_RETURN_IF_ERROR(dataset->Open());
  return dataset;
}

}  // namespace millrace::data_tool
