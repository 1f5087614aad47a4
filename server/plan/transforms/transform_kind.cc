#include "server/plan/transforms/transform_kind.h"

#include <google/protobuf/reflection.h>
#include <google/protobuf/repeated_field.h>

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/substitute.h"
#include "common/logging.h"
#include "common/status_macros.h"
#include "server/plan/spec_limits.h"

namespace millrace::plan {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

double ValueOf(const Message& message, const FieldDescriptor* field) {
  return field->cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE
             ? message.GetReflection()->GetDouble(message, field)
             : message.GetReflection()->GetUInt32(message, field);
}

std::string TextOf(const Message& message, const FieldDescriptor* field) {
  return field->cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE
             ? absl::StrCat(message.GetReflection()->GetDouble(message, field))
             : absl::StrCat(message.GetReflection()->GetUInt32(message, field));
}

void Set(Message& message, const FieldDescriptor* field, double value) {
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE) {
    message.GetReflection()->SetDouble(&message, field, value);
  } else {
    message.GetReflection()->SetUInt32(&message, field,
                                       static_cast<uint32_t>(value));
  }
}

// HasField() alone is not enough: it is true for -0.0.
bool IsLeftOut(const Message& message, const FieldDescriptor* field) {
  return field->has_presence()
             ? !message.GetReflection()->HasField(message, field)
             : ValueOf(message, field) == 0;
}

// True for a 0 that the spec contains: it is a value like any other, not an
// omitted field.
bool IsWrittenZero(const Message& message, const FieldDescriptor* field) {
  return field->has_presence() && !IsLeftOut(message, field) &&
         ValueOf(message, field) == 0;
}

// The strings of the repeated field `field`, or `otherwise`.
std::vector<std::string> Names(const Message& message,
                               const FieldDescriptor* field,
                               const char* otherwise) {
  const auto names =
      message.GetReflection()->GetRepeatedFieldRef<std::string>(message, field);
  if (names.empty()) return {otherwise};
  return {names.begin(), names.end()};
}

void AddNameIfNone(Message& message, const FieldDescriptor* field,
                   const char* name) {
  const auto* reflection = message.GetReflection();
  if (!field->is_repeated()) {
    if (reflection->GetString(message, field).empty()) {
      reflection->SetString(&message, field, name);
    }
  } else if (reflection->FieldSize(message, field) == 0) {
    reflection->AddString(&message, field, name);
  }
}

bool Fits(double value, const NumberBounds& bounds) {
  return (bounds.above ? value > bounds.low : value >= bounds.low) &&
         value <= bounds.high && !(bounds.odd && std::fmod(value, 2) == 0);
}

// "above 0, up to 100"
std::string RangeText(double low, double high, bool above) {
  return above ? absl::StrCat("above ", low, ", up to ", high)
               : absl::StrCat(low, " .. ", high);
}

}  // namespace

void AddProblem(TransformProblems& problems, absl::string_view field,
                absl::string_view text, int index) {
  problems.push_back(
      {std::string(field), index, absl::InvalidArgumentError(text)});
}

TransformKind::TransformKind(Transform::KindCase kind)
    : field_(Transform::descriptor()->FindFieldByNumber(kind)) {
  MR_CHECK(field_ != nullptr) << "no transform has the number " << kind;
  fields_ = field_->message_type()->FindFieldByName("fields");
  if (fields_ == nullptr) fields_ = Find("field");
  defaults_.push_back([field = fields_](Message& message) {
    AddNameIfNone(message, field, "image");
  });
}

const FieldDescriptor* TransformKind::Find(absl::string_view name) const {
  const FieldDescriptor* field =
      field_->message_type()->FindFieldByName(std::string(name));
  MR_CHECK(field != nullptr) << this->name() << "." << name;
  return field;
}

const Message& TransformKind::MessageOf(const Transform& transform) const {
  return transform.GetReflection()->GetMessage(transform, field_);
}

void TransformKind::Sides() {
  Side("height", "must be set");
  Side("width", "must be set");
}

void TransformKind::Side(absl::string_view name, absl::string_view left_out,
                         bool (*when)(const Message&)) {
  Number(name, {.low = 1,
                .high = kMaxSpecSide,
                .says = "$0 .. $1 pixels",
                .left_out = left_out,
                .when = when});
}

void TransformKind::Number(absl::string_view name, const NumberBounds& bounds) {
  const FieldDescriptor* const field = Find(name);
  const double otherwise = bounds.otherwise.value_or(0);
  Parameter row = {{std::string(name)}, std::string(bounds.left_out), "", {}};
  if (row.left_out.empty()) {
    row.left_out =
        bounds.otherwise ? absl::StrCat(otherwise) : std::string("must be set");
  }
  if (std::isfinite(bounds.high)) {
    row.range = absl::StrCat(RangeText(bounds.low, bounds.high, bounds.above),
                             bounds.odd ? ", odd" : "");
    row.bounds = bounds;
  }
  parameters_.push_back(std::move(row));
  std::string says =
      absl::Substitute(bounds.says, bounds.low, bounds.high, otherwise);
  checks_.push_back([field, bounds, says = std::move(says)](
                        const Message& message, TransformProblems& problems) {
    if (bounds.when != nullptr && !bounds.when(message) &&
        !IsWrittenZero(message, field)) {
      return;
    }
    if (bounds.otherwise && IsLeftOut(message, field)) return;
    if (Fits(ValueOf(message, field), bounds)) return;
    AddProblem(problems, field->name(),
               absl::StrCat(field->name(), " is ", TextOf(message, field),
                            ": it must be ", says));
  });
  if (!bounds.otherwise) return;
  defaults_.push_back([field, otherwise](Message& message) {
    if (IsLeftOut(message, field)) Set(message, field, otherwise);
  });
}

void TransformKind::Range(absl::string_view name, const RangeBounds& bounds) {
  const FieldDescriptor* const min = Find(absl::StrCat(name, "_min"));
  const FieldDescriptor* const max = Find(absl::StrCat(name, "_max"));
  const bool holds_zero = bounds.low < 0 || (bounds.low == 0 && !bounds.above);
  NumberBounds each;
  each.low = bounds.low;
  each.high = bounds.high;
  each.above = bounds.above;
  parameters_.push_back(
      {{min->name(), max->name()},
       absl::StrCat(
           absl::StrReplaceAll(bounds.left_out, {{" .. ", ", "}}),
           holds_zero ? "; a bound left out is 0" : "; both or neither"),
       RangeText(bounds.low, bounds.high, bounds.above),
       each});
  std::string instead(bounds.instead);
  if (instead.empty() && bounds.otherwise) {
    instead = absl::StrCat("neither for ", bounds.left_out);
  }
  // The rule low <= min <= max <= high.
  std::string says = absl::StrCat(": write ", bounds.low,
                                  bounds.above ? " < " : " <= ", min->name(),
                                  " <= ", max->name(), " <= ", bounds.high,
                                  instead.empty() ? "" : ", or ", instead);
  checks_.push_back(
      [name = std::string(name), min, max, each, says = std::move(says)](
          const Message& message, TransformProblems& problems) {
        const double low = ValueOf(message, min);
        const double high = ValueOf(message, max);
        const bool min_left_out = IsLeftOut(message, min);
        const bool max_left_out = IsLeftOut(message, max);
        if (min_left_out && max_left_out) return;
        if (low == 0 && high == 0 && (min_left_out || max_left_out) &&
            min->has_presence()) {
          const FieldDescriptor* const only = min_left_out ? max : min;
          const FieldDescriptor* const other = min_left_out ? min : max;
          AddProblem(problems, only->name(),
                     absl::StrCat(only->name(), " is 0, and ", other->name(),
                                  " is not written", says));
          return;
        }
        const bool min_fits = each.above ? low > each.low : low >= each.low;
        if (min_fits && low <= high && high <= each.high) return;
        AddProblem(problems, (min_fits ? max : min)->name(),
                   absl::StrCat(name, " ", low, " .. ", high, says));
      });
  if (bounds.otherwise) {
    defaults_.push_back([min, max, pair = *bounds.otherwise](Message& message) {
      if (!IsLeftOut(message, min) || !IsLeftOut(message, max)) return;
      Set(message, min, pair.first);
      Set(message, max, pair.second);
    });
  } else if (min->has_presence()) {
    // 0 .. x is one range, with the 0 written or not. The first version knew no
    // written 0, so its resolved specs keep their encoding.
    defaults_.push_back([min, max](Message& message) {
      const bool no_min = ValueOf(message, min) == 0;
      const bool no_max = ValueOf(message, max) == 0;
      if (no_min == no_max) return;
      message.GetReflection()->ClearField(&message, no_min ? min : max);
    });
  }
}

void TransformKind::Probability(double otherwise, absl::string_view left_out) {
  Number("p", {.high = 1, .otherwise = otherwise, .left_out = left_out});
}

void TransformKind::Padding(bool may_be_empty, absl::string_view left_out) {
  const FieldDescriptor* const field = Find("padding");
  parameters_.push_back({{"padding"},
                         std::string(left_out),
                         RangeText(0, kMaxSpecSide, false),
                         {}});
  checks_.push_back([field, may_be_empty](const Message& message,
                                          TransformProblems& problems) {
    const auto padding =
        message.GetReflection()->GetRepeatedFieldRef<uint32_t>(message, field);
    const int n = padding.size();
    if (!(n == 1 || n == 2 || n == 4 || (n == 0 && may_be_empty))) {
      AddProblem(problems, "padding",
                 absl::StrCat("padding has ", n,
                              " values: write one for all sides, two for "
                              "left/right and top/bottom, or four for left, "
                              "top, right, bottom"));
    }
    for (int i = 0; i < n; ++i) {
      if (padding.Get(i) > kMaxSpecSide) {
        AddProblem(problems, "padding",
                   absl::StrCat("padding ", padding.Get(i), "; the maximum is ",
                                kMaxSpecSide, " pixels"),
                   i);
      }
    }
  });
  // Left, top, right, bottom.
  defaults_.push_back([field](Message& message) {
    const auto* reflection = message.GetReflection();
    const int n = reflection->FieldSize(message, field);
    for (int i = n; n > 0 && i < 4; ++i) {
      reflection->AddUInt32(
          &message, field,
          reflection->GetRepeatedUInt32(message, field, i % n));
    }
  });
}

void TransformKind::Levels(absl::string_view name) {
  const FieldDescriptor* const field = Find(name);
  levels_.push_back(field);
  parameters_.push_back(
      {{std::string(name)}, "0", RangeText(0, 255, false), {}});
  checks_.push_back([field](const Message& message,
                            TransformProblems& problems) {
    const std::string& name = field->name();
    const auto values =
        message.GetReflection()->GetRepeatedFieldRef<uint32_t>(message, field);
    // The number of channels is checked later, with the field.
    if (values.size() > kMaxFillValues) {
      AddProblem(
          problems, name,
          absl::StrCat(name, " has ", values.size(),
                       " values: write one, or one for each channel for up to ",
                       kMaxFillValues, " channels"));
    }
    for (int i = 0; i < values.size(); ++i) {
      if (values.Get(i) > 255) {
        AddProblem(problems, name,
                   absl::StrCat(
                       name, " ", values.Get(i),
                       ": it must be 0 .. 255, in units of the stored pixels"),
                   i);
      }
    }
  });
}

void TransformKind::Fill() {
  Levels("fill");
  defaults_.push_back([field = Find("fill")](Message& message) {
    const auto* reflection = message.GetReflection();
    if (reflection->FieldSize(message, field) == 0) {
      reflection->AddUInt32(&message, field, 0);
    }
  });
}

void TransformKind::Resampling(Interpolation otherwise) {
  Plain("interpolation",
        otherwise == INTERPOLATION_NEAREST ? "nearest" : "bilinear");
  if (otherwise == Interpolation()) return;  // what an unset field holds
  defaults_.push_back(
      [field = Find("interpolation"), otherwise](Message& message) {
        const auto* reflection = message.GetReflection();
        if (!reflection->HasField(message, field)) {
          reflection->SetEnumValue(&message, field, otherwise);
        }
      });
}

void TransformKind::Labels() {
  labels_ = Find("labels");
  Plain("labels", "`label`");
  defaults_.push_back([field = labels_](Message& message) {
    AddNameIfNone(message, field, "label");
  });
}

void TransformKind::Plain(absl::string_view name, absl::string_view left_out,
                          absl::string_view range) {
  parameters_.push_back(
      {{Find(name)->name()}, std::string(left_out), std::string(range), {}});
}

TransformProblems TransformKind::Check(const Transform& transform) const {
  TransformProblems problems;
  const Message& message = MessageOf(transform);
  for (const auto& check : checks_) check(message, problems);
  return problems;
}

void TransformKind::WriteDefaults(Transform& transform) const {
  Message& message =
      *transform.GetReflection()->MutableMessage(&transform, field_);
  for (const auto& write : defaults_) write(message);
}

absl::Status TransformKind::Follow(const Transform& transform,
                                   TracedField& field) const {
  const Message& message = MessageOf(transform);
  if (one_or_three_channels) {
    MR_RETURN_IF_ERROR(field.NeedOneOrThreeChannels());
  }
  for (const FieldDescriptor* level : levels_) {
    MR_RETURN_IF_ERROR(field.NeedPerChannel(
        level->name(), message.GetReflection()->FieldSize(message, level)));
  }
  return trace_ ? trace_(message, field) : absl::OkStatus();
}

std::vector<std::string> TransformKind::Fields(
    const Transform& transform) const {
  const Message& message = MessageOf(transform);
  if (!fields_->is_repeated()) {
    const std::string name =
        message.GetReflection()->GetString(message, fields_);
    return {name.empty() ? "image" : name};
  }
  std::vector<std::string> fields = Names(message, fields_, "image");
  for (std::string& label : Labels(transform)) {
    fields.push_back(std::move(label));
  }
  return fields;
}

std::vector<std::string> TransformKind::Labels(
    const Transform& transform) const {
  if (labels_ == nullptr) return {};
  return Names(MessageOf(transform), labels_, "label");
}

}  // namespace millrace::plan
