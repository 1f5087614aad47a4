#include "server/data_tool/idx_dataset.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/count_text.h"
#include "common/status_macros.h"
#include "common/usage_error.h"
#include "server/data_tool/idx_file.h"
#include "server/data_tool/png_encoder.h"

namespace millrace::data_tool {
namespace {

// The file of the given kind under any of its usual names.
absl::StatusOr<std::string> FindFile(const std::string& folder,
                                     absl::string_view split,
                                     absl::string_view what, int dimensions) {
  const std::string stem = absl::StrCat(split, "-", what);
  for (absl::string_view separator : {"-", "."}) {
    for (absl::string_view suffix : {"", ".gz"}) {
      const std::string path = absl::StrCat(folder, "/", stem, separator, "idx",
                                            dimensions, "-ubyte", suffix);
      if (access(path.c_str(), F_OK) == 0) return path;
    }
  }
  return UsageError(absl::NotFoundError(absl::StrCat(
      "there is no ", stem, "-idx", dimensions, "-ubyte[.gz] in ", folder,
      "; set --input to the folder of the IDX files and --split to train or "
      "test")));
}

class IdxDataset final : public SampleReader {
 public:
  IdxDataset(const IdxOptions& options, IdxFile images, IdxFile labels)
      : as_png_(options.as_png),
        images_(std::move(images)),
        labels_(std::move(labels)) {
    height_ = images_.shape[1];
    width_ = images_.shape[2];
    channels_ = images_.shape.size() == 4 ? images_.shape[3] : 1;
    description_.set_samples(images_.shape[0]);
    Field* image = description_.mutable_schema()->add_fields();
    image->set_name("image");
    if (as_png_) {
      image->set_kind(FIELD_KIND_ENCODED_IMAGE);
    } else {
      image->set_kind(FIELD_KIND_TENSOR);
      image->set_dtype(DTYPE_UINT8);
      for (const int64_t extent : {height_, width_, channels_}) {
        image->add_shape(extent);
      }
    }
    Field* label = description_.mutable_schema()->add_fields();
    label->set_name("label");
    label->set_kind(FIELD_KIND_TENSOR);
    label->set_dtype(DTYPE_INT64);
    // The files do not contain the number of classes.
    label->set_num_classes(
        1 + static_cast<uint8_t>(*std::max_element(
                labels_.bytes.begin(), labels_.bytes.end(), [](char a, char b) {
                  return static_cast<uint8_t>(a) < static_cast<uint8_t>(b);
                })));
    if (height_ == 28 && width_ == 28 && channels_ == 1) {
      description_.set_train_preset("mnist");
      description_.set_eval_preset("mnist");
    }
  }

  const DatasetInfo& description() const override { return description_; }

  absl::Status Next(Sample* sample) override {
    const int64_t size = height_ * width_ * channels_;
    absl::Span<const uint8_t> image(
        reinterpret_cast<const uint8_t*>(images_.bytes.data()) + next_ * size,
        size);
    if (as_png_) {
      MR_RETURN_IF_ERROR(EncodePng(image, height_, width_, channels_, &png_));
      image = {reinterpret_cast<const uint8_t*>(png_.data()), png_.size()};
    }
    label_ = static_cast<uint8_t>(labels_.bytes[next_]);
    sample->fields = {
        image, {reinterpret_cast<const uint8_t*>(&label_), sizeof(label_)}};
    sample->origin = as_png_ ? absl::StrCat(next_, ".png") : "";
    ++next_;
    return absl::OkStatus();
  }

 private:
  const bool as_png_;
  const IdxFile images_;
  const IdxFile labels_;
  int64_t height_;
  int64_t width_;
  int64_t channels_;
  DatasetInfo description_;
  int64_t next_ = 0;
  int64_t label_ = 0;
  std::string png_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<SampleReader>> OpenIdxDataset(
    const IdxOptions& options) {
  if (options.split != "train" && options.split != "test") {
    return absl::InvalidArgumentError(
        absl::StrCat("there is no split '", options.split,
                     "'; set --split to train or test"));
  }
  const absl::string_view prefix = options.split == "train" ? "train" : "t10k";
  MR_ASSIGN_OR_RETURN(const std::string image_path,
                      FindFile(options.folder, prefix, "images", 3));
  MR_ASSIGN_OR_RETURN(const std::string label_path,
                      FindFile(options.folder, prefix, "labels", 1));
  MR_ASSIGN_OR_RETURN(IdxFile images, ReadIdxFile(image_path));
  MR_ASSIGN_OR_RETURN(IdxFile labels, ReadIdxFile(label_path));
  const bool channels_fit = images.shape.size() == 3 ||
                            (images.shape.size() == 4 &&
                             (images.shape[3] == 1 || images.shape[3] == 3));
  if (!channels_fit || images.shape[1] > 65535 || images.shape[2] > 65535) {
    return absl::DataLossError(absl::StrCat(
        image_path,
        " does not contain images [N, height, width] or [N, height, width, 1 "
        "or 3]; check that it is the right file"));
  }
  if (labels.shape.size() != 1) {
    return absl::DataLossError(absl::StrCat(
        label_path,
        " does not contain labels [N]; check that it is the right file"));
  }
  if (labels.shape[0] != images.shape[0]) {
    return absl::DataLossError(absl::StrCat(
        image_path, " has ", CountText(images.shape[0], "image"), ", but ",
        label_path, " has ", CountText(labels.shape[0], "label"),
        "; they do not belong together"));
  }
  return std::make_unique<IdxDataset>(options, std::move(images),
                                      std::move(labels));
}

}  // namespace millrace::data_tool
