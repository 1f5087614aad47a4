// ReserveTurns decides whose turn it is to use the reserve of a host: the
// memory in which a connection gets one batch while slow connections hold the
// host's share (client_shares.h). The reserve has room for few batches, often
// for one. So a connection that takes its batches promptly comes first, and a
// connection that does not take its batch in time leaves the reserve to others.
//
//   order  by pace (reader_pace.h). Among new connections in turn the newest
//          and the oldest, so that neither many old ones nor a stream of
//          further ones keeps one of them waiting; otherwise the one that has
//          waited longest
//   stay   while another connection waits, for the slice of the pace; for
//          `probe` while one of a better pace waits
//   credit while prompt connections use the reserve, the others together get a
//          quarter of the time: a turn costs its slice, and nobody cuts it
//          short. Without prompt ones they need no credit
//
// What it is not: it knows no bytes, and whether there is room in the reserve.
//
// Pure: is told the time. Not thread-safe.
//
//   if (const auto turn = turns.Next(waiting, now)) {
//     stay = turns.Begin(*turn, waiting[turn->index].pace, now);
//   }
//   if (turns.MustLeave(stay, waited, waiting, now)) ... turns.End(stay, ...)

#ifndef MILLRACE_SERVER_RPC_RESERVE_TURNS_H_
#define MILLRACE_SERVER_RPC_RESERVE_TURNS_H_

#include <chrono>
#include <cstddef>
#include <optional>
#include <vector>

#include "common/mutex.h"
#include "server/rpc/reader_pace.h"

namespace millrace::rpc {

class ReserveTurns {
 public:
  // Whose turn it is.
  struct Chosen {
    size_t index = 0;         // of `waiting`
    bool has_credit = false;  // the turn is paid for by credit
  };
  // From the grant of a batch to its end.
  struct Stay {
    ReaderPace pace = ReaderPace::kNew;  // at the grant
    bool has_credit = false;
    SteadyTime since;
  };

  explicit ReserveTurns(const PaceTimes& times) : times_(times) {}

  // `waiting`: the paces of the connections that wait for the reserve, that
  // which waits longest first; none is slow. Nothing: it is no one's turn now.
  std::optional<Chosen> Next(const std::vector<ReaderPace>& waiting,
                             SteadyTime now) const;

  // The chosen connection, of this pace, begins its turn.
  Stay Begin(const Chosen& chosen, ReaderPace pace, SteadyTime now);
  // Its batch was sent or taken back.
  void End(const Stay& stay, SteadyTime now);

  // A connection has to leave the reserve, in which its batch has been ready
  // for `waited`. `waiting` as for Next(), without that connection.
  bool MustLeave(const Stay& stay, PaceTimes::Nanos waited,
                 const std::vector<ReaderPace>& waiting, SteadyTime now) const;

 private:
  using Nanos = PaceTimes::Nanos;

  // A prompt connection has used the reserve a short time ago.
  bool IsInUse(SteadyTime now) const;
  Nanos Credit(SteadyTime now) const;
  // As if it had been in use since credit_at_.
  Nanos GrownCredit(SteadyTime now) const;
  void SetCredit(Nanos credit, SteadyTime now);

  const PaceTimes times_;
  // When a prompt connection last began or ended a turn.
  std::optional<SteadyTime> prompt_use_;
  // As of credit_at_; it grows from then on while IsInUse().
  Nanos credit_{0};
  SteadyTime credit_at_;
  // The next one of those that are not prompt is the oldest.
  bool oldest_next_ = false;
};

}  // namespace millrace::rpc

#endif  // MILLRACE_SERVER_RPC_RESERVE_TURNS_H_
