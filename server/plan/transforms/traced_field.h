// TracedField is a stored field on its way through the transforms of a spec:
// what is known about it so far, and the checks that transforms need. The
// transforms of this folder change it; server/plan/field_trace.h passes it
// through them.
//
// Belongs to one thread. Holds a reference to the field.
//
//   absl::Status FixSize(const CenterCrop& crop, TracedField& field) {
//     return field.Fix(crop.height(), crop.width());
//   }

#ifndef MILLRACE_SERVER_PLAN_TRANSFORMS_TRACED_FIELD_H_
#define MILLRACE_SERVER_PLAN_TRANSFORMS_TRACED_FIELD_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "proto/dataset.pb.h"
#include "proto/names.h"
#include "server/plan/field_trace.h"
#include "server/plan/value_range.h"

namespace millrace::plan {

class TracedField {
 public:
  explicit TracedField(const Field& stored) : field(stored) {}

  const Field& field;
  FieldTrace trace;
  std::string where;             // what is looked at, for errors
  int64_t decoded_channels = 0;  // of encoded images; 0: not decoded yet
  // The shorter side of every image where trace.shape is absent; absent: not
  // known either.
  std::optional<int64_t> short_side;
  bool operator_result = false;  // an operator has made another tensor of it

  // "WHERE: field NAME TEXT".
  absl::Status Refuse(absl::string_view text) const;
  absl::Status RefuseAsNoImage() const;

  bool encoded() const { return field.kind() == FIELD_KIND_ENCODED_IMAGE; }
  bool is_class() const {
    return field.num_classes() != 0 && !trace.mixed_label && !operator_result;
  }
  // True for uint8 [height, width, channels], and for encoded images.
  bool IsImage() const;
  int64_t Channels() const;  // 0: no image, or not decoded yet
  // Absent for types with fractions.
  std::optional<ValueRange> Values(DType dtype) const;

  // Refuse fields that an image transform does not accept.
  absl::Status NeedDecoded() const;
  absl::Status NeedPixels() const;  // an image, decoded
  absl::Status NeedOneOrThreeChannels() const;
  // Refuses `n` values unless it is none, one, or one for each channel.
  absl::Status NeedPerChannel(absl::string_view name, int n) const;

  // Sets the size of the images from here on.
  absl::Status Fix(int64_t height, int64_t width);
};

}  // namespace millrace::plan

#endif  // MILLRACE_SERVER_PLAN_TRANSFORMS_TRACED_FIELD_H_
