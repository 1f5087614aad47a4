#include "server/rpc/reader_pace.h"

#include <algorithm>

namespace millrace::rpc {
namespace {

constexpr int kProbesPerTimeout = 32;
constexpr int kLatesPerTimeout = 8;
// On a busy machine a prompt client can take as long until it has its turn.
constexpr std::chrono::milliseconds kMinProbe{50};

}  // namespace

PaceTimes::PaceTimes(Nanos batch_timeout)
    : probe(std::clamp<Nanos>(batch_timeout / kProbesPerTimeout,
                              std::min<Nanos>(kMinProbe, batch_timeout),
                              batch_timeout)),
      late(std::max(probe, batch_timeout / kLatesPerTimeout)),
      slow(batch_timeout) {}

ReaderPace PaceTimes::Of(Nanos waited) const {
  if (waited < probe) return ReaderPace::kPrompt;
  if (waited < late) return ReaderPace::kLate;
  return waited < slow ? ReaderPace::kLater : ReaderPace::kSlow;
}

ReaderPace PaceTimes::Sent(ReaderPace before, Nanos waited) const {
  const ReaderPace now = Of(waited);
  return before == ReaderPace::kPrompt && now > ReaderPace::kNew &&
                 now < ReaderPace::kSlow
             ? ReaderPace::kNew
             : now;
}

ReaderPace PaceTimes::TakenBack(ReaderPace before, Nanos waited) const {
  if (before == ReaderPace::kPrompt) return ReaderPace::kLate;
  return std::max({before, ReaderPace::kLate, Of(waited)});
}

PaceTimes::Nanos PaceTimes::Slice(ReaderPace pace) const {
  switch (pace) {
    case ReaderPace::kNew:
      return probe;
    case ReaderPace::kPrompt:
    case ReaderPace::kLate:
      return late;
    case ReaderPace::kLater:
    case ReaderPace::kSlow:
      break;
  }
  return slow;
}

}  // namespace millrace::rpc
