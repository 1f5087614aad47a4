// TarFieldRule splits a tar sample, which is a part of an archive, into fields:
// one member each, found by its extension (docs/formats.md, "Tar shards").
//
// As FieldRule says.
//
//   MR_ASSIGN_OR_RETURN(auto rule, MakeTarRule(options, first_sample));
//   MR_RETURN_IF_ERROR(rule->Split(record, {}, &fields));

#ifndef MILLRACE_SERVER_STORAGE_TAR_TAR_RULE_H_
#define MILLRACE_SERVER_STORAGE_TAR_TAR_RULE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "proto/names.h"
#include "proto/tar_rule.pb.h"
#include "server/storage/extents/extent_format.h"
#include "server/storage/extents/field_rule.h"

namespace millrace::storage {

class TarFieldRule final : public FieldRule {
 public:
  // DataLoss: the rule is damaged.
  static absl::StatusOr<std::unique_ptr<TarFieldRule>> Create(TarRule rule);

  const Schema& schema() const override { return rule_.schema(); }
  int class_field() const override { return rule_.class_field(); }
  std::string Encode() const override { return rule_.SerializeAsString(); }
  absl::Status Split(absl::Span<const uint8_t> record,
                     const std::vector<bool>& used,
                     RecordFields* fields) const override;
  std::string NameOf(absl::Span<const uint8_t> record) const override;

  // The field of the extension in a name; -1: none.
  int FieldOf(absl::string_view extension) const;
  int fields() const { return rule_.members_size(); }
  // Checks the fields that a sample has members of, a flag each; a sample has
  // `others` if a member is of no field: the last such extension. DataLoss: one
  // is missing, or there are others; the message is a sentence without a place.
  absl::Status CheckMembers(const std::vector<bool>& seen,
                            absl::string_view others) const;

 private:
  explicit TarFieldRule(TarRule rule) : rule_(std::move(rule)) {}
  // Sets field `i` from the bytes of its member.
  absl::Status Convert(int i, absl::Span<const uint8_t> bytes,
                       RecordFields* fields) const;
  absl::Status Wrong(int i, absl::string_view why) const;

  TarRule rule_;
};

// A member of the first sample.
struct TarMember {
  std::string extension;  // in lower case
  std::string bytes;      // of a .npy: its beginning
};

// Beginning of a .npy file that a rule needs.
inline constexpr uint64_t kNpyStartBytes = 4 << 10;

// The rule for samples like the first one, whose members are given; with the
// option `fields`, NAME:EXTENSION[;EXTENSION...][:bytes], separated by commas.
// InvalidArgument: a wrong option, or one that does not fit the sample.
absl::StatusOr<std::unique_ptr<TarFieldRule>> MakeTarRule(
    const FormatOptions& options, absl::Span<const TarMember> first);

// The class index in a text. False: the text is no whole number.
bool ParseTarInteger(absl::Span<const uint8_t> text, int64_t* value);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_TAR_TAR_RULE_H_
