#include "server/pipeline/read_geometry.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/augment/portable_math.h"

namespace millrace {
namespace {

using Kind = GeometryOp::Kind;

absl::Status Invalid(absl::string_view name, uint32_t place,
                     absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat(name, " (transform ", place, "): ", what));
}

absl::Status NotBuilt(absl::string_view name, uint32_t place,
                      absl::string_view what) {
  return absl::UnimplementedError(
      absl::StrCat(name, " (transform ", place, "): ", what,
                   " is not built in this version"));
}

// Reads one transform.
class Reader {
 public:
  Reader(absl::string_view name, const PlacedTransform& placed, int channels,
         const ImageStageOptions& options)
      : name_(name),
        place_(placed.place),
        channels_(channels),
        options_(options) {
    op_.place = placed.place;
  }

  absl::StatusOr<GeometryOp> Take(absl::Status status) {
    MR_RETURN_IF_ERROR(status);
    MR_RETURN_IF_ERROR(CheckOp(op_));
    return std::move(op_);
  }

  absl::Status Read(const RandomResizedCrop& crop) {
    op_.kind = Kind::kRandomResizedCrop;
    op_.size = {crop.width(), crop.height()};
    if (crop.has_p()) op_.probability = crop.p();
    MR_RETURN_IF_ERROR(Resampling(crop));
    CropDistribution& d = op_.distribution;
    if (crop.scale_min() != 0 || crop.scale_max() != 0) {
      d.scale_min = crop.scale_min();
      d.scale_max = crop.scale_max();
      if (!(d.scale_min > 0 && d.scale_min <= d.scale_max &&
            d.scale_max <= 1)) {
        return Refuse(absl::StrCat("scale is ", d.scale_min, " to ",
                                   d.scale_max,
                                   "; it must rise within 0 (excluded) to 1"));
      }
    }
    if (crop.ratio_min() != 0 || crop.ratio_max() != 0) {
      const double low = crop.ratio_min();
      const double high = crop.ratio_max();
      constexpr double kMaxRatio = 1000;
      if (!(low >= 1 / kMaxRatio && low <= high && high <= kMaxRatio)) {
        return Refuse(absl::StrCat("ratio is ", low, " to ", high,
                                   "; it must rise within 0.001 to 1000"));
      }
      d.log_ratio_min = PortableLog(low);
      d.log_ratio_max = PortableLog(high);
    }
    return absl::OkStatus();
  }

  absl::Status Read(const Resize& resize) {
    const bool both = resize.height() != 0 && resize.width() != 0;
    const bool any = resize.height() != 0 || resize.width() != 0;
    if (resize.short_side() != 0 ? any : !both) {
      return Refuse("give either short_side or both height and width");
    }
    op_.kind = both ? Kind::kResize : Kind::kResizeShortSide;
    op_.size = {resize.width(), resize.height()};
    op_.short_side = resize.short_side();
    return Resampling(resize);
  }

  absl::Status Read(const CenterCrop& crop) {
    op_.kind = Kind::kCenterCrop;
    op_.size = {crop.width(), crop.height()};
    if (IsMask()) op_.fill = FillColor(options_.mask_fill);
    return absl::OkStatus();
  }

  absl::Status Read(const RandomCrop& crop) {
    op_.kind = Kind::kRandomCrop;
    op_.size = {crop.width(), crop.height()};
    if (crop.has_p()) op_.probability = crop.p();
    op_.pad_if_needed = crop.pad_if_needed();
    if (crop.padding_size() > 0) {
      MR_RETURN_IF_ERROR(ReadPadding(crop.padding()));
    }
    return ReadSurround(crop);
  }

  absl::Status Read(const Pad& pad) {
    op_.kind = Kind::kPad;
    MR_RETURN_IF_ERROR(ReadPadding(pad.padding()));
    return ReadSurround(pad);
  }

  absl::Status Read(const HorizontalFlip& flip) {
    op_.kind = Kind::kHorizontalFlip;
    op_.probability = flip.has_p() ? flip.p() : 0.5;
    return absl::OkStatus();
  }

  absl::Status Read(const VerticalFlip& flip) {
    op_.kind = Kind::kVerticalFlip;
    op_.probability = flip.has_p() ? flip.p() : 0.5;
    return absl::OkStatus();
  }

 private:
  bool IsMask() const { return options_.role == FieldRole::MASK; }

  absl::Status Refuse(absl::string_view what) const {
    return Invalid(name_, place_, what);
  }

  template <typename M>
  absl::Status Resampling(const M& message) {
    op_.antialias = !message.no_antialias();
    switch (message.interpolation()) {
      case INTERPOLATION_BILINEAR:
        op_.nearest = IsMask();
        break;
      case INTERPOLATION_NEAREST:
        op_.nearest = true;
        break;
      default:
        return NotBuilt(
            name_, place_,
            absl::StrCat("interpolation ",
                         static_cast<int>(message.interpolation())));
    }
    if (!op_.nearest && channels_ != 1 && channels_ != 3) {
      return NotBuilt(name_, place_,
                      absl::StrCat("resizing ", channels_,
                                   " channels by another interpolation than "
                                   "INTERPOLATION_NEAREST (1 and 3 are)"));
    }
    return absl::OkStatus();
  }

  absl::Status ReadPadding(
      const google::protobuf::RepeatedField<uint32_t>& padding) {
    switch (padding.size()) {
      case 1:
        op_.padding = {padding[0], padding[0], padding[0], padding[0]};
        return absl::OkStatus();
      case 2:
        op_.padding = {padding[0], padding[1], padding[0], padding[1]};
        return absl::OkStatus();
      case 4:
        op_.padding = {padding[0], padding[1], padding[2], padding[3]};
        return absl::OkStatus();
      default:
        return Refuse(absl::StrCat(
            "padding has ", padding.size(),
            " values; give 1 (all sides), 2 (left and right, top and bottom) "
            "or 4 (left, top, right, bottom)"));
    }
  }

  template <typename M>
  absl::Status ReadSurround(const M& message) {
    switch (message.padding_mode()) {
      case PADDING_CONSTANT:
        op_.surround = Surround::kFill;
        break;
      case PADDING_EDGE:
        op_.surround = Surround::kEdge;
        break;
      case PADDING_REFLECT:
        op_.surround = Surround::kReflect;
        break;
      case PADDING_SYMMETRIC:
        op_.surround = Surround::kSymmetric;
        break;
      default:
        return NotBuilt(name_, place_,
                        absl::StrCat("padding_mode ",
                                     static_cast<int>(message.padding_mode())));
    }
    MR_ASSIGN_OR_RETURN(
        op_.fill, ReadFill(name_, place_, message.fill(), channels_, options_));
    return absl::OkStatus();
  }

  const absl::string_view name_;
  const uint32_t place_;
  const int channels_;
  const ImageStageOptions& options_;
  GeometryOp op_;
};

}  // namespace

bool IsGeometry(const Transform& transform) {
  switch (transform.kind_case()) {
    case Transform::kRandomResizedCrop:
    case Transform::kResize:
    case Transform::kCenterCrop:
    case Transform::kRandomCrop:
    case Transform::kPad:
    case Transform::kHorizontalFlip:
    case Transform::kVerticalFlip:
      return true;
    default:
      return false;
  }
}

absl::StatusOr<GeometryOp> ReadGeometry(const PlacedTransform& placed,
                                        int channels,
                                        const ImageStageOptions& options) {
  const Transform& t = *placed.transform;
  auto read = [&](absl::string_view name, const auto& message) {
    Reader reader(name, placed, channels, options);
    const absl::Status status = reader.Read(message);
    return reader.Take(status);
  };
  switch (t.kind_case()) {
    case Transform::kRandomResizedCrop:
      return read("random_resized_crop", t.random_resized_crop());
    case Transform::kResize:
      return read("resize", t.resize());
    case Transform::kCenterCrop:
      return read("center_crop", t.center_crop());
    case Transform::kRandomCrop:
      return read("random_crop", t.random_crop());
    case Transform::kPad:
      return read("pad", t.pad());
    case Transform::kHorizontalFlip:
      return read("horizontal_flip", t.horizontal_flip());
    case Transform::kVerticalFlip:
      return read("vertical_flip", t.vertical_flip());
    default:
      return absl::InternalError(
          absl::StrCat("transform ", placed.place, " is no geometry"));
  }
}

absl::StatusOr<FillColor> ReadFill(
    absl::string_view name, uint32_t place,
    const google::protobuf::RepeatedField<uint32_t>& fill, int channels,
    const ImageStageOptions& options) {
  // A colour says nothing about classes.
  if (options.role == FieldRole::MASK) return FillColor(options.mask_fill);
  if (fill.size() > 1 && fill.size() != channels) {
    return Invalid(name, place,
                   absl::StrCat("fill has ", fill.size(),
                                " values; give one, or one for each of the ",
                                channels, " channels"));
  }
  if (fill.size() > FillColor::kMaxChannels) {
    return NotBuilt(name, place,
                    absl::StrCat("a fill of ", fill.size(),
                                 " values (one for all channels is)"));
  }
  uint8_t values[FillColor::kMaxChannels] = {};
  for (int i = 0; i < fill.size(); ++i) {
    if (fill[i] > 255) {
      return Invalid(
          name, place,
          absl::StrCat("fill is ", fill[i], "; it must be 0 to 255"));
    }
    values[i] = static_cast<uint8_t>(fill[i]);
  }
  return FillColor(values, fill.empty() ? 1 : fill.size());
}

}  // namespace millrace
