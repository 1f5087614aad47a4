// TransformKind is everything that the plan knows of one kind of transform: its
// phase, its parameters with their bounds and defaults, and what it makes of a
// field. Each kind is described once, in its file of this folder; what it does
// to pixels is in server/pipeline/stage/transform_ops.h, which trusts what has
// passed Check().
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

namespace millrace {

// In the order in which they may touch a field.
enum class TransformPhase {
  kDecode,     // decode_image
  kSample,     // of one sample: geometry, colour, an operator
  kBatch,      // mix_up, cut_mix
  kNormalize,  // normalize
  kDtype,      // to_dtype
};

struct TransformProblem {
  // Of the transform's message; empty: the transform as a whole.
  std::string field;
  int index = -1;       // in a repeated field
  absl::Status status;  // InvalidArgument
};
using TransformProblems = std::vector<TransformProblem>;

void AddProblem(TransformProblems& problems, absl::string_view field,
                absl::string_view text, int index = -1);

// Of one number.
struct NumberBounds {
  double low = 0;
  double high = std::numeric_limits<double>::infinity();
  bool above = false;  // `low` itself is not allowed
  bool odd = false;
  // What the number is, behind "it is ": $0 and $1 are the bounds, $2 the
  // default.
  absl::string_view says = "$0 .. $1";
  // Written where the number is left out. Absent: nothing is written, and 0 is
  // checked like any other value.
  std::optional<double> otherwise = std::nullopt;
  // For the page; empty: `otherwise`, or "must be set".
  absl::string_view left_out = "";
  // Whether the number is looked at; null: always.
  bool (*when)(const google::protobuf::Message&) = nullptr;
};

// Of a pair NAME_min, NAME_max, left out when both are 0.
struct RangeBounds {
  double low = 0;
  double high = 0;
  bool above = false;  // `low` itself is not allowed
  // Written where the pair is left out. Absent: nothing is written.
  std::optional<std::pair<double, double>> otherwise = std::nullopt;
  absl::string_view left_out = "";  // the same in words: "3/4 .. 4/3"
  // What may be written instead of bounds; empty: "neither for " `left_out`
  // where there is a default.
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
  // Moves pixels: masks and boxes go with their image.
  bool geometric = false;
  // May move pixels, of images that have neither mask nor boxes.
  bool image_alone = false;
  // Takes tensors of fixed size that are no images, too.
  bool any_tensor = false;
  // Works on images of 1 and 3 channels alone.
  bool one_or_three_channels = false;

  // The description, by the file of the kind.

  void Sides();  // height and width
  void Side(absl::string_view name, absl::string_view left_out,
            bool (*when)(const Message&) = nullptr);
  void Number(absl::string_view name, const NumberBounds& bounds);
  void Range(absl::string_view name, const RangeBounds& bounds);
  void Probability(double otherwise, absl::string_view left_out = "");
  void Padding(bool may_be_empty, absl::string_view left_out);
  // Pixel values, one or one a channel.
  void Levels(absl::string_view name);
  void Fill();  // Levels("fill"), 0 where it is left out
  void Resampling(Interpolation otherwise);  // interpolation
  void Labels();
  // What has no bound of its own.
  void Plain(absl::string_view name, absl::string_view left_out,
             absl::string_view range = "");

  // M is the kind's message.
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
  // What the kind makes of a field's type and shape; InvalidArgument, by
  // TracedField::Refuse(): it does not fit. Without one nothing changes. The
  // numbers of channels and of levels have been looked at.
  template <typename M>
  void Trace(absl::Status (*trace)(const M&, TracedField&)) {
    trace_ = [trace](const Message& message, TracedField& field) {
      return trace(static_cast<const M&>(message), field);
    };
  }

  // Use. `transform` is of this kind.

  const std::string& name() const { return field_->name(); }
  int number() const { return field_->number(); }  // Transform::KindCase
  const std::vector<Parameter>& parameters() const { return parameters_; }

  // In the order of the parameters; empty: none.
  TransformProblems Check(const Transform& transform) const;
  // `transform` has passed Check(). Nothing changes the second time.
  void WriteDefaults(Transform& transform) const;
  absl::Status Follow(const Transform& transform, TracedField& field) const;
  // The fields that it works on, the default written out, and the labels.
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

}  // namespace millrace

#endif  // MILLRACE_SERVER_PLAN_TRANSFORMS_TRANSFORM_KIND_H_
