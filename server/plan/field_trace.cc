#include "server/plan/field_trace.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/dtype.h"
#include "server/plan/spec_check.h"

namespace millrace {
namespace {

// Bytes of one sample of one field; more is taken for damage.
constexpr uint64_t kMaxSampleBytes = uint64_t{1} << 32;

std::string KindName(const Transform& transform) {
  const auto* field = transform.GetReflection()->GetOneofFieldDescriptor(
      transform, transform.GetDescriptor()->oneof_decl(0));
  return field == nullptr ? "transform" : field->name();
}

bool ShapeIsSane(const Field& field) {
  uint64_t bytes = ElementBytes(field.dtype());
  if (bytes == 0) return false;
  for (int64_t dim : field.shape()) {
    if (dim < 1 || static_cast<uint64_t>(dim) > kMaxSampleBytes / bytes) {
      return false;
    }
    bytes *= dim;
  }
  return true;
}

class Tracer {
 public:
  explicit Tracer(const Field& field) : field_(field) {}

  absl::StatusOr<FieldTrace> Run(const PipelineSpec& spec) {
    if (absl::Status s = Begin(); !s.ok()) return s;
    for (int place = 0; place < spec.transforms_size(); ++place) {
      const Transform& transform = spec.transforms(place);
      const std::vector<std::string> fields = TransformFields(transform);
      if (std::find(fields.begin(), fields.end(), field_.name()) ==
          fields.end()) {
        continue;
      }
      where_ = absl::StrCat("transforms[", place, "].", KindName(transform));
      if (transform.has_normalize()) {
        if (absl::Status s = Normalise(transform.normalize()); !s.ok()) {
          return s;
        }
        trace_.normalize_place = place;
      } else {
        if (absl::Status s = Image(transform); !s.ok()) return s;
        trace_.image_places.push_back(place);
      }
    }
    return std::move(trace_);
  }

 private:
  absl::Status Refuse(absl::string_view text) const {
    return absl::InvalidArgumentError(
        absl::StrCat(where_, ": field ", field_.name(), " ", text));
  }

  absl::Status Begin() {
    where_ = "schema";
    switch (field_.kind()) {
      case FIELD_KIND_ENCODED_IMAGE:
        trace_.dtype = DTYPE_UINT8;
        trace_.why_not_fixed =
            "holds encoded images: add decode_image and a transform that "
            "fixes their size, such as random_resized_crop or center_crop";
        return absl::OkStatus();
      case FIELD_KIND_TENSOR:
        if (!ShapeIsSane(field_)) {
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
        trace_.why_not_fixed =
            "has another length in every sample, and ragged tensors are not "
            "built yet";
        return absl::OkStatus();
    }
  }

  absl::Status Normalise(const Normalize& normalize) {
    if (trace_.dtype != DTYPE_UINT8) {
      return Refuse(absl::StrCat("is ", DTypeName(trace_.dtype),
                                 ", normalize works on uint8"));
    }
    const int64_t channels = Channels();
    if (channels == 0) return Refuse("has no channels: decode it first");
    if (channels != normalize.mean_size()) {
      return Refuse(absl::StrCat("has ", channels, " channels, normalize has ",
                                 normalize.mean_size(),
                                 " means: write one a channel"));
    }
    return absl::OkStatus();
  }

  absl::Status Image(const Transform& transform) {
    const bool encoded = field_.kind() == FIELD_KIND_ENCODED_IMAGE;
    if (!encoded &&
        !(field_.kind() == FIELD_KIND_TENSOR && field_.dtype() == DTYPE_UINT8 &&
          field_.shape_size() == 3)) {
      return Refuse(
          "is no image (encoded, or raw uint8 [height, width, channels])");
    }
    if (transform.has_decode_image()) {
      if (!encoded) {
        return Refuse(
            "holds raw pixels, there is nothing to decode: leave "
            "decode_image out");
      }
      decoded_channels_ =
          transform.decode_image().color() == DecodeImage::GRAY ? 1 : 3;
      trace_.why_not_fixed =
          "has images of different sizes: add a transform that fixes them, "
          "such as random_resized_crop or center_crop";
      return absl::OkStatus();
    }
    if (encoded && decoded_channels_ == 0) {
      return Refuse("holds encoded images: put decode_image first");
    }
    switch (transform.kind_case()) {
      case Transform::kRandomResizedCrop:
        Fix(transform.random_resized_crop());
        break;
      case Transform::kCenterCrop:
        Fix(transform.center_crop());
        break;
      case Transform::kResize:
        if (transform.resize().short_side() == 0) {
          Fix(transform.resize());
        } else {
          trace_.shape.reset();
          trace_.why_not_fixed =
              "has images of different shapes after resize of the short side: "
              "add center_crop or random_resized_crop";
        }
        break;
      default:
        break;
    }
    return absl::OkStatus();
  }

  template <typename Sized>
  void Fix(const Sized& transform) {
    trace_.shape =
        std::vector<int64_t>{transform.height(), transform.width(), Channels()};
  }

  int64_t Channels() const {
    if (field_.kind() == FIELD_KIND_ENCODED_IMAGE) return decoded_channels_;
    return field_.shape_size() == 0 ? 0 : field_.shape(field_.shape_size() - 1);
  }

  const Field& field_;
  FieldTrace trace_;
  int64_t decoded_channels_ = 0;
  std::string where_;
};

}  // namespace

absl::StatusOr<FieldTrace> TraceField(const PipelineSpec& spec,
                                      const Field& field) {
  return Tracer(field).Run(spec);
}

}  // namespace millrace
