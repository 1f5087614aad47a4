#include "client/c/error.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/clean_text.h"
#include "common/json_text.h"
#include "common/status_macros.h"
#include "common/utf8.h"
#include "proto/error_detail.h"

// Plain, so that the error for a lack of memory exists before it is needed.
struct millrace_error {
  millrace_status status;
  const char* message;
  const char* detail;
};

namespace millrace::c {
namespace {

constexpr size_t kMaxMessageBytes = 1 << 16;

millrace_error no_memory = {MILLRACE_STATUS_RESOURCE_EXHAUSTED,
                            "out of memory; use a smaller batch or a smaller "
                            "window, or give the process "
                            "more memory",
                            "{}"};

struct OwnedError : millrace_error {
  std::string message_text;
  std::string detail_text;
};

// Messages contain text of servers and of files.
std::string ReadableText(absl::string_view text) {
  if (IsUtf8(text) && text.find('\0') == text.npos) return std::string(text);
  return CleanText(text, kMaxMessageBytes);
}

std::string DetailJson(const absl::Status& status) {
  JsonObject json;
  if (!HasErrorDetail(status)) return json.Json();
  const ErrorDetail detail = GetErrorDetail(status);
  if (!detail.stage().empty()) json.Add("stage", detail.stage());
  if (!detail.dataset().empty()) json.Add("dataset", detail.dataset());
  if (!detail.shard().empty()) json.Add("shard", detail.shard());
  if (detail.row() >= 0) json.Add("row", detail.row());
  if (detail.sample() >= 0) json.Add("sample", detail.sample());
  return json.Json();
}

millrace_error* MakeError(const absl::Status& status) noexcept {
  try {
    auto error = std::make_unique<OwnedError>();
    error->status = static_cast<millrace_status>(status.code());
    error->message_text = ReadableText(status.message());
    error->detail_text = ReadableText(DetailJson(status));
    error->message = error->message_text.c_str();
    error->detail = error->detail_text.c_str();
    return error.release();
  } catch (...) {
    return &no_memory;
  }
}

}  // namespace

absl::Status StatusOfException() noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(no_memory.message);
  } catch (const std::system_error& error) {
    // A thread that cannot be started.
    if (error.code() == std::errc::resource_unavailable_try_again) {
      return absl::ResourceExhaustedError(
          "the system starts no more threads for this process; see `ulimit -u` "
          "and the limit of the control group");
    }
    return absl::InternalError(error.what());
  } catch (const std::exception& error) {
    return absl::InternalError(error.what());
  } catch (...) {
    return absl::InternalError("an exception of an unknown kind");
  }
}

millrace_status Report(const absl::Status& status,
                       millrace_error** error) noexcept {
  if (error != nullptr) *error = status.ok() ? nullptr : MakeError(status);
  return static_cast<millrace_status>(status.code());
}

absl::Status CheckArgument(const void* pointer, absl::string_view name) {
  if (pointer != nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, " is NULL"));
}

absl::StatusOr<char*> CopyText(absl::string_view text) {
  auto* const copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy == nullptr) return absl::ResourceExhaustedError(no_memory.message);
  std::memcpy(copy, text.data(), text.size());
  copy[text.size()] = '\0';
  return copy;
}

absl::Status FillStructBytes(const void* from, size_t from_bytes, void* to,
                             size_t first_bytes, absl::string_view name) {
  MR_RETURN_IF_ERROR(CheckArgument(to, name));
  uint32_t struct_size;
  std::memcpy(&struct_size, to, sizeof(struct_size));
  if (struct_size < first_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, ".struct_size is ", struct_size, "; set it to sizeof(", name,
        "), which is at least ", first_bytes));
  }
  std::memset(to, 0, struct_size);
  std::memcpy(to, from, std::min<size_t>(from_bytes, struct_size));
  std::memcpy(to, &struct_size, sizeof(struct_size));
  return absl::OkStatus();
}

}  // namespace millrace::c

extern "C" {

const char* millrace_status_name(millrace_status status) {
  switch (status) {
    case MILLRACE_STATUS_OK:
      return "OK";
    case MILLRACE_STATUS_CANCELLED:
      return "CANCELLED";
    case MILLRACE_STATUS_INVALID_ARGUMENT:
      return "INVALID_ARGUMENT";
    case MILLRACE_STATUS_DEADLINE_EXCEEDED:
      return "DEADLINE_EXCEEDED";
    case MILLRACE_STATUS_NOT_FOUND:
      return "NOT_FOUND";
    case MILLRACE_STATUS_ALREADY_EXISTS:
      return "ALREADY_EXISTS";
    case MILLRACE_STATUS_PERMISSION_DENIED:
      return "PERMISSION_DENIED";
    case MILLRACE_STATUS_RESOURCE_EXHAUSTED:
      return "RESOURCE_EXHAUSTED";
    case MILLRACE_STATUS_FAILED_PRECONDITION:
      return "FAILED_PRECONDITION";
    case MILLRACE_STATUS_ABORTED:
      return "ABORTED";
    case MILLRACE_STATUS_OUT_OF_RANGE:
      return "OUT_OF_RANGE";
    case MILLRACE_STATUS_UNIMPLEMENTED:
      return "UNIMPLEMENTED";
    case MILLRACE_STATUS_INTERNAL:
      return "INTERNAL";
    case MILLRACE_STATUS_UNAVAILABLE:
      return "UNAVAILABLE";
    case MILLRACE_STATUS_DATA_LOSS:
      return "DATA_LOSS";
    case MILLRACE_STATUS_UNAUTHENTICATED:
      return "UNAUTHENTICATED";
    case MILLRACE_STATUS_NOT_READY:
      return "NOT_READY";
    default:
      return "UNKNOWN";
  }
}

millrace_status millrace_error_status(const millrace_error* error) {
  return error == nullptr ? MILLRACE_STATUS_UNKNOWN : error->status;
}

const char* millrace_error_message(const millrace_error* error) {
  return error == nullptr ? "" : error->message;
}

const char* millrace_error_detail(const millrace_error* error) {
  return error == nullptr ? "{}" : error->detail;
}

void millrace_error_free(millrace_error* error) {
  if (error == &millrace::c::no_memory) return;
  delete static_cast<millrace::c::OwnedError*>(error);
}

void millrace_text_free(char* text) { std::free(text); }

}  // extern "C"
