// TransformKind is the plan's knowledge of one kind of transform: its phase,
// its parameters with their bounds and defaults, and what it makes of a field.
// Each kind is described once, in its file of this folder. Its pixel operation
// is in server/pipeline/stage/transform_ops.h, which relies on Check().
//
// Built once, immutable afterwards; safe from any thread.
//
//   TransformKind CenterCropKind() {
//     TransformKind kind(Transform::kCenterCrop);
//     kind.geometric = true;
//     kind.Sides();
//     kind.Trace(&FixSize);
//     return kind;
//   }
//
// Parameters are described in the order of the tables of docs/transforms.md;
// their checks and defaults run in the same order.

#ifndef MILLRACE_SERVER_PLAN_TRANSFORMS_TRANSFORM_KIND_H_
#define MILLRACE_SERVER_PLAN_TRANSFORMS_TRANSFORM_KIND_H_

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "proto/names.h"
#include "proto/pipeline.pb.h"
#include "server/plan/transforms/traced_field.h"

namespace millrace::plan {

// In the order in which they may apply to a field.
enum class TransformPhase {
  kDecode,     // decode_image
  kSample,     // of one sample: geometry, colour, an operator
  kBatch,      // mix_up, cut_mix
  kNormalize,  // normalize
  kDtype,      // to_dtype
};

struct TransformProblem {
  // The field of the transform's message; empty: the transform as a whole.
  std::string field;
  int index = -1;       // in a repeated field
  absl::Status status;  // InvalidArgument
};
using TransformProblems = std::vector<TransformProblem>;

void AddProblem(TransformProblems& problems, absl::string_view field,
                absl::string_view text, int index = -1);

// The bounds of one number.
struct NumberBounds {
  double low = 0;
  double high = std::numeric_limits<double>::infinity();
  bool above = false;  // `low` itself is not allowed
  bool odd = false;
  // The text after "it is ": $0 and $1 are the bounds, $2 the default.
  absl::string_view says = "$0 .. $1";
  // The default that is written out. Absent: no default is written, and 0 is
  // checked like any other value. A number with a default is `optional` in the
  // spec, so that a written 0 is not replaced by the default.
  std::optional<double> otherwise = std::nullopt;
  // The default as text for the page; empty: `otherwise`, or "must be set".
  absl::string_view left_out = "";
  // Whether the number is checked; null: always. A written 0 of an `optional`
  // number always is.
  bool (*when)(const google::protobuf::Message&) = nullptr;
};

// The bounds of a pair NAME_min, NAME_max. The pair is left out if neither is
// written; of bounds that are not `optional`, if both are 0.
struct RangeBounds {
  double low = 0;
  double high = 0;
  bool above = false;  // `low` itself is not allowed
  // The default that is written out. Absent: nothing is written.
  std::optional<std::pair<double, double>> otherwise = std::nullopt;
  absl::string_view left_out = "";  // the same in words: "3/4 .. 4/3"
  // What may be written instead of bounds; empty: "neither for " `left_out` if
  // there is a default.
  absl::string_view instead = "";
};

// A row of the kind's table in docs/transforms.md.
struct Parameter {
  std::vector<std::string> fields;  // of the message
  std::string left_out;             // what it is then
  std::string range;                // empty: no bound
  // Bounds of each of the numbers; absent: no number, or a bound of its own.
  std::optional<NumberBounds> bounds;
};

class TransformKind {
 public:
  using Message = google::protobuf::Message;
  using FieldDescriptor = google::protobuf::FieldDescriptor;

  explicit TransformKind(Transform::KindCase kind);

  TransformPhase phase = TransformPhase::kSample;
  // Moves pixels, so masks and boxes get the same transform as their image.
  bool geometric = false;
  // May move pixels of images that have neither mask nor boxes.
  bool image_alone = false;
  // Also accepts tensors of fixed size that are not images.
  bool any_tensor = false;
  // Accepts only images of 1 and 3 channels.
  bool one_or_three_channels = false;

  // The description; called by the file of the kind.

  void Sides();  // height and width
  void Side(absl::string_view name, absl::string_view left_out,
            bool (*when)(const Message&) = nullptr);
  void Number(absl::string_view name, const NumberBounds& bounds);
  void Range(absl::string_view name, const RangeBounds& bounds);
  void Probability(double otherwise, absl::string_view left_out = "");
  void Padding(bool may_be_empty, absl::string_view left_out);
  // Pixel values: one, or one for each channel.
  void Levels(absl::string_view name);
  void Fill();  // Levels("fill"), 0 where it is left out
  void Resampling(Interpolation otherwise);  // interpolation
  void Labels();
  // A parameter without a bound of its own.
  void Plain(absl::string_view name, absl::string_view left_out,
             absl::string_view range = "");

  // M is the message of the kind.
  template <typename M>
  void Rule(void (*rule)(const M&, TransformProblems&)) {
    checks_.push_back([rule](const Message& message, TransformProblems& to) {
      rule(static_cast<const M&>(message), to);
    });
  }
  template <typename M>
  void Default(void (*write)(M&)) {
    defaults_.push_back(
        [write](Message& message) { write(static_cast<M&>(message)); });
  }
  // Sets the function that changes a field's type and shape. InvalidArgument,
  // by TracedField::Refuse(): the field does not fit. Without a function
  // nothing changes. The numbers of channels and of pixel values are checked
  // before.
  template <typename M>
  void Trace(absl::Status (*trace)(const M&, TracedField&)) {
    trace_ = [trace](const Message& message, TracedField& field) {
      return trace(static_cast<const M&>(message), field);
    };
  }

  // The use of a kind. `transform` is of this kind.

  const std::string& name() const { return field_->name(); }
  int number() const { return field_->number(); }  // Transform::KindCase
  const std::vector<Parameter>& parameters() const { return parameters_; }

  // The problems in the order of the parameters; empty: none.
  TransformProblems Check(const Transform& transform) const;
  // `transform` has passed Check(). A second call changes nothing.
  void WriteDefaults(Transform& transform) const;
  absl::Status Follow(const Transform& transform, TracedField& field) const;
  // The fields that the transform works on, including a default field, and the
  // labels.
  std::vector<std::string> Fields(const Transform& transform) const;
  std::vector<std::string> Labels(const Transform& transform) const;

 private:
  const FieldDescriptor* Find(absl::string_view name) const;
  const Message& MessageOf(const Transform& transform) const;

  const FieldDescriptor* field_;   // of Transform
  const FieldDescriptor* fields_;  // `fields` or `field` of the message
  const FieldDescriptor* labels_ = nullptr;
  std::vector<const FieldDescriptor*> levels_;
  std::vector<Parameter> parameters_;
  std::vector<std::function<void(const Message&, TransformProblems&)>> checks_;
  std::vector<std::function<void(Message&)>> defaults_;
  std::function<absl::Status(const Message&, TracedField&)> trace_;
};

}  // namespace millrace::plan

#endif  // MILLRACE_SERVER_PLAN_TRANSFORMS_TRANSFORM_KIND_H_
