#include "proto/error_detail.h"

#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "common/clean_text.h"

namespace millrace {
namespace {

constexpr absl::string_view kPayloadUrl = "millrace.v1.ErrorDetail";

// A detail with a string that is no UTF-8 could not be read back.
std::string CleanName(absl::string_view name) {
  return CleanText(name, kMaxDetailNameBytes);
}

}  // namespace

ErrorDetail MakeErrorDetail(absl::string_view stage) {
  ErrorDetail detail;
  detail.set_stage(std::string(stage));
  detail.set_row(-1);
  detail.set_sample(-1);
  return detail;
}

ErrorDetail GetErrorDetail(const absl::Status& status) {
  ErrorDetail detail = MakeErrorDetail("");
  if (auto payload = status.GetPayload(kPayloadUrl)) {
    if (!detail.ParseFromString(std::string(*payload))) {
      return MakeErrorDetail("");
    }
  }
  return detail;
}

bool HasErrorDetail(const absl::Status& status) {
  return status.GetPayload(kPayloadUrl).has_value();
}

absl::Status WithErrorDetail(absl::Status status, const ErrorDetail& detail) {
  if (status.ok()) return status;
  ErrorDetail merged = GetErrorDetail(status);
  if (merged.stage().empty()) merged.set_stage(CleanName(detail.stage()));
  if (merged.dataset().empty()) {
    merged.set_dataset(CleanName(detail.dataset()));
  }
  if (merged.shard().empty()) merged.set_shard(CleanName(detail.shard()));
  if (merged.row() < 0) merged.set_row(detail.row());
  if (merged.sample() < 0) merged.set_sample(detail.sample());
  if (merged.retry_delay_ms() == 0) {
    merged.set_retry_delay_ms(detail.retry_delay_ms());
  }
  if (detail.request_damaged()) merged.set_request_damaged(true);
  status.SetPayload(kPayloadUrl, absl::Cord(merged.SerializeAsString()));
  return status;
}

std::string FormatError(const absl::Status& status) {
  const ErrorDetail detail = GetErrorDetail(status);
  std::string where;
  if (!detail.stage().empty())
    absl::StrAppend(&where, detail.stage(), " error");
  const auto append = [&where](absl::string_view word, absl::string_view text) {
    absl::StrAppend(&where, where.empty() ? "" : ", ", word, " ", text);
  };
  if (!detail.dataset().empty()) append("dataset", detail.dataset());
  if (!detail.shard().empty()) append("shard", detail.shard());
  if (detail.row() >= 0) append("row", absl::StrCat(detail.row()));
  if (detail.sample() >= 0) append("sample", absl::StrCat(detail.sample()));
  return absl::StrCat(absl::StatusCodeToString(status.code()), ": ",
                      where.empty() ? "" : absl::StrCat("[", where, "] "),
                      status.message());
}

}  // namespace millrace
