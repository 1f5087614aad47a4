#include "server/plan/resolve_operators.h"

#include <map>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "proto/dtype.h"
#include "server/operators/operator_ref.h"
#include "server/plan/field_trace.h"
#include "server/plan/find_field.h"
#include "server/plan/image_field.h"
#include "server/plan/transforms/transforms.h"

namespace millrace::plan {
namespace {

using Tensor = OperatorCatalog::Tensor;

constexpr char kLoad[] = "load its library with --operators=FILE.so";

std::string Format(const Tensor& tensor) {
  return absl::StrCat(DTypeName(tensor.dtype), " [",
                      absl::StrJoin(tensor.shape, ", "), "]");
}

// Error: there is no operator `asked`.
absl::Status Missing(absl::string_view where, absl::string_view kind,
                     const OperatorRef& asked, absl::string_view have) {
  if (!asked.library_hash().empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(where, ": the job uses the ", kind, " ",
                     operators::FormatOperator(asked),
                     ", which is not loaded (loaded: ", have, "): ", kLoad));
  }
  return absl::NotFoundError(absl::StrCat(
      where, ": no ", kind, " \"", asked.name(), "\" is loaded (loaded: ", have,
      "): ", kLoad, ", on every server that serves the job"));
}

absl::Status At(absl::string_view where, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat(where, ": ", status.message()));
}

const Field& FieldOf(const DatasetInfo& info, const std::string& name) {
  const Field* const field = FindField(info, name);
  return field == nullptr ? Field::default_instance() : *field;
}

class Resolver {
 public:
  Resolver(const DatasetInfo& info, const OperatorCatalog* catalog, int source,
           PipelineSpec& spec)
      : info_(info),
        catalog_(catalog),
        source_(source),
        reader_(absl::StrCat("sources[", source, "].reader")),
        spec_(spec) {}

  absl::Status Run() {
    MR_RETURN_IF_ERROR(Reader(*spec_.mutable_sources(source_)));
    for (int place = 0; place < spec_.transforms_size(); ++place) {
      Transform& transform = *spec_.mutable_transforms(place);
      where_ =
          absl::StrCat("transforms[", place, "].", TransformName(transform));
      if (transform.has_decode_image()) {
        MR_RETURN_IF_ERROR(Decoders(*transform.mutable_decode_image()));
      }
      MR_RETURN_IF_ERROR(CheckOrder(transform));
      if (transform.has_custom()) {
        MR_RETURN_IF_ERROR(Custom(place, *transform.mutable_custom()));
      }
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Refuse(absl::string_view text) const {
    return absl::InvalidArgumentError(absl::StrCat(where_, ": ", text));
  }

  absl::Status Reader(Source& source) const {
    if (info_.has_reader()) {
      if (source.has_reader() &&
          source.reader().name() != info_.reader().name()) {
        return absl::FailedPreconditionError(absl::StrCat(
            reader_, ": the job reads dataset ", source.dataset(),
            " with the source ", source.reader().name(),
            ", this server with the source ", info_.reader().name(),
            ": serve it in the same way on every server"));
      }
      MR_RETURN_IF_ERROR(
          At(reader_, operators::CheckSameOperator("source", source.reader(),
                                                   info_.reader())));
      *source.mutable_reader() = info_.reader();
      return absl::OkStatus();
    }
    if (!source.has_reader()) return absl::OkStatus();
    return absl::FailedPreconditionError(
        absl::StrCat(reader_, ": the job reads dataset ", source.dataset(),
                     " with the source ", source.reader().name(),
                     ", this server reads it as ", info_.format(),
                     ": serve it in the same way on every server"));
  }

  absl::Status Decoders(DecodeImage& decode) const {
    for (int i = 0; i < decode.decoders_size(); ++i) {
      OperatorRef& ref = *decode.mutable_decoders(i);
      const std::string where = absl::StrCat(where_, ".decoders[", i, "]");
      for (int k = 0; k < i; ++k) {
        if (decode.decoders(k).name() == ref.name()) {
          return absl::InvalidArgumentError(
              absl::StrCat(where, ": decoder ", ref.name(), " is named twice"));
        }
      }
      const auto found = catalog_ == nullptr
                             ? std::nullopt
                             : catalog_->FindDecoder(ref.name());
      if (!found) {
        return Missing(where, "decoder", ref,
                       catalog_ == nullptr ? "none" : catalog_->DecoderNames());
      }
      MR_RETURN_IF_ERROR(
          At(where, operators::CheckSameOperator("decoder", ref, found->ref)));
      ref = found->ref;
    }
    return absl::OkStatus();
  }

  // Transforms of images come before a transform that makes another kind of
  // tensor.
  absl::Status CheckOrder(const Transform& transform) const {
    const TransformPhase phase = PhaseOf(transform);
    if (transform.has_custom() || phase == TransformPhase::kNormalize ||
        phase == TransformPhase::kDtype) {
      return absl::OkStatus();
    }
    for (const std::string& field : TransformFields(transform)) {
      const auto made = made_by_.find(field);
      if (made != made_by_.end()) {
        return Refuse(ComesAfter(field, made->second));
      }
    }
    return absl::OkStatus();
  }

  static std::string ComesAfter(const std::string& field,
                                const std::string& maker) {
    return absl::StrCat("it comes after the operator ", maker,
                        ", which makes a tensor of field ", field,
                        ": transforms of images come before it");
  }

  absl::Status Custom(int place, CustomTransform& custom) {
    OperatorRef asked;
    asked.set_name(custom.name());
    asked.set_version(custom.version());
    asked.set_library_hash(custom.library_hash());
    const auto found = catalog_ == nullptr
                           ? std::nullopt
                           : catalog_->FindTransform(custom.name());
    if (!found) {
      return Missing(where_, "transform", asked,
                     catalog_ == nullptr ? "none" : catalog_->TransformNames());
    }
    MR_RETURN_IF_ERROR(At(
        where_, operators::CheckSameOperator("transform", asked, found->ref)));
    custom.set_version(found->ref.version());
    custom.set_library_hash(found->ref.library_hash());
    return found->on_images ? OnImages(place, custom)
                            : OnTensors(place, custom);
  }

  // The result of the transforms before `place` for a field.
  absl::StatusOr<FieldTrace> Before(int place, const std::string& field) const {
    PipelineSpec before = spec_;
    before.clear_outputs();
    before.mutable_transforms()->DeleteSubrange(
        place, before.transforms_size() - place);
    return TraceField(before, FieldOf(info_, field));
  }

  absl::Status OnImages(int place, const CustomTransform& custom) const {
    if (custom.result_dtype() != DTYPE_UNSPECIFIED) {
      return Refuse(absl::StrCat(
          "the operator ", custom.name(),
          " changes pixels in place: remove result_dtype and result_shape"));
    }
    for (const std::string& name : custom.fields()) {
      const auto made = made_by_.find(name);
      if (made != made_by_.end()) {
        return Refuse(ComesAfter(name, made->second));
      }
      MR_ASSIGN_OR_RETURN(const FieldTrace trace, Before(place, name));
      const Field& field = FieldOf(info_, name);
      int channels = 0;
      if (field.kind() == FIELD_KIND_ENCODED_IMAGE) {
        for (uint32_t at : trace.image_places) {
          const Transform& transform = spec_.transforms(static_cast<int>(at));
          if (!transform.has_decode_image()) continue;
          channels =
              transform.decode_image().color() == DecodeImage::RGB ? 3 : 1;
        }
        if (channels == 0) {
          return Refuse(absl::StrCat("field ", name,
                                     " holds encoded images: put decode_image "
                                     "first"));
        }
      } else if (IsRawImage(field)) {
        channels = static_cast<int>(field.shape(2));
      } else {
        return Refuse(absl::StrCat("the operator ", custom.name(),
                                   " works on images, but field ", name,
                                   " is not an image (encoded, or raw uint8 "
                                   "[height, width, channels])"));
      }
      MR_RETURN_IF_ERROR(catalog_->CheckOnImages(
          custom, static_cast<uint32_t>(place), channels));
    }
    return absl::OkStatus();
  }

  absl::Status OnTensors(int place, CustomTransform& custom) {
    std::optional<Tensor> result;
    for (const std::string& name : custom.fields()) {
      MR_ASSIGN_OR_RETURN(const FieldTrace trace, Before(place, name));
      if (!trace.shape) {
        return Refuse(
            absl::StrCat("the operator ", custom.name(),
                         " works on tensors of fixed size, but field ", name,
                         " ", trace.why_not_fixed));
      }
      const Tensor input = {trace.dtype, *trace.shape};
      MR_ASSIGN_OR_RETURN(
          Tensor made,
          catalog_->ResultOf(custom, static_cast<uint32_t>(place), input));
      if (custom.has_p() && custom.p() < 1 && !(made == input)) {
        return Refuse(absl::StrCat(
            "p is ", custom.p(), ", but the operator ", custom.name(),
            " makes ", Format(made), " of ", Format(input),
            ": samples that it skips would have another type; remove p"));
      }
      if (result && !(*result == made)) {
        return Refuse(absl::StrCat(
            "the operator ", custom.name(), " makes ", Format(*result),
            " of field ", custom.fields(0), " and ", Format(made), " of field ",
            name, ": write one transform for each field"));
      }
      result = std::move(made);
      made_by_[name] = custom.name();
    }
    if (custom.result_dtype() != DTYPE_UNSPECIFIED) {
      const Tensor said = {
          custom.result_dtype(),
          {custom.result_shape().begin(), custom.result_shape().end()}};
      if (said == *result) return absl::OkStatus();
      return Refuse(absl::StrCat("the operator ", custom.name(), " makes ",
                                 Format(*result), ", but the spec says ",
                                 Format(said),
                                 ": remove result_dtype and result_shape"));
    }
    custom.set_result_dtype(result->dtype);
    custom.mutable_result_shape()->Assign(result->shape.begin(),
                                          result->shape.end());
    return absl::OkStatus();
  }

  const DatasetInfo& info_;
  const OperatorCatalog* const catalog_;
  const int source_;
  const std::string reader_;  // its place in the spec
  PipelineSpec& spec_;
  std::string where_;
  std::map<std::string, std::string> made_by_;  // field -> operator on tensors
};

}  // namespace

absl::Status ResolveOperators(const DatasetInfo& info,
                              const OperatorCatalog* catalog, int source,
                              PipelineSpec& spec) {
  return Resolver(info, catalog, source, spec).Run();
}

}  // namespace millrace::plan
