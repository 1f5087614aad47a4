#include "server/storage/foreign_lmdb/value_layout.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/storage/imagefolder/image_names.h"

namespace millrace::storage {
namespace {

// Max elements of an image of numbers: the size that one message can have.
constexpr uint64_t kMaxElements = uint64_t{1} << 31;

absl::string_view Text(absl::Span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

bool LooksLikeImage(absl::Span<const uint8_t> bytes) {
  return WhyNoImage(Text(bytes.first(
                        std::min<size_t>(bytes.size(), kImageStartBytes))))
      .empty();
}

// Product of the three; 0: one is not above 0, or the product is too large.
uint64_t Elements(const Datum& datum) {
  uint64_t product = 1;
  for (const int32_t n : {datum.channels, datum.height, datum.width}) {
    if (n <= 0) return 0;
    product *= static_cast<uint32_t>(n);
    if (product > kMaxElements) return 0;
  }
  return product;
}

std::string ShapeText(const Datum& datum) {
  return absl::StrCat("[", datum.channels, ", ", datum.height, ", ",
                      datum.width, "]");
}

absl::Status Bad(absl::string_view why) {
  return absl::DataLossError(absl::StrCat("the value ", why));
}

absl::Status NoImage(absl::Span<const uint8_t> value) {
  return Bad(value.empty() ? "is empty" : "is not a JPEG, PNG or WebP image");
}

}  // namespace

void ValueLayout::AddImage(bool tensor) {
  Field* const field = schema_.add_fields();
  field->set_name("image");
  field->set_kind(tensor ? FIELD_KIND_TENSOR : FIELD_KIND_ENCODED_IMAGE);
  if (!tensor) return;
  field->set_dtype(kind_ == Kind::kDatumFloats ? DTYPE_FLOAT32 : DTYPE_UINT8);
  field->add_shape(shape_.channels);
  field->add_shape(shape_.height);
  field->add_shape(shape_.width);
}

absl::StatusOr<ValueLayout> ValueLayout::OfDatum(
    absl::Span<const uint8_t> first) {
  Datum datum;
  MR_RETURN_IF_ERROR(ParseDatum(first, &datum));
  ValueLayout layout(datum.encoded      ? Kind::kDatumImage
                     : datum.floats > 0 ? Kind::kDatumFloats
                                        : Kind::kDatumPixels);
  layout.shape_ = datum;
  layout.shape_.data = {};
  layout.elements_ = Elements(datum);
  MR_RETURN_IF_ERROR(layout.CheckDatum(first, &datum));
  layout.AddImage(layout.kind_ != Kind::kDatumImage);
  Field* const label = layout.schema_.add_fields();
  label->set_name("label");
  label->set_kind(FIELD_KIND_TENSOR);
  label->set_dtype(DTYPE_INT64);
  return layout;
}

absl::StatusOr<ValueLayout> ValueLayout::Infer(
    absl::string_view name, absl::Span<const uint8_t> first) {
  if (name == "datum") return OfDatum(first);
  const bool image = LooksLikeImage(first);
  if (name == "image" || name == "text") {
    if (!image) return NoImage(first);
    ValueLayout layout(name == "text" ? Kind::kText : Kind::kImage);
    layout.AddImage(false);
    if (name == "text") {
      Field* const text = layout.schema_.add_fields();
      text->set_name("text");
      text->set_kind(FIELD_KIND_RAGGED);
      text->set_dtype(DTYPE_UINT8);
    }
    return layout;
  }
  if (name.empty() && image) return Infer("image", first);
  if (name.empty()) {
    // An empty value is a message without fields.
    absl::StatusOr<ValueLayout> datum = OfDatum(first);
    if (datum.ok()) return datum;
  } else if (name != "bytes") {
    return absl::InvalidArgumentError(
        absl::StrCat("option layout=", name,
                     " is wrong: expected datum, image, bytes or text"));
  }
  ValueLayout layout(Kind::kBytes);
  Field* const field = layout.schema_.add_fields();
  field->set_name("value");
  field->set_kind(FIELD_KIND_RAGGED);
  field->set_dtype(DTYPE_UINT8);
  return layout;
}

absl::Status ValueLayout::CheckDatum(absl::Span<const uint8_t> value,
                                     Datum* datum) const {
  MR_RETURN_IF_ERROR(ParseDatum(value, datum));
  if (kind_ == Kind::kDatumImage) {
    if (!datum->encoded) {
      return Bad("holds pixels (encoded is false), unlike the first record");
    }
    if (!LooksLikeImage(datum->data)) {
      return Bad("has data that are not a JPEG, PNG or WebP image");
    }
    return absl::OkStatus();
  }
  if (datum->encoded) {
    return Bad("holds an encoded image, unlike the first record");
  }
  if (!SameShape(*datum, shape_)) {
    return Bad(absl::StrCat("has shape ", ShapeText(*datum), " instead of ",
                            ShapeText(shape_), ", that of the first record"));
  }
  const bool floats = kind_ == Kind::kDatumFloats;
  if (elements_ == 0 || datum->floats != (floats ? elements_ : 0) ||
      datum->data.size() != (floats ? 0 : elements_)) {
    return Bad(absl::StrCat("has ", datum->data.size(), " bytes of data and ",
                            datum->floats, " numbers of float_data, and its ",
                            "shape is ", ShapeText(*datum)));
  }
  return absl::OkStatus();
}

absl::Status ValueLayout::Split(absl::Span<const uint8_t> value,
                                RecordFields* fields, int64_t* label) const {
  if (!is_datum()) {
    if (kind_ != Kind::kBytes && !LooksLikeImage(value)) return NoImage(value);
    fields->Set(0, value);
    return absl::OkStatus();
  }
  Datum datum;
  MR_RETURN_IF_ERROR(CheckDatum(value, &datum));
  *label = datum.label;
  if (kind_ != Kind::kDatumFloats) {
    fields->Set(0, datum.data);
    return absl::OkStatus();
  }
  if (!CopyFloats(value, datum,
                  fields->Make(0, datum.floats * sizeof(float)))) {
    return Bad("changed while it was read");
  }
  return absl::OkStatus();
}

std::string ValueLayout::ToString() const {
  switch (kind_) {
    case Kind::kDatumImage:
      return "Caffe's Datum with encoded images";
    case Kind::kDatumPixels:
      return absl::StrCat("Caffe's Datum with pixels of shape ",
                          ShapeText(shape_));
    case Kind::kDatumFloats:
      return absl::StrCat("Caffe's Datum with float_data of shape ",
                          ShapeText(shape_));
    case Kind::kImage:
      return "encoded images";
    case Kind::kBytes:
      return "bytes";
    case Kind::kText:
      return "images with texts (image-000000001, label-000000001)";
  }
  return "";
}

}  // namespace millrace::storage
