#include "server/lease/lease_protocol.h"

#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/clean_text.h"

namespace millrace::lease {
namespace {

constexpr absl::string_view kProtocol = "millrace-lease-1";
constexpr absl::string_view kSeparator("\0", 1);
// Of a message that is sent.
constexpr size_t kMaxMessageBytes = 6000;
// Of a text of the peer that is quoted.
constexpr size_t kMaxQuotedBytes = 100;

std::string Encode(std::vector<absl::string_view> texts) {
  texts.insert(texts.begin(), kProtocol);
  return absl::StrJoin(texts, kSeparator);
}

}  // namespace

absl::StatusOr<LeaseRequest> ParseLeaseRequest(absl::string_view packet,
                                               UniqueFd attached) {
  const auto bad = [](absl::string_view what) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, "; this server speaks ", kProtocol,
                     ": use the client and the server of the same release"));
  };
  if (packet.size() > kMaxLeasePacketBytes) {
    return bad(absl::StrCat("the request has more than ", kMaxLeasePacketBytes,
                            " bytes"));
  }
  const std::vector<absl::string_view> texts =
      absl::StrSplit(packet, kSeparator);
  if (texts[0] != kProtocol) {
    return bad(absl::StrCat("the request begins with `",
                            CleanText(texts[0], kMaxQuotedBytes), "`"));
  }
  if (texts.size() != 4 || texts[1] != "add" || texts[2].empty()) {
    return bad("the request is not `add`, a dataset's URI and its name");
  }
  const bool arrays = absl::StartsWith(texts[2], kArraysScheme);
  if (arrays != attached.ok()) {
    return bad(arrays ? "the request for arrays has no file attached"
                      : "the request has a file attached and names data that "
                        "are no arrays");
  }
  LeaseRequest request = {.uri = std::string(texts[2]),
                          .name = std::string(texts[3])};
  if (arrays) {
    request.arrays = std::make_shared<const UniqueFd>(std::move(attached));
  }
  return request;
}

std::string EncodeLeaseAdded(absl::string_view address,
                             const LeasedDataset& dataset) {
  return Encode({"added", address, dataset.name, dataset.fingerprint});
}

std::string EncodeLeaseOpening() { return Encode({"opening"}); }

std::string EncodeLeaseError(const absl::Status& status) {
  const std::string code = absl::StatusCodeToString(status.code());
  // CleanText() escapes zero bytes.
  const std::string message = CleanText(status.message(), kMaxMessageBytes);
  return Encode({"error", code, message});
}

}  // namespace millrace::lease
