#include "server/plan/spec_check.h"

#include <google/protobuf/message.h>
#include <google/protobuf/unknown_field_set.h>

#include <cmath>
#include <set>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/logging.h"
#include "proto/flag_hint.h"
#include "proto/synthetic.h"
#include "server/plan/content_revision.h"
#include "server/plan/field_rules.h"
#include "server/plan/presets.h"
#include "server/plan/reserved_output.h"
#include "server/plan/subset.h"
#include "server/plan/transforms/transforms.h"

namespace millrace::plan {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

class Checker {
 public:
  std::vector<SpecProblem> Run(const PipelineSpec& spec) {
    CheckForeign(spec);
    // A value that is no number, or a field of another version, would make the
    // further checks meaningless.
    if (!problems_.empty()) return std::move(problems_);
    CheckTop(spec);
    CheckSources(spec);
    CheckShuffle(spec);
    CheckTransforms(spec);
    CheckOutputs(spec);
    CheckFieldRoles(spec);
    return std::move(problems_);
  }

  // Checks counts that are too large for the further checks.
  std::vector<SpecProblem> RunCounts(const PipelineSpec& spec) {
    CheckCounts(spec);
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
  // Adds a problem with a field of `message`.
  void Invalid(const Message& message, absl::string_view name,
               absl::string_view text, int index = -1) {
    In(message, name, index, [&] { Invalid(text); });
  }
  void Unimplemented(const Message& message, absl::string_view name,
                     absl::string_view text, int index = -1) {
    In(message, name, index, [&] { Unimplemented(text); });
  }

  // Finds unknown fields, unknown enum values, and numbers that are not finite.
  void CheckForeign(const Message& message) {
    const Reflection& reflection = *message.GetReflection();
    const auto& unknown = reflection.GetUnknownFields(message);
    for (int i = 0; i < unknown.field_count(); ++i) {
      Unimplemented(absl::StrCat("field number ", unknown.field(i).number(),
                                 " of ", message.GetDescriptor()->name(),
                                 " is not known to this version: upgrade the "
                                 "server, or remove the field"));
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
        // Messages repeat names, and a message must fit into a trailer.
        const size_t size = (i < 0 ? r.GetString(message, field)
                                   : r.GetRepeatedString(message, field, i))
                                .size();
        if (field->type() == FieldDescriptor::TYPE_STRING &&
            size > kMaxNameBytes) {
          Invalid(absl::StrCat("the name has ", size, " bytes; the maximum is ",
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
        if (spec.transforms_size() > 0) {
          Invalid(
              "a preset replaces transforms: remove the transforms, or remove "
              "the preset and write all transforms");
        }
      });
    }
    if (spec.batch_size() == 0 || spec.batch_size() > kMaxBatchSize) {
      Invalid(spec, "batch_size",
              absl::StrCat("batch_size is ", spec.batch_size(),
                           ": the global batch must have 1 .. ", kMaxBatchSize,
                           " samples"));
    }
    CheckCounts(spec);
  }

  void CheckCounts(const PipelineSpec& spec) {
    const auto check = [&](absl::string_view list, absl::string_view items,
                           int count, int max, absl::string_view more = "") {
      if (count <= max) return;
      Invalid(spec, list,
              absl::StrCat(count, " ", items, "; the maximum is ", max, more),
              max);
    };
    check("sources", "sources", spec.sources_size(), kMaxSources,
          "; pack datasets together");
    check("transforms", "transforms", spec.transforms_size(), kMaxTransforms);
    check("outputs", "outputs", spec.outputs_size(), kMaxOutputs);
    check("field_roles", "field roles", spec.field_roles_size(),
          kMaxFieldRoles);
  }

  void CheckSources(const PipelineSpec& spec) {
    if (spec.sources_size() == 0) {
      Invalid(
          "the spec names no dataset: add sources { dataset: \"NAME\" } "
          "(ListDatasets lists the datasets of a server)");
    }
    CheckMixture(spec);
    for (int i = 0; i < spec.sources_size(); ++i) {
      const Source& source = spec.sources(i);
      In(spec, "sources", i, [&] {
        if (source.has_synthetic()) {
          CheckSyntheticSource(spec, source);
        } else if (source.dataset().empty()) {
          Invalid("a source has no dataset");
        }
        if (source.weight() < 0) {
          Invalid(source, "weight",
                  absl::StrCat("weight ", source.weight(),
                               " is negative: weights must be above 0"));
        } else if (source.has_weight() && source.weight() == 0) {
          Invalid(source, "weight",
                  "weight is 0: it must be above 0, or left out for 1; to use "
                  "no sample of the dataset, remove the source");
        }
        if (source.has_subset()) {
          if (const std::string why = WhySubsetIsWrong(source.subset());
              !why.empty()) {
            Invalid(source, "subset", why);
          }
          CheckSubsetUnit(spec, source);
        }
      });
    }
  }

  void CheckSyntheticSource(const PipelineSpec& spec, const Source& source) {
    if (!source.dataset().empty()) {
      Invalid(
          source, "dataset",
          "dataset and synthetic cannot be used together in a source: remove "
          "one of them");
    }
    if (source.has_reader()) {
      Invalid(source, "reader", "a synthetic source has no reader: remove it");
    }
    In(source, "synthetic", -1, [&] {
      const Synthetic& synthetic = source.synthetic();
      if (absl::Status s = CheckSynthetic(synthetic); !s.ok()) Add(s);
      if (spec.sources_size() > 1) {
        Invalid(
            "a synthetic source must be the only source: remove it from the "
            "mixture");
      }
      if (synthetic.ready_batches() == 0) return;
      if (spec.transforms_size() > 0 || !spec.preset().empty()) {
        Invalid(
            "ready batches are sent unchanged: remove the transforms and the "
            "preset, or set ready_batches to 0");
      }
      if (spec.last_batch() != LAST_BATCH_DROP) {
        Invalid(absl::StrCat("ready batches are always full: use ",
                             kDropLastBatch));
      }
    });
  }

  // Checks several sources, and epochs of another length.
  void CheckMixture(const PipelineSpec& spec) {
    if (spec.epoch_samples() > kMaxEpochSamples) {
      Invalid(spec, "epoch_samples",
              absl::StrCat("epoch_samples is ", spec.epoch_samples(),
                           "; the maximum is ", kMaxEpochSamples));
    }
    if (!spec.concatenate()) return;
    if (spec.epoch_samples() > 0) {
      Invalid(spec, "epoch_samples",
              "an epoch of concatenated sources contains all their samples: "
              "remove epoch_samples, or mix the sources by weights instead of "
              "concatenate");
    }
    for (int i = 0; i < spec.sources_size(); ++i) {
      if (spec.sources_size() == 1 || spec.sources(i).weight() == 0) continue;
      In(spec, "sources", i, [&] {
        Invalid(spec.sources(i), "weight",
                "concatenated sources have no weights, because each of their "
                "samples comes once: remove the weight, or concatenate");
      });
    }
  }

  void CheckSubsetUnit(const PipelineSpec& spec, const Source& source) {
    const Subset& subset = source.subset();
    const Shuffle& shuffle = spec.shuffle();
    In(source, "subset", -1, [&] {
      if (subset.unit() > kMaxBlock) {
        Invalid(subset, "unit",
                absl::StrCat("unit ", subset.unit(), "; the maximum is ",
                             kMaxBlock));
      }
      if (shuffle.mode() != Shuffle::BLOCK) return;
      const uint64_t block =
          shuffle.has_block_size() ? shuffle.block_size() : kDefaultBlockSize;
      if (block == 0) return;  // reported as block_size
      if (subset.unit() != 0 && subset.unit() % block == 0) return;
      Invalid(
          subset, "unit",
          absl::StrCat(
              "BLOCK order reads blocks of ", block,
              " neighbours, and a subset of ",
              subset.unit() <= 1 ? std::string("single samples")
                                 : absl::StrCat("runs of ", subset.unit()),
              " splits the blocks: select whole runs with unit: ", block,
              " (or a multiple) here and in every other subset of the dataset "
              "that must not overlap with this subset, or use GLOBAL order"));
    });
  }

  void CheckShuffle(const PipelineSpec& spec) {
    const Shuffle& shuffle = spec.shuffle();
    In(spec, "shuffle", -1, [&] {
      const std::tuple<const char*, bool, uint64_t, uint64_t> numbers[] = {
          {"block_size", shuffle.has_block_size(), shuffle.block_size(),
           kDefaultBlockSize},
          {"window_blocks", shuffle.has_window_blocks(),
           shuffle.window_blocks(), kDefaultWindowBlocks},
      };
      for (const auto& [name, written, value, otherwise] : numbers) {
        if (!written) continue;
        if (shuffle.mode() != Shuffle::BLOCK) {
          Invalid(shuffle, name,
                  absl::StrCat(name,
                               " has an effect only with mode: BLOCK: set that "
                               "mode, or remove the field"));
        } else if (value == 0) {
          Invalid(shuffle, name,
                  absl::StrCat(name, " is 0: it must be 1 .. ", kMaxBlock,
                               ", or left out for ", otherwise));
        } else if (value > kMaxBlock) {
          Invalid(
              shuffle, name,
              absl::StrCat(name, " ", value, "; the maximum is ", kMaxBlock));
        }
      }
    });
  }

  void CheckTransforms(const PipelineSpec& spec) {
    FieldRules rules(spec);
    for (int i = 0; i < spec.transforms_size(); ++i) {
      In(spec, "transforms", i,
         [&] { CheckTransform(spec, spec.transforms(i), rules); });
    }
  }

  void CheckTransform(const PipelineSpec& spec, const Transform& transform,
                      FieldRules& rules) {
    const FieldDescriptor* kind =
        transform.GetReflection()->GetOneofFieldDescriptor(
            transform, transform.GetDescriptor()->oneof_decl(0));
    if (kind == nullptr) {
      Invalid(
          "the transform is empty: write one, for example center_crop { ... }");
      return;
    }
    const Message& message =
        transform.GetReflection()->GetMessage(transform, kind);
    path_.push_back({kind, -1});
    for (const TransformProblem& problem : FindTransformProblems(transform)) {
      if (problem.field.empty()) {
        Add(problem.status);
      } else {
        In(message, problem.field, problem.index, [&] { Add(problem.status); });
      }
    }
    for (const absl::Status& problem : rules.Next(transform)) Add(problem);
    if (PhaseOf(transform) == TransformPhase::kBatch &&
        spec.batch_size() == 1) {
      Invalid(absl::StrCat(kind->name(),
                           " mixes the samples of a batch in pairs, and "
                           "batch_size is 1: set it to 2 or more"));
    }
    path_.pop_back();
  }

  void CheckFieldRoles(const PipelineSpec& spec) {
    std::set<std::string> seen;
    for (int i = 0; i < spec.field_roles_size(); ++i) {
      const FieldRole& role = spec.field_roles(i);
      In(spec, "field_roles", i, [&] {
        if (role.field().empty()) {
          Invalid(
              "a role has no field: write one, for example field: \"mask\"");
        } else if (!seen.insert(role.field()).second) {
          Invalid(absl::StrCat("field ", role.field(), " has two roles"));
        }
        if (role.role() != FieldRole::MASK && role.fill() != 0) {
          Invalid(role, "fill",
                  "fill is the class of the area outside a mask: remove it, or "
                  "set role: MASK");
        } else if (role.fill() > 255) {
          Invalid(role, "fill",
                  absl::StrCat("fill is ", role.fill(),
                               ": the classes of a mask are 0 .. 255"));
        }
        if (role.role() == FieldRole::IMAGE) {
          if (!role.of().empty()) {
            Invalid(role, "of",
                    "an image does not belong to another field: remove `of`, "
                    "or set role: MASK or BOXES_XYXY");
          }
          return;
        }
        const std::string image = ImageOf(spec, role.field());
        if (image == role.field()) {
          Invalid(role, "of",
                  absl::StrCat("field ", role.field(),
                               " cannot belong to itself: name its image"));
        } else if (RoleOf(spec, image) != FieldRole::IMAGE) {
          Invalid(role, "of",
                  absl::StrCat("field ", image,
                               " is not an image but has a role itself: name "
                               "the image that both fields belong to"));
        }
      });
    }
  }

  void CheckOutputs(const PipelineSpec& spec) {
    std::set<std::string> names, fields;
    for (int i = 0; i < spec.outputs_size(); ++i) {
      const Output& output = spec.outputs(i);
      In(spec, "outputs", i, [&] {
        if (output.field().empty()) {
          Invalid("an output has no field");
          return;
        }
        const std::string& name =
            output.name().empty() ? output.field() : output.name();
        if (IsReservedOutput(name, spec)) {
          Invalid(absl::StrCat(
              "an output cannot have the name ", name, ": every batch",
              name == "source_index" ? " of several sources" : "",
              " has a tensor of that name; set another name"));
        }
        if (!names.insert(name).second) {
          Invalid(absl::StrCat("two outputs have the name ", name));
        }
        if (!fields.insert(output.field()).second) {
          Unimplemented(
              absl::StrCat("field ", output.field(),
                           " is an output twice, which is not supported yet"));
        }
      });
    }
  }

  std::vector<SpecPathStep> path_;
  std::vector<SpecProblem> problems_;
};

}  // namespace

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

namespace {

absl::Status FirstOf(const std::vector<SpecProblem>& problems) {
  if (problems.empty()) return absl::OkStatus();
  const SpecProblem& first = problems.front();
  const std::string path = FormatSpecPath(first.path);
  return absl::Status(
      first.status.code(),
      absl::StrCat(path, path.empty() ? "" : ": ", first.status.message()));
}

}  // namespace

absl::Status CheckSpec(const PipelineSpec& spec) {
  return FirstOf(FindSpecProblems(spec));
}

absl::Status CheckSpecCounts(const PipelineSpec& spec) {
  return FirstOf(Checker().RunCounts(spec));
}

}  // namespace millrace::plan
