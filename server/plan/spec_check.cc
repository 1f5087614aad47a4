#include "server/plan/spec_check.h"

#include <google/protobuf/message.h>
#include <google/protobuf/unknown_field_set.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/logging.h"
#include "server/plan/content_revision.h"
#include "server/plan/presets.h"

namespace millrace {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

template <typename Repeated>
std::vector<std::string> FieldsOrImage(const Repeated& fields) {
  if (fields.empty()) return {"image"};
  return {fields.begin(), fields.end()};
}

class Checker {
 public:
  std::vector<SpecProblem> Run(const PipelineSpec& spec) {
    CheckForeign(spec);
    // A value that is no number or a field of another version makes nonsense
    // of what follows.
    if (!problems_.empty()) return std::move(problems_);
    CheckTop(spec);
    CheckSources(spec);
    CheckShuffle(spec);
    for (int i = 0; i < spec.transforms_size(); ++i) {
      In(spec, "transforms", i, [&] { CheckTransform(spec.transforms(i), i); });
    }
    CheckOutputs(spec);
    return std::move(problems_);
  }

 private:
  template <typename Body>
  void In(const Message& message, absl::string_view name, int index,
          const Body& body) {
    const FieldDescriptor* field =
        message.GetDescriptor()->FindFieldByName(std::string(name));
    MR_CHECK(field != nullptr) << name;
    path_.push_back({field, index});
    body();
    path_.pop_back();
  }

  void Add(absl::Status status) {
    problems_.push_back({path_, std::move(status)});
  }
  void Invalid(absl::string_view text) {
    Add(absl::InvalidArgumentError(text));
  }
  void Unimplemented(absl::string_view text) {
    Add(absl::UnimplementedError(text));
  }
  // Of a field of `message`.
  void Invalid(const Message& message, absl::string_view name,
               absl::string_view text, int index = -1) {
    In(message, name, index, [&] { Invalid(text); });
  }
  void Unimplemented(const Message& message, absl::string_view name,
                     absl::string_view text, int index = -1) {
    In(message, name, index, [&] { Unimplemented(text); });
  }

  // Unknown fields, unknown enum values, numbers that are none.
  void CheckForeign(const Message& message) {
    const Reflection& reflection = *message.GetReflection();
    const auto& unknown = reflection.GetUnknownFields(message);
    for (int i = 0; i < unknown.field_count(); ++i) {
      Unimplemented(absl::StrCat(
          "field number ", unknown.field(i).number(), " of ",
          message.GetDescriptor()->name(),
          " is not known to this version: upgrade the server, or do without "
          "the field"));
    }
    std::vector<const FieldDescriptor*> fields;
    reflection.ListFields(message, &fields);
    for (const FieldDescriptor* field : fields) {
      const bool repeated = field->is_repeated();
      const int count = repeated ? reflection.FieldSize(message, field) : 1;
      for (int i = 0; i < count; ++i) {
        path_.push_back({field, repeated ? i : -1});
        CheckForeignValue(message, field, repeated ? i : -1);
        path_.pop_back();
      }
    }
  }

  void CheckForeignValue(const Message& message, const FieldDescriptor* field,
                         int i) {
    const Reflection& r = *message.GetReflection();
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_MESSAGE:
        CheckForeign(i < 0 ? r.GetMessage(message, field)
                           : r.GetRepeatedMessage(message, field, i));
        return;
      case FieldDescriptor::CPPTYPE_ENUM: {
        const int value = i < 0 ? r.GetEnumValue(message, field)
                                : r.GetRepeatedEnumValue(message, field, i);
        if (field->enum_type()->FindValueByNumber(value) == nullptr) {
          Unimplemented(absl::StrCat("value ", value, " of ",
                                     field->enum_type()->name(),
                                     " is not known to this version"));
        }
        return;
      }
      case FieldDescriptor::CPPTYPE_STRING: {
        // Names are repeated in messages, which must fit into a trailer.
        const size_t size = (i < 0 ? r.GetString(message, field)
                                   : r.GetRepeatedString(message, field, i))
                                .size();
        if (field->type() == FieldDescriptor::TYPE_STRING &&
            size > kMaxNameBytes) {
          Invalid(absl::StrCat("a name of ", size, " bytes: at most ",
                               kMaxNameBytes));
        }
        return;
      }
      case FieldDescriptor::CPPTYPE_DOUBLE:
      case FieldDescriptor::CPPTYPE_FLOAT: {
        const bool is_float =
            field->cpp_type() == FieldDescriptor::CPPTYPE_FLOAT;
        const double value =
            is_float ? (i < 0 ? r.GetFloat(message, field)
                              : r.GetRepeatedFloat(message, field, i))
                     : (i < 0 ? r.GetDouble(message, field)
                              : r.GetRepeatedDouble(message, field, i));
        if (!std::isfinite(value)) {
          Invalid(absl::StrCat(value, " is not a finite number"));
        }
        return;
      }
      default:
        return;
    }
  }

  void CheckTop(const PipelineSpec& spec) {
    if (spec.spec_version() > kSpecVersion) {
      Unimplemented(
          spec, "spec_version",
          absl::StrCat("spec version ", spec.spec_version(),
                       " is not known to this server, which knows version ",
                       kSpecVersion,
                       ": upgrade the server, or write that version"));
    }
    if (!spec.preset().empty()) {
      In(spec, "preset", -1, [&] {
        if (absl::Status s = CheckPresetName(spec.preset()); !s.ok()) Add(s);
        if (spec.transforms_size() > 0 || spec.outputs_size() > 0) {
          Invalid(
              "a preset stands for transforms and outputs: leave these empty, "
              "or leave the preset out and write them all");
        }
      });
    }
    if (spec.batch_size() == 0 || spec.batch_size() > kMaxBatchSize) {
      Invalid(spec, "batch_size",
              absl::StrCat("batch_size is ", spec.batch_size(),
                           ": the global batch is 1 .. ", kMaxBatchSize,
                           " samples"));
    }
    if (spec.transforms_size() > kMaxTransforms) {
      Invalid(spec, "transforms",
              absl::StrCat(spec.transforms_size(), " transforms: at most ",
                           kMaxTransforms),
              kMaxTransforms);
    }
    if (spec.outputs_size() > kMaxOutputs) {
      Invalid(
          spec, "outputs",
          absl::StrCat(spec.outputs_size(), " outputs: at most ", kMaxOutputs),
          kMaxOutputs);
    }
  }

  void CheckSources(const PipelineSpec& spec) {
    if (spec.sources_size() == 0) {
      Invalid(
          "the spec names no dataset: add sources { dataset: \"NAME\" } "
          "(a server lists its datasets by ListDatasets)");
    }
    if (spec.sources_size() > 1) {
      Unimplemented(spec, "sources",
                    "mixtures of several sources are not built yet: name one "
                    "dataset",
                    1);
    }
    for (int i = 0; i < spec.sources_size(); ++i) {
      const Source& source = spec.sources(i);
      In(spec, "sources", i, [&] {
        if (source.dataset().empty()) Invalid("a source without a dataset");
        if (source.weight() < 0) {
          Invalid(source, "weight",
                  absl::StrCat("weight ", source.weight(),
                               " is negative: weights are shares above 0"));
        }
        if (source.has_subset()) {
          const Subset& subset = source.subset();
          if (!(subset.from() >= 0 && subset.from() < subset.to() &&
                subset.to() <= 1)) {
            Invalid(source, "subset",
                    absl::StrCat("a subset from ", subset.from(), " to ",
                                 subset.to(),
                                 ": write bounds with 0 <= from < to <= 1"));
          }
          if (spec.shuffle().mode() == Shuffle::BLOCK) {
            Unimplemented(source, "subset",
                          "BLOCK order over a subset is not built: a keyed cut "
                          "scatters over all blocks; take GLOBAL");
          }
        }
      });
    }
  }

  void CheckShuffle(const PipelineSpec& spec) {
    const Shuffle& shuffle = spec.shuffle();
    // Keeps every product of the order's arithmetic below 2^63.
    constexpr uint64_t kMaxBlock = uint64_t{1} << 30;
    In(spec, "shuffle", -1, [&] {
      for (const auto& [name, value] :
           {std::pair{"block_size", shuffle.block_size()},
            std::pair{"window_blocks", shuffle.window_blocks()}}) {
        if (shuffle.mode() != Shuffle::BLOCK && value != 0) {
          Invalid(shuffle, name,
                  absl::StrCat(name,
                               " only means something with mode: BLOCK: "
                               "set that mode or leave it out"));
        } else if (value > kMaxBlock) {
          Invalid(shuffle, name,
                  absl::StrCat(name, " ", value, ": at most ", kMaxBlock));
        }
      }
    });
  }

  void CheckTransform(const Transform& transform, int place) {
    const FieldDescriptor* kind =
        transform.GetReflection()->GetOneofFieldDescriptor(
            transform, transform.GetDescriptor()->oneof_decl(0));
    if (kind == nullptr) {
      Invalid("an empty transform: write one, such as center_crop { ... }");
      return;
    }
    path_.push_back({kind, -1});
    switch (transform.kind_case()) {
      case Transform::kDecodeImage:
        break;
      case Transform::kRandomResizedCrop:
        CheckRandomResizedCrop(transform.random_resized_crop());
        break;
      case Transform::kResize:
        CheckResize(transform.resize());
        break;
      case Transform::kCenterCrop:
        CheckSides(transform.center_crop());
        break;
      case Transform::kHorizontalFlip: {
        const HorizontalFlip& flip = transform.horizontal_flip();
        if (flip.has_p() &&
            !(flip.p() >= 0 && flip.p() <= 1)) {
          Invalid(flip, "p",
                  absl::StrCat("p is ", flip.p(),
                               ": it is 0 .. 1"));
        }
        break;
      }
      case Transform::kNormalize:
        CheckNormalize(transform.normalize());
        break;
      case Transform::kCustom:
        Unimplemented(absl::StrCat("custom transform \"",
                                   transform.custom().name(),
                                   "\": custom transforms are not built yet"));
        break;
      case Transform::KIND_NOT_SET:
        break;
      default:
        Unimplemented(absl::StrCat(kind->name(), " is not built yet"));
        break;
    }
    CheckFields(transform, place);
    path_.pop_back();
  }

  void CheckFields(const Transform& transform, int place) {
    const std::vector<std::string> fields = TransformFields(transform);
    if (fields.size() > 1) {
      Unimplemented(
          "one transform over several fields is not built yet: write one "
          "transform a field");
    }
    std::set<std::string> seen;
    for (const std::string& field : fields) {
      if (field.empty()) Invalid("a field without a name");
      if (!seen.insert(field).second) {
        Invalid(absl::StrCat("field ", field, " is named twice"));
      }
      Order& order = order_[field];
      if (order.normalized) {
        Invalid(absl::StrCat(
            "nothing may come after normalize of field ", field,
            ": it is computed on the device, last; move normalize to the end"));
      }
      if (transform.has_decode_image() && order.count > 0) {
        Invalid(absl::StrCat("decode_image of field ", field,
                             " comes after another transform of it: it must "
                             "be the field's first, and only once"));
      }
      order.normalized |= transform.has_normalize();
      ++order.count;
    }
  }

  template <typename M>
  void CheckSides(const M& message) {
    for (const auto& [name, value] : {std::pair{"height", message.height()},
                                      std::pair{"width", message.width()}}) {
      CheckSide(message, name, value);
    }
  }

  void CheckSide(const Message& message, absl::string_view name,
                 uint32_t value) {
    if (value == 0 || value > kMaxImageSide) {
      Invalid(message, name,
              absl::StrCat(name, " is ", value, ": it is 1 .. ", kMaxImageSide,
                           " pixels"));
    }
  }

  void CheckRandomResizedCrop(const RandomResizedCrop& crop) {
    CheckSides(crop);
    if (crop.scale_min() != 0 || crop.scale_max() != 0) {
      if (!(crop.scale_min() > 0 && crop.scale_min() <= crop.scale_max() &&
            crop.scale_max() <= 1)) {
        Invalid(
            crop, crop.scale_min() > 0 ? "scale_max" : "scale_min",
            absl::StrCat("scale ", crop.scale_min(), " .. ", crop.scale_max(),
                         ": write 0 < scale_min <= scale_max <= 1, or "
                         "neither for 0.08 .. 1"));
      }
    }
    if (crop.ratio_min() != 0 || crop.ratio_max() != 0) {
      if (!(crop.ratio_min() >= 0.01 && crop.ratio_min() <= crop.ratio_max() &&
            crop.ratio_max() <= 100)) {
        Invalid(
            crop, crop.ratio_min() >= 0.01 ? "ratio_max" : "ratio_min",
            absl::StrCat("ratio ", crop.ratio_min(), " .. ", crop.ratio_max(),
                         ": write 0.01 <= ratio_min <= ratio_max <= 100, "
                         "or neither for 3/4 .. 4/3"));
      }
    }
  }

  void CheckResize(const Resize& resize) {
    const bool exact = resize.height() != 0 || resize.width() != 0;
    if (resize.short_side() != 0 && exact) {
      Invalid(resize, "short_side",
              "either short_side, or height and width, not both");
    } else if (exact) {
      CheckSides(resize);
    } else {
      CheckSide(resize, "short_side", resize.short_side());
    }
  }

  void CheckNormalize(const Normalize& normalize) {
    if (normalize.placement() == PLACEMENT_SERVER) {
      Unimplemented(normalize, "placement",
                    "normalising on the server is not built yet: leave "
                    "placement out, the client does it on the device");
    }
    if (normalize.mean_size() == 0) {
      Invalid(
          "normalize without a mean: write one mean and one stddev a "
          "channel");
    }
    if (normalize.mean_size() != normalize.stddev_size()) {
      Invalid(absl::StrCat("normalize has ", normalize.mean_size(),
                           " means and ", normalize.stddev_size(),
                           " stddevs: write one of each a channel"));
    }
    for (int i = 0; i < normalize.stddev_size(); ++i) {
      if (!(normalize.stddev(i) > 0)) {
        Invalid(normalize, "stddev",
                absl::StrCat("stddev ", normalize.stddev(i),
                             ": it must be above 0"),
                i);
      }
    }
  }

  void CheckOutputs(const PipelineSpec& spec) {
    std::set<std::string> names, fields;
    for (int i = 0; i < spec.outputs_size(); ++i) {
      const Output& output = spec.outputs(i);
      In(spec, "outputs", i, [&] {
        if (output.field().empty()) {
          Invalid("an output without a field");
          return;
        }
        const std::string& name =
            output.name().empty() ? output.field() : output.name();
        if (name == "sample_index" || name == "valid") {
          Invalid(absl::StrCat("an output may not be called ", name,
                               ": every batch has a tensor of that name; set "
                               "another name"));
        }
        if (!names.insert(name).second) {
          Invalid(absl::StrCat("two outputs are called ", name));
        }
        if (!fields.insert(output.field()).second) {
          Unimplemented(absl::StrCat("field ", output.field(),
                                     " is an output twice: not built yet"));
        }
      });
    }
  }

  struct Order {
    int count = 0;
    bool normalized = false;
  };

  std::vector<SpecPathStep> path_;
  std::vector<SpecProblem> problems_;
  std::map<std::string, Order> order_;  // of the transforms of a field
};

}  // namespace

std::vector<std::string> TransformFields(const Transform& transform) {
  switch (transform.kind_case()) {
    case Transform::kDecodeImage:
      return {transform.decode_image().field().empty()
                  ? "image"
                  : transform.decode_image().field()};
    case Transform::kRandomResizedCrop:
      return FieldsOrImage(transform.random_resized_crop().fields());
    case Transform::kResize:
      return FieldsOrImage(transform.resize().fields());
    case Transform::kCenterCrop:
      return FieldsOrImage(transform.center_crop().fields());
    case Transform::kHorizontalFlip:
      return FieldsOrImage(transform.horizontal_flip().fields());
    case Transform::kNormalize:
      return FieldsOrImage(transform.normalize().fields());
    default:
      return {};
  }
}

std::vector<SpecProblem> FindSpecProblems(const PipelineSpec& spec) {
  return Checker().Run(spec);
}

std::string FormatSpecPath(const std::vector<SpecPathStep>& path) {
  std::string text;
  for (const SpecPathStep& step : path) {
    absl::StrAppend(&text, text.empty() ? "" : ".", step.field->name());
    if (step.index >= 0) absl::StrAppend(&text, "[", step.index, "]");
  }
  return text;
}

absl::Status CheckSpec(const PipelineSpec& spec) {
  const std::vector<SpecProblem> problems = FindSpecProblems(spec);
  if (problems.empty()) return absl::OkStatus();
  const SpecProblem& first = problems.front();
  const std::string path = FormatSpecPath(first.path);
  return absl::Status(
      first.status.code(),
      absl::StrCat(path, path.empty() ? "" : ": ", first.status.message()));
}

}  // namespace millrace
