// TcpGate is a link between programs of this machine that a test can cut, slow
// down and let damage bytes: it listens on a port of its own and passes bytes
// to a server and back. What it is not: a network. A connection is made at once
// also while the link is cut (the kernel does that), it only hears nothing.
//
// Thread-safe; owns a thread.
//
//   TcpGate gate(server->port());
//   Connect(gate.address());
//   gate.Cut();   // bytes stay where they are, nobody is told
//   gate.Mend();  // and go on their way

#ifndef MILLRACE_TESTS_TESTING_TCP_GATE_H_
#define MILLRACE_TESTS_TESTING_TCP_GATE_H_

#include <atomic>
#include <cstdint>
#include <list>
#include <string>
#include <thread>
#include <vector>

#include "common/mutex.h"

namespace millrace::testing {

class TcpGate {
 public:
  // To 127.0.0.1:`port`. Ends the program when no port can be had.
  explicit TcpGate(int port);
  ~TcpGate();  // ends all connections
  TcpGate(const TcpGate&) = delete;
  TcpGate& operator=(const TcpGate&) = delete;

  std::string address() const;

  void Cut() { Set(cut_, true); }
  void Mend() { Set(cut_, false); }

  // From the server to its clients, over all connections; 0: no limit.
  void Limit(uint64_t bytes_per_second) { Set(limit_, bytes_per_second); }

  // Flips a bit of the last byte of `pattern` the next `times` times that it
  // passes, in either direction. Only one that arrives in one piece is found.
  // `connections`: on the next so many connections alone; 0: on all, also on
  // those that are open.
  void Damage(const std::string& pattern, int times, uint64_t connections = 0);
  // Flips bit `bit` of byte `byte` that goes to the server, or comes from it,
  // over the next connection, and none on later ones. In the place of Damage().
  void DamageBit(bool to_server, uint64_t byte, int bit);
  // Bytes that have passed over the connection of the last DamageBit().
  uint64_t passed(bool to_server) const;
  // How often bits were flipped since the last Damage() or DamageBit().
  int damages() const;

 private:
  // What goes from one socket to another.
  struct Way {
    int from;
    int to;
    bool limited;
    uint64_t connection;  // counted from 1
    uint64_t passed = 0;
    std::vector<char> waiting;
    bool ended = false;  // `from` sends no more
  };
  struct Connection {
    Way there;
    Way back;
  };

  template <typename T>
  void Set(std::atomic<T>& what, T value) {
    what.store(value);
    Wake();
  }
  void Wake();
  void Loop();
  void Accept();
  // False when the connection has ended.
  bool Pass(Way& way);
  void DamageBytes(Way& way, char* bytes, size_t count);

  const int port_;
  int listener_ = -1;
  int listens_on_ = 0;
  int wake_[2] = {-1, -1};
  std::atomic<bool> stop_{false};
  std::atomic<bool> cut_{false};
  std::atomic<uint64_t> limit_{0};
  mutable Mutex damage_mu_;
  std::string pattern_ MR_GUARDED_BY(damage_mu_);
  int times_ MR_GUARDED_BY(damage_mu_) = 0;
  int damages_ MR_GUARDED_BY(damage_mu_) = 0;
  uint64_t accepted_ MR_GUARDED_BY(damage_mu_) = 0;
  // Connections that are damaged.
  uint64_t first_damaged_ MR_GUARDED_BY(damage_mu_) = 0;
  uint64_t end_damaged_ MR_GUARDED_BY(damage_mu_) = 0;
  // Of DamageBit(). bit_ < 0: not called, or Damage() since.
  int bit_ MR_GUARDED_BY(damage_mu_) = -1;
  bool bit_to_server_ MR_GUARDED_BY(damage_mu_) = false;
  uint64_t bit_byte_ MR_GUARDED_BY(damage_mu_) = 0;
  uint64_t passed_[2] MR_GUARDED_BY(damage_mu_) = {0, 0};
  // Of the thread.
  std::list<Connection> connections_;
  int64_t room_ = 0;  // bytes that the limit lets pass now
  std::thread thread_;
};

}  // namespace millrace::testing

#endif  // MILLRACE_TESTS_TESTING_TCP_GATE_H_
