#include "server/plan/field_trace.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "proto/dtype.h"
#include "server/plan/field_rules.h"
#include "server/plan/sample_shape.h"
#include "server/plan/spec_limits.h"
#include "server/plan/transform_kinds.h"
#include "server/plan/value_range.h"

namespace millrace {
namespace {

class Tracer {
 public:
  Tracer(const PipelineSpec& spec, const Field& field)
      : spec_(spec), field_(field) {}

  absl::StatusOr<FieldTrace> Run() {
    trace_.role = RoleOf(spec_, field_.name());
    trace_.image = ImageOf(spec_, field_.name());
    MR_RETURN_IF_ERROR(Begin());
    MR_RETURN_IF_ERROR(CheckRole());
    for (int place = 0; place < spec_.transforms_size(); ++place) {
      const Transform& transform = spec_.transforms(place);
      const std::vector<std::string> fields = TransformFields(transform);
      if (std::find(fields.begin(), fields.end(), field_.name()) ==
          fields.end()) {
        continue;
      }
      where_ =
          absl::StrCat("transforms[", place, "].", TransformName(transform));
      MR_RETURN_IF_ERROR(Follow(transform, place));
    }
    MR_RETURN_IF_ERROR(Finish());
    return std::move(trace_);
  }

 private:
  absl::Status Refuse(absl::string_view text) const {
    return absl::InvalidArgumentError(
        absl::StrCat(where_, ": field ", field_.name(), " ", text));
  }

  bool encoded() const { return field_.kind() == FIELD_KIND_ENCODED_IMAGE; }
  bool is_class() const {
    return field_.num_classes() != 0 && !trace_.mixed_label &&
           !operator_result_;
  }
  // uint8 [height, width, channels], or encoded.
  bool IsImage() const {
    if (operator_result_) {
      return trace_.dtype == DTYPE_UINT8 && trace_.shape->size() == 3;
    }
    return encoded() ||
           (field_.kind() == FIELD_KIND_TENSOR &&
            field_.dtype() == DTYPE_UINT8 && field_.shape_size() == 3);
  }
  int64_t Channels() const {
    if (operator_result_) return IsImage() ? (*trace_.shape)[2] : 0;
    if (encoded()) return decoded_channels_;
    return IsImage() ? field_.shape(2) : 0;
  }

  absl::Status Begin() {
    where_ = "schema";
    switch (field_.kind()) {
      case FIELD_KIND_ENCODED_IMAGE:
        trace_.dtype = DTYPE_UINT8;
        trace_.why_not_fixed = absl::StrCat(
            "holds encoded images: add decode_image",
            field_.name() == "image"
                ? ""
                : absl::StrCat(" { field: \"", field_.name(), "\" }"),
            " and a transform that fixes their size, such as "
            "random_resized_crop or center_crop");
        return absl::OkStatus();
      case FIELD_KIND_TENSOR:
        if (!ShapeIsSane(field_.dtype(), field_.shape())) {
          return Refuse(absl::StrCat(
              "has no usable type and shape in the dataset (",
              DTypeName(field_.dtype()), " [",
              absl::StrJoin(field_.shape(), ", "), "]): pack it again"));
        }
        if (field_.num_classes() != 0 &&
            (field_.dtype() != DTYPE_INT64 || field_.shape_size() != 0)) {
          return Refuse("has classes but is no int64 scalar: pack it again");
        }
        trace_.dtype = field_.dtype();
        trace_.shape.emplace(field_.shape().begin(), field_.shape().end());
        return absl::OkStatus();
      default:
        trace_.dtype = field_.dtype();
        // Strings are lists of uint8 here.
        trace_.why_not_fixed = absl::StrCat(
            field_.dtype() == DTYPE_UINT8
                ? "holds strings, bytes or lists of variable length"
                : "is a list of variable length, even where all of its lists "
                  "are equally long",
            ", and ragged tensors are not built yet: a column of fixed-size "
            "lists, in pyarrow pa.list_(pa.",
            DTypeName(field_.dtype()), "(), N), is served as a tensor");
        return absl::OkStatus();
    }
  }

  absl::Status CheckRole() {
    where_ = "field_roles";
    if (trace_.role == FieldRole::MASK) {
      if (!IsImage() || (!encoded() && Channels() != 1)) {
        return Refuse(absl::StrCat(
            "is ", Stored(),
            ", a mask is an encoded image or uint8 [height, width, 1]"));
      }
    } else if (trace_.role == FieldRole::BOXES_XYXY) {
      if (field_.kind() != FIELD_KIND_TENSOR ||
          field_.dtype() != DTYPE_FLOAT32 || field_.shape_size() != 2 ||
          field_.shape(1) != 4) {
        return Refuse(absl::StrCat("is ", Stored(),
                                   ", boxes are float32 [K, 4], K the same in "
                                   "every sample"));
      }
    }
    return absl::OkStatus();
  }

  std::string Stored() const {
    if (encoded()) return "encoded images";
    if (field_.kind() != FIELD_KIND_TENSOR) return "of no fixed length";
    return absl::StrCat(DTypeName(field_.dtype()), " [",
                        absl::StrJoin(field_.shape(), ", "), "]");
  }

  absl::Status Follow(const Transform& transform, int place) {
    switch (PhaseOf(transform)) {
      case TransformPhase::kDecode:
        MR_RETURN_IF_ERROR(Decode(transform.decode_image()));
        trace_.image_places.push_back(place);
        return absl::OkStatus();
      case TransformPhase::kSample:
        MR_RETURN_IF_ERROR(Sample(transform));
        trace_.image_places.push_back(place);
        return absl::OkStatus();
      case TransformPhase::kBatch:
        MR_RETURN_IF_ERROR(Mix(transform));
        trace_.batch_places.push_back(place);
        return absl::OkStatus();
      case TransformPhase::kNormalize:
        trace_.normalize_place = place;
        trace_.normalize_on = transform.normalize().placement();
        return Normalise(transform.normalize());
      case TransformPhase::kDtype:
        trace_.to_dtype_place = place;
        trace_.to_dtype_on = transform.to_dtype().placement();
        return Convert(transform.to_dtype());
    }
    return absl::OkStatus();
  }

  absl::Status Decode(const DecodeImage& decode) {
    if (!IsImage()) return RefuseAsNoImage();
    if (!encoded()) {
      return Refuse(
          "holds raw pixels, there is nothing to decode: leave decode_image "
          "out");
    }
    decoded_channels_ = decode.color() == DecodeImage::RGB ? 3 : 1;
    trace_.why_not_fixed =
        "has images of different sizes: add a transform that fixes them, such "
        "as random_resized_crop or center_crop";
    return absl::OkStatus();
  }

  absl::Status RefuseAsNoImage() const {
    return Refuse(
        "is no image (encoded, or raw uint8 [height, width, channels])");
  }

  absl::Status Sample(const Transform& transform) {
    if (transform.has_custom() && trace_.shape) {
      return Custom(transform.custom());
    }
    if (trace_.role == FieldRole::BOXES_XYXY) return absl::OkStatus();
    if (!IsImage()) return RefuseAsNoImage();
    if (encoded() && decoded_channels_ == 0) {
      return Refuse("holds encoded images: put decode_image first");
    }
    switch (transform.kind_case()) {
      case Transform::kRandomResizedCrop:
        Fix(transform.random_resized_crop());
        return absl::OkStatus();
      case Transform::kCenterCrop:
        Fix(transform.center_crop());
        return absl::OkStatus();
      case Transform::kResize:
        if (transform.resize().short_side() == 0) {
          Fix(transform.resize());
        } else {
          ResizeShortSide(transform.resize().short_side());
        }
        return absl::OkStatus();
      case Transform::kRandomCrop: {
        const RandomCrop& crop = transform.random_crop();
        MR_RETURN_IF_ERROR(PerChannel("fill", crop.fill_size()));
        MR_RETURN_IF_ERROR(Pad(crop.padding()));
        if (!crop.pad_if_needed() && trace_.shape &&
            ((*trace_.shape)[0] < crop.height() ||
             (*trace_.shape)[1] < crop.width())) {
          return Refuse(absl::StrCat(
              "has images of ", (*trace_.shape)[0], " x ", (*trace_.shape)[1],
              " (with padding), which hold no window of ", crop.height(), " x ",
              crop.width(), ": add padding, or pad_if_needed: true"));
        }
        Fix(crop);
        return absl::OkStatus();
      }
      case Transform::kPad:
        MR_RETURN_IF_ERROR(PerChannel("fill", transform.pad().fill_size()));
        return Pad(transform.pad().padding());
      case Transform::kRandomRotation:
        return PerChannel("fill", transform.random_rotation().fill_size());
      case Transform::kRandomAffine:
        return PerChannel("fill", transform.random_affine().fill_size());
      case Transform::kColorJitter:
      case Transform::kGrayscale:
        return OneOrThreeChannels();
      case Transform::kGaussianBlur:
        return Blur(transform.gaussian_blur());
      case Transform::kRandomErasing:
        return PerChannel("value", transform.random_erasing().value_size());
      case Transform::kTrivialAugmentWide:
        MR_RETURN_IF_ERROR(OneOrThreeChannels());
        return PerChannel("fill", transform.trivial_augment_wide().fill_size());
      case Transform::kRandAugment:
        MR_RETURN_IF_ERROR(OneOrThreeChannels());
        return PerChannel("fill", transform.rand_augment().fill_size());
      default:
        return absl::OkStatus();
    }
  }

  // Whatever makes a tensor of fixed size of another.
  absl::Status Custom(const CustomTransform& custom) {
    if (custom.result_dtype() == DTYPE_UNSPECIFIED) return absl::OkStatus();
    trace_.dtype = custom.result_dtype();
    trace_.shape.emplace(custom.result_shape().begin(),
                         custom.result_shape().end());
    operator_result_ = true;
    return absl::OkStatus();
  }

  template <typename Sized>
  void Fix(const Sized& transform) {
    trace_.shape =
        std::vector<int64_t>{transform.height(), transform.width(), Channels()};
  }

  void ResizeShortSide(int64_t side) {
    // A square stays one; other shapes are left to those who compute them.
    if (trace_.shape && (*trace_.shape)[0] == (*trace_.shape)[1]) {
      (*trace_.shape)[0] = (*trace_.shape)[1] = side;
      return;
    }
    trace_.shape.reset();
    trace_.why_not_fixed =
        "has images of different shapes after resize of the short side: add "
        "center_crop or random_resized_crop";
  }

  absl::Status Pad(const google::protobuf::RepeatedField<uint32_t>& padding) {
    if (!trace_.shape || padding.empty()) return absl::OkStatus();
    // Left, top, right, bottom; fewer values stand for several sides.
    const auto side = [&](int i) -> int64_t {
      return padding[padding.size() == 4 ? i : i % padding.size()];
    };
    int64_t& height = (*trace_.shape)[0];
    int64_t& width = (*trace_.shape)[1];
    width += side(0) + side(2);
    height += side(1) + side(3);
    if (height > kMaxSpecSide || width > kMaxSpecSide) {
      return Refuse(absl::StrCat("is ", height, " x ", width,
                                 " pixels with this padding: each side is at "
                                 "most ",
                                 kMaxSpecSide));
    }
    return absl::OkStatus();
  }

  // `n` values for the channels: none, one for all, or one each.
  absl::Status PerChannel(absl::string_view name, int n) const {
    if (n <= 1 || n == Channels()) return absl::OkStatus();
    // A mask has a fill of its own (FieldRole.fill).
    if (trace_.role == FieldRole::MASK) return absl::OkStatus();
    return Refuse(absl::StrCat(
        "has ", Channels(), Channels() == 1 ? " channel, " : " channels, ",
        name, " has ", n, " values: write one, or one a channel"));
  }

  absl::Status OneOrThreeChannels() const {
    if (Channels() == 1 || Channels() == 3) return absl::OkStatus();
    return Refuse(absl::StrCat("has ", Channels(),
                               " channels: colours are changed where there are "
                               "1 or 3"));
  }

  absl::Status Blur(const GaussianBlur& blur) const {
    MR_RETURN_IF_ERROR(OneOrThreeChannels());
    const int64_t radius = blur.kernel_size() / 2;
    if (trace_.shape &&
        std::min((*trace_.shape)[0], (*trace_.shape)[1]) <= radius) {
      return Refuse(absl::StrCat(
          "has images of ", (*trace_.shape)[0], " x ", (*trace_.shape)[1],
          ": their edges cannot be mirrored by the ", radius,
          " pixels that kernel_size ", blur.kernel_size(), " reaches beyond"));
    }
    return absl::OkStatus();
  }

  absl::Status Mix(const Transform& transform) {
    const std::vector<std::string> labels = TransformLabels(transform);
    if (std::find(labels.begin(), labels.end(), field_.name()) !=
        labels.end()) {
      if (trace_.mixed_label) return absl::OkStatus();  // by one before
      if (field_.num_classes() < 2) {
        return Refuse(
            "is mixed as a label, but the dataset does not say how many "
            "classes it has: pack it with class names, or name the label");
      }
      trace_.mixed_label = true;
      trace_.dtype = DTYPE_FLOAT32;
      trace_.shape = std::vector<int64_t>{field_.num_classes()};
      return absl::OkStatus();
    }
    if (!IsImage()) return RefuseAsNoImage();
    if (encoded() && decoded_channels_ == 0) {
      return Refuse("holds encoded images: put decode_image first");
    }
    if (!trace_.shape) {
      return Refuse(absl::StrCat("cannot be mixed: it ", trace_.why_not_fixed));
    }
    return absl::OkStatus();
  }

  absl::Status Normalise(const Normalize& normalize) {
    if (trace_.dtype != DTYPE_UINT8) {
      return Refuse(absl::StrCat("is ", DTypeName(trace_.dtype),
                                 ", normalize works on uint8"));
    }
    const int64_t channels =
        encoded() && !trace_.shape ? decoded_channels_ : LastDimension();
    if (channels == 0) return Refuse("has no channels: decode it first");
    if (channels != normalize.mean_size()) {
      return Refuse(absl::StrCat(
          "has ", channels, channels == 1 ? " channel" : " channels",
          ", but normalize.mean has ", normalize.mean_size(),
          normalize.mean_size() == 1 ? " value" : " values",
          ": write one value for each channel"));
    }
    trace_.device_dtype = DTYPE_FLOAT32;
    if (trace_.normalize_on == PLACEMENT_SERVER) trace_.dtype = DTYPE_FLOAT32;
    return absl::OkStatus();
  }

  int64_t LastDimension() const {
    return trace_.shape && !trace_.shape->empty() ? trace_.shape->back() : 0;
  }

  absl::Status Convert(const ToDtype& to) {
    if (encoded() && decoded_channels_ == 0) {
      return Refuse("holds encoded images: put decode_image first");
    }
    const bool normalised = trace_.normalize_place >= 0;
    const DType from = normalised ? DTYPE_FLOAT32 : trace_.dtype;
    if (to.scale() && from != DTYPE_UINT8) {
      return Refuse(absl::StrCat(
          "is ", DTypeName(from),
          normalised ? " after normalize, which has divided by 255: " : ": ",
          "scale works on uint8, leave it out"));
    }
    if (normalised && trace_.normalize_on == PLACEMENT_CLIENT &&
        to.placement() == PLACEMENT_SERVER) {
      return Refuse(
          "is normalised by the client, after which the server can convert "
          "nothing: give both the same placement");
    }
    MR_RETURN_IF_ERROR(CheckConversion(from, to.dtype()));
    trace_.device_dtype = to.dtype();
    if (to.placement() == PLACEMENT_SERVER) trace_.dtype = to.dtype();
    return absl::OkStatus();
  }

  std::optional<ValueRange> Values(DType dtype) const {
    if (is_class()) return ValuesOfClasses(field_.num_classes());
    return ValuesOf(dtype);
  }

  absl::Status CheckConversion(DType from, DType to) const {
    if (from == to || (IsFloatingPoint(from) && IsFloatingPoint(to))) {
      return absl::OkStatus();
    }
    const std::optional<ValueRange> values = Values(from);
    if (!values) {
      return Refuse(absl::StrCat("is ", DTypeName(from),
                                 ": fractions would be "
                                 "lost in ",
                                 DTypeName(to)));
    }
    if (!Holds(to, *values)) {
      return Refuse(absl::StrCat("holds values of ", values->min, " .. ",
                                 values->max, ", which ", DTypeName(to),
                                 " does not hold",
                                 from == DTYPE_INT64 && !is_class()
                                     ? ": pack it in the type that you want"
                                     : ""));
    }
    return absl::OkStatus();
  }

  // What the output says, and what the device makes of it.
  absl::Status Finish() {
    if (trace_.device_dtype == DTYPE_UNSPECIFIED) {
      trace_.device_dtype = trace_.dtype;
    }
    Output::Layout layout = Output::AS_STORED;
    for (int i = 0; i < spec_.outputs_size(); ++i) {
      const Output& output = spec_.outputs(i);
      if (output.field() != field_.name()) continue;
      layout = output.layout();
      where_ = absl::StrCat("outputs[", i, "]");
      if (layout != Output::AS_STORED && trace_.shape &&
          (trace_.shape->size() != 3 || Channels() == 0)) {
        return Refuse(
            "is no image of fixed size, so it has no layout: leave layout out");
      }
      if (absl::Status s = OnTheWire(output.dtype()); !s.ok()) return s;
    }
    if (!trace_.shape) return absl::OkStatus();
    trace_.device_shape = trace_.shape;
    const bool planes =
        layout == Output::NCHW ||
        (layout == Output::AS_STORED && trace_.normalize_place >= 0);
    if (planes && trace_.shape->size() == 3) {
      const std::vector<int64_t>& s = *trace_.shape;
      trace_.device_shape = std::vector<int64_t>{s[2], s[0], s[1]};
    }
    return absl::OkStatus();
  }

  // The transform that computes on pixels in the trainer; empty: none.
  absl::string_view ScaledByTheClient() const {
    if (trace_.normalize_place >= 0 &&
        trace_.normalize_on == PLACEMENT_CLIENT) {
      return "normalize";
    }
    const bool scales =
        trace_.to_dtype_place >= 0 && trace_.to_dtype_on == PLACEMENT_CLIENT &&
        spec_.transforms(trace_.to_dtype_place).to_dtype().scale();
    return scales ? "to_dtype with scale" : "";
  }

  // The wire may carry a smaller type that holds every value.
  absl::Status OnTheWire(DType wanted) {
    if (wanted == DTYPE_UNSPECIFIED || wanted == trace_.dtype) {
      return absl::OkStatus();
    }
    if (const absl::string_view reader = ScaledByTheClient(); !reader.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          where_, ".dtype: field ", field_.name(), " is sent as ",
          DTypeName(wanted), ", but ", reader,
          " in the trainer reads uint8: leave dtype out; the trainer gets ",
          DTypeName(trace_.device_dtype)));
    }
    const std::optional<ValueRange> values = Values(trace_.dtype);
    if (IsFloatingPoint(wanted) || !values || !Holds(wanted, *values)) {
      return absl::UnimplementedError(absl::StrCat(
          where_, ".dtype: field ", field_.name(), " is ",
          DTypeName(trace_.dtype), " and conversion to ", DTypeName(wanted),
          " on the wire is not built yet: leave dtype out, and add to_dtype "
          "for another type in the trainer"));
    }
    trace_.dtype = wanted;
    return absl::OkStatus();
  }

  const PipelineSpec& spec_;
  const Field& field_;
  FieldTrace trace_;
  int64_t decoded_channels_ = 0;
  bool operator_result_ = false;  // an operator has made another tensor of it
  std::string where_;
};

}  // namespace

absl::StatusOr<FieldTrace> TraceField(const PipelineSpec& spec,
                                      const Field& field) {
  return Tracer(spec, field).Run();
}

DType LabelWireType(int64_t num_classes) {
  const ValueRange classes = ValuesOfClasses(num_classes);
  for (DType dtype : {DTYPE_INT16, DTYPE_INT32}) {
    if (Holds(dtype, classes)) return dtype;
  }
  return DTYPE_INT64;
}

}  // namespace millrace
