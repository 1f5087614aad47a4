#include "server/storage/chunks/column_choice.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/status_macros.h"
#include "common/usage_error.h"
#include "proto/dtype.h"
#include "server/storage/extents/extent_uri.h"

namespace millrace::storage {
namespace {

constexpr absl::string_view kImage = "image";
constexpr absl::string_view kLabel = "label";
constexpr std::array<absl::string_view, 4> kLabelNames = {"class", "cls", "y",
                                                          "target"};
constexpr std::array<absl::string_view, 4> kOptions = {"image", "label",
                                                       "ragged", "tensor"};
// As SampleCheck.
constexpr int64_t kMaxTensorBytes = int64_t{1} << 31;

absl::Status BadOption(absl::string_view option, absl::string_view column,
                       absl::string_view why) {
  return UsageError(absl::InvalidArgumentError(
      absl::StrCat("option ", option, "=", column, ": ", why)));
}

bool IsNumber(const ColumnDraft& draft) {
  return draft.kind == ColumnKind::kScalar && IsInteger(draft.stored);
}

// Chooses step by step; the drafts change until each fits a field.
class Chooser {
 public:
  Chooser(std::vector<ColumnDraft> drafts, const FormatOptions& options)
      : drafts_(std::move(drafts)), options_(options) {}

  absl::StatusOr<std::unique_ptr<ColumnRule>> Choose(
      absl::Span<const uint8_t> first_record) {
    MR_RETURN_IF_ERROR(SplitFirst(first_record));
    MR_RETURN_IF_ERROR(ApplyRagged());
    MR_RETURN_IF_ERROR(ApplyTensor());
    for (size_t i = 0; i < drafts_.size(); ++i) {
      MR_RETURN_IF_ERROR(SettleArray(i));
    }
    MR_RETURN_IF_ERROR(FindImage());
    MR_RETURN_IF_ERROR(FindLabel());
    return Build();
  }

 private:
  absl::Status SplitFirst(absl::Span<const uint8_t> record) {
    columns_.resize(drafts_.size());
    for (size_t i = 0; i < drafts_.size(); ++i) {
      columns_[i].name = drafts_[i].name;
      columns_[i].bytes = drafts_[i].bytes;
    }
    return SplitColumns(record, columns_, &values_);
  }

  // The column that `option` names. InvalidArgument: there is none.
  absl::StatusOr<int> Find(absl::string_view option,
                           absl::string_view name) const {
    for (size_t i = 0; i < drafts_.size(); ++i) {
      if (drafts_[i].name == name) return static_cast<int>(i);
    }
    return BadOption(
        option, name,
        absl::StrCat("there is no such column; there are ",
                     absl::StrJoin(drafts_, ", ",
                                   [](std::string* out, const auto& draft) {
                                     absl::StrAppend(out, draft.name);
                                   })));
  }

  // The columns of the list that `option` gives.
  absl::StatusOr<std::vector<int>> FindAll(const std::string& option) const {
    std::vector<int> found;
    const auto list = options_.find(option);
    if (list == options_.end()) return found;
    for (const absl::string_view name : absl::StrSplit(list->second, ',')) {
      MR_ASSIGN_OR_RETURN(found.emplace_back(), Find(option, name));
    }
    return found;
  }

  // Whether `option` decides alone; then `column` is the one that it names, -1:
  // none.
  absl::StatusOr<bool> FindOne(const std::string& option, int* column) const {
    const auto name = options_.find(option);
    if (name == options_.end()) return false;
    *column = -1;
    if (name->second.empty()) return true;
    MR_ASSIGN_OR_RETURN(*column, Find(option, name->second));
    return true;
  }

  static void MakeBytes(ColumnDraft& draft) {
    draft.kind = ColumnKind::kBytes;
    draft.stored = StoredType::kBytes;
    draft.shape.clear();
  }

  absl::Status ApplyRagged() {
    MR_ASSIGN_OR_RETURN(const std::vector<int> columns, FindAll("ragged"));
    for (const int i : columns) {
      if (drafts_[i].kind != ColumnKind::kPlainArray) MakeBytes(drafts_[i]);
    }
    return absl::OkStatus();
  }

  absl::Status ApplyTensor() {
    MR_ASSIGN_OR_RETURN(const std::vector<int> columns, FindAll("tensor"));
    for (const int i : columns) {
      ColumnDraft& draft = drafts_[i];
      if (draft.kind == ColumnKind::kArray ||
          draft.kind == ColumnKind::kHeaderArray) {
        continue;
      }
      const uint64_t element = StoredBytes(draft.stored);
      if (draft.kind != ColumnKind::kPlainArray || element == 0) {
        return BadOption("tensor", draft.name, "the column holds no array");
      }
      const size_t size = values_[i].size();
      if (size == 0 || size % element != 0) {
        return BadOption(
            "tensor", draft.name,
            absl::StrCat("the array of the first sample has ", size,
                         " bytes; its elements have ", element, " each"));
      }
      draft.kind = ColumnKind::kArray;
      draft.shape = {static_cast<int64_t>(size / element)};
    }
    return absl::OkStatus();
  }

  // Arrays whose type or shape no field can have become bytes.
  absl::Status SettleArray(size_t i) {
    ColumnDraft& draft = drafts_[i];
    if (draft.kind == ColumnKind::kHeaderArray) {
      auto header = draft.parse_header(values_[i]);
      if (!header.ok()) {
        return absl::DataLossError(absl::StrCat(
            "field '", draft.name, "': ", header.status().message()));
      }
      if (!header->has_value()) {
        MakeBytes(draft);
        return absl::OkStatus();
      }
      columns_[i].header = std::string(
          reinterpret_cast<const char*>(values_[i].data()), (*header)->bytes);
      draft.kind = ColumnKind::kArray;
      draft.stored = (*header)->stored;
      draft.shape = std::move((*header)->shape);
    }
    if (draft.kind == ColumnKind::kPlainArray &&
        !IsSame(draft.stored, ArrayDType(draft.stored))) {
      MakeBytes(draft);
    }
    if (draft.kind == ColumnKind::kArray && !CanBeTensor(draft)) {
      columns_[i].header.clear();
      MakeBytes(draft);
    }
    return absl::OkStatus();
  }

  static bool CanBeTensor(const ColumnDraft& draft) {
    const DType dtype = ArrayDType(draft.stored);
    if (dtype == DTYPE_UNSPECIFIED) return false;
    int64_t bytes = static_cast<int64_t>(ElementBytes(dtype));
    for (const int64_t extent : draft.shape) {
      if (extent <= 0 || extent > kMaxTensorBytes / bytes) return false;
      bytes *= extent;
    }
    return true;
  }

  absl::Status FindImage() {
    MR_ASSIGN_OR_RETURN(const bool given, FindOne("image", &image_));
    if (given) {
      if (image_ < 0) return absl::OkStatus();
      ColumnDraft& draft = drafts_[image_];
      if (draft.kind == ColumnKind::kBytes && draft.bytes == 0) {
        draft.kind = ColumnKind::kImage;
      }
      if (draft.kind != ColumnKind::kImage &&
          draft.kind != ColumnKind::kArray) {
        return BadOption("image", draft.name, "the column holds no image");
      }
      return absl::OkStatus();
    }
    int images = 0;
    for (size_t i = 0; i < drafts_.size(); ++i) {
      ColumnDraft& draft = drafts_[i];
      if (draft.name == kImage) {
        image_ = static_cast<int>(i);
        return absl::OkStatus();
      }
      if (draft.kind != ColumnKind::kImage) continue;
      ++images;
      image_ = static_cast<int>(i);
    }
    if (images != 1) image_ = -1;
    return absl::OkStatus();
  }

  absl::Status FindLabel() {
    MR_ASSIGN_OR_RETURN(const bool given, FindOne("label", &label_));
    if (given) {
      if (label_ >= 0 && !IsNumber(drafts_[label_])) {
        return BadOption("label", drafts_[label_].name,
                         "a label is one integer, and the column holds none");
      }
      return absl::OkStatus();
    }
    int labels = 0;
    for (size_t i = 0; i < drafts_.size(); ++i) {
      const ColumnDraft& draft = drafts_[i];
      if (draft.name == kLabel) {
        label_ = IsNumber(draft) ? static_cast<int>(i) : -1;
        return absl::OkStatus();
      }
      if (!IsNumber(draft) ||
          !(draft.unnamed || absl::c_linear_search(kLabelNames, draft.name))) {
        continue;
      }
      ++labels;
      label_ = static_cast<int>(i);
    }
    if (labels != 1) label_ = -1;
    return absl::OkStatus();
  }

  bool HasColumn(absl::string_view name) const {
    return absl::c_any_of(drafts_, [name](const ColumnDraft& draft) {
      return draft.name == name;
    });
  }

  // The name of the field of column `i`. Another column in the place of the one
  // named `image` or `label` takes its name: "label_column", then
  // "label_column2" and so on, the first that no column has.
  std::string FieldNameOf(int i) const {
    if (i == image_) return std::string(kImage);
    if (i == label_) return std::string(kLabel);
    const std::string& name = drafts_[i].name;
    if (!((image_ >= 0 && name == kImage) || (label_ >= 0 && name == kLabel))) {
      return name;
    }
    std::string other = absl::StrCat(name, "_column");
    for (int n = 2; HasColumn(other); ++n) {
      other = absl::StrCat(name, "_column", n);
    }
    return other;
  }

  Field FieldOf(int i, std::string name) const {
    const ColumnDraft& draft = drafts_[i];
    Field field;
    field.set_name(std::move(name));
    switch (draft.kind) {
      case ColumnKind::kImage:
        field.set_kind(FIELD_KIND_ENCODED_IMAGE);
        break;
      case ColumnKind::kScalar:
        field.set_kind(FIELD_KIND_TENSOR);
        field.set_dtype(i == label_ ? DTYPE_INT64 : ScalarDType(draft.stored));
        break;
      case ColumnKind::kArray:
        field.set_kind(FIELD_KIND_TENSOR);
        field.set_dtype(ArrayDType(draft.stored));
        for (const int64_t extent : draft.shape) field.add_shape(extent);
        break;
      case ColumnKind::kPlainArray:
        field.set_kind(FIELD_KIND_RAGGED);
        field.set_dtype(ArrayDType(draft.stored));
        break;
      default:
        field.set_kind(FIELD_KIND_RAGGED);
        field.set_dtype(DTYPE_UINT8);
    }
    return field;
  }

  absl::StatusOr<std::unique_ptr<ColumnRule>> Build() {
    std::vector<int> order;
    for (const int i : {image_, label_}) {
      if (i >= 0) order.push_back(i);
    }
    const auto others = static_cast<std::ptrdiff_t>(order.size());
    for (int i = 0; i < static_cast<int>(drafts_.size()); ++i) {
      if (i != image_ && i != label_) order.push_back(i);
    }
    std::vector<std::string> names;
    for (int i = 0; i < static_cast<int>(drafts_.size()); ++i) {
      names.push_back(FieldNameOf(i));
    }
    std::sort(order.begin() + others, order.end(),
              [&names](int a, int b) { return names[a] < names[b]; });
    Schema schema;
    for (const int i : order) {
      columns_[i].stored = drafts_[i].stored;
      columns_[i].field = schema.fields_size();
      *schema.add_fields() = FieldOf(i, names[i]);
    }
    const int class_field = label_ < 0 ? -1 : columns_[label_].field;
    return ColumnRule::Create(std::move(schema), std::move(columns_),
                              class_field);
  }

  std::vector<ColumnDraft> drafts_;
  const FormatOptions& options_;
  std::vector<ChunkColumn> columns_;
  std::vector<absl::Span<const uint8_t>> values_;  // of the first record
  int image_ = -1;                                 // columns; -1: none
  int label_ = -1;
};

}  // namespace

bool IsImageSuffix(absl::string_view suffix) {
  return suffix == "jpg" || suffix == "jpeg" || suffix == "png" ||
         suffix == "webp";
}

ColumnDraft BytesColumn(std::string name) {
  ColumnDraft draft;
  draft.kind = name == kImage ? ColumnKind::kImage : ColumnKind::kBytes;
  draft.name = std::move(name);
  return draft;
}

absl::Status CheckChunkOptions(absl::string_view scheme,
                               const FormatOptions& options) {
  MR_RETURN_IF_ERROR(CheckOptions(scheme, options, kOptions));
  for (const auto& [name, value] : options) {
    if (value.empty() && (name == "ragged" || name == "tensor")) {
      return UsageError(absl::InvalidArgumentError(
          absl::StrCat("option ", name, "= names no column")));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ColumnRule>> ChooseFields(
    std::vector<ColumnDraft> drafts, const FormatOptions& options,
    absl::Span<const uint8_t> first_record) {
  return Chooser(std::move(drafts), options).Choose(first_record);
}

}  // namespace millrace::storage
