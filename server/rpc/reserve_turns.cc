#include "server/rpc/reserve_turns.h"

#include <algorithm>

namespace millrace::rpc {
namespace {

// The part of the time that connections that are not prompt get beside prompt
// ones. A choice.
constexpr int kCreditParts = 4;
// The reserve is in use for this part of batch_timeout after each turn of a
// prompt connection. A choice: a job that requests a batch each 100 ms keeps it
// in use.
constexpr int kUsesPerTimeout = 4;

}  // namespace

std::optional<ReserveTurns::Chosen> ReserveTurns::Next(
    const std::vector<ReaderPace>& waiting, SteadyTime now) const {
  if (waiting.empty()) return std::nullopt;
  const ReaderPace best = *std::min_element(waiting.begin(), waiting.end());
  // Of those that may be chosen: the oldest one, or the one that is best by its
  // pace and, if new, the newest.
  const auto choose = [&](auto may) {
    std::optional<size_t> chosen;
    for (size_t i = 0; i < waiting.size(); ++i) {
      if (!may(waiting[i])) continue;
      if (!chosen.has_value()) {
        chosen = i;
      } else if (!oldest_next_ && (waiting[i] < waiting[*chosen] ||
                                   (waiting[i] == waiting[*chosen] &&
                                    waiting[i] == ReaderPace::kNew))) {
        chosen = i;
      }
    }
    return chosen;
  };
  if (IsInUse(now)) {
    const Nanos credit = Credit(now);
    // New ones need no credit where no prompt one waits.
    const ReaderPace free = std::min(best, ReaderPace::kNew);
    const auto paid = choose([&](ReaderPace pace) {
      return pace > free && times_.Slice(pace) <= credit;
    });
    if (paid.has_value()) return Chosen{*paid, /*has_credit=*/true};
    if (best > ReaderPace::kNew) return std::nullopt;
  }
  return Chosen{*choose([best](ReaderPace pace) { return pace == best; }),
                /*has_credit=*/false};
}

ReserveTurns::Stay ReserveTurns::Begin(const Chosen& chosen, ReaderPace pace,
                                       SteadyTime now) {
  if (pace != ReaderPace::kPrompt) oldest_next_ = !oldest_next_;
  if (chosen.has_credit) SetCredit(Credit(now) - times_.Slice(pace), now);
  if (pace == ReaderPace::kPrompt) {
    SetCredit(Credit(now), now);
    prompt_use_ = now;
  }
  return {.pace = pace, .has_credit = chosen.has_credit, .since = now};
}

void ReserveTurns::End(const Stay& stay, SteadyTime now) {
  if (stay.has_credit) {
    // What is left of the slice is not lost, and the turn is no pause of the
    // prompt ones.
    const Nanos left = times_.Slice(stay.pace) - (now - stay.since);
    SetCredit(GrownCredit(now) + std::max(left, Nanos(0)), now);
    prompt_use_ = now;
  }
  if (stay.pace == ReaderPace::kPrompt) {
    SetCredit(Credit(now), now);
    prompt_use_ = now;
  }
}

bool ReserveTurns::MustLeave(const Stay& stay, Nanos waited,
                             const std::vector<ReaderPace>& waiting,
                             SteadyTime now) const {
  // Only for one that then has its turn.
  const std::optional<Chosen> next = Next(waiting, now);
  if (!next.has_value()) return false;
  const bool is_better = waiting[next->index] < stay.pace && !stay.has_credit;
  return waited >= (is_better ? times_.probe : times_.Slice(stay.pace));
}

bool ReserveTurns::IsInUse(SteadyTime now) const {
  return prompt_use_.has_value() &&
         now - *prompt_use_ < times_.slow / kUsesPerTimeout;
}

ReserveTurns::Nanos ReserveTurns::Credit(SteadyTime now) const {
  return IsInUse(now) ? GrownCredit(now) : Nanos(0);
}

ReserveTurns::Nanos ReserveTurns::GrownCredit(SteadyTime now) const {
  return std::min(times_.slow, credit_ + (now - credit_at_) / kCreditParts);
}

void ReserveTurns::SetCredit(Nanos credit, SteadyTime now) {
  credit_ = credit;
  credit_at_ = now;
}

}  // namespace millrace::rpc
