// ReaderPace says how quickly the client of a connection takes its batches, as
// far as the server has seen it: from the time that a finished batch waits
// until it is sent completely. A batch that is sent, or taken back, sets the
// pace anew.
//
// Pure functions, safe from any thread.
//
//   const PaceTimes times(std::chrono::seconds(2));
//   pace = times.Sent(pace, std::chrono::milliseconds(70));

#ifndef MILLRACE_SERVER_RPC_READER_PACE_H_
#define MILLRACE_SERVER_RPC_READER_PACE_H_

#include <chrono>

namespace millrace::rpc {

// From the best to the worst.
enum class ReaderPace {
  kPrompt,  // took its last batch within `probe`
  kNew,     // took no batch yet, or took one later than `probe` after a prompt
            // one
  kLate,    // within `late`
  kLater,   // within `slow`
  kSlow,    // took longer
};

struct PaceTimes {
  using Nanos = std::chrono::nanoseconds;

  // `batch_timeout`: the wait of a batch after which its client is a slow
  // reader. Above 0.
  explicit PaceTimes(Nanos batch_timeout);

  // A batch of 9.6 MB takes 80 ms over a link of 1 Gbit/s and 0.8 s over one of
  // 100 Mbit/s; with the default batch_timeout of 2 s, `probe` is 62.5 ms and
  // `late` 250 ms. Both fractions are choices.
  Nanos probe;  // a 32nd of batch_timeout, at least 50 ms
  Nanos late;   // an eighth of it
  Nanos slow;   // batch_timeout

  // Of a batch that waited for `waited`.
  ReaderPace Of(Nanos waited) const;

  // A connection of pace `before` took a batch after `waited`. One late batch
  // after a prompt one may be an accident.
  ReaderPace Sent(ReaderPace before, Nanos waited) const;

  // A batch of the connection was taken back after it had waited for `waited`.
  ReaderPace TakenBack(ReaderPace before, Nanos waited) const;

  // Time in which a connection of this pace should take a batch.
  Nanos Slice(ReaderPace pace) const;
};

}  // namespace millrace::rpc

#endif  // MILLRACE_SERVER_RPC_READER_PACE_H_
