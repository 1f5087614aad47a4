// FakeTransport is a BatchTransport without a network, moved by hand: the test
// says which call delivers, fails or stays silent. Batches are those of
// MakeBatch(), a function of their position, as a data server's are.
//
// Not thread-safe: events run on the thread that calls the test's methods. Only
// Wake() may come from others, and is counted.

#ifndef MILLRACE_TESTS_CLIENT_PREFETCH_FAKE_TRANSPORT_H_
#define MILLRACE_TESTS_CLIENT_PREFETCH_FAKE_TRANSPORT_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/prefetch/host_loader.h"
#include "client/prefetch/transport.h"
#include "proto/data_service.pb.h"
#include "proto/names.h"

namespace millrace::testing {

// A plan of `steps` steps with batches of `rows` rows of 5 bytes each.
OpenResponse MakePlan(uint64_t steps, uint64_t rows = 3);

struct FakeBatch {
  BatchHeader header;
  std::string payload;
};

FakeBatch MakeBatch(const OpenResponse& plan, Position position);

class FakeTransport : public prefetch::BatchTransport {
 public:
  struct Call {
    prefetch::ServerId server = 0;
    prefetch::AskedSteps steps;
    std::vector<uint64_t> left;  // steps that were not begun, in order
    // The batch under way.
    FakeBatch batch;
    uint64_t sent = 0;
    bool begun = false;
  };

  explicit FakeTransport(OpenResponse plan) : plan_(std::move(plan)) {}

  // --- what the test does -------------------------------------------------
  void SetServers(std::vector<prefetch::ServerState> servers);
  void Tick() { events_->OnTick(); }
  // One frame of at most `bytes` of the batch under way, or of the next one
  // in `left`. False when the call has nothing left to send.
  bool SendFrame(prefetch::CallId id, uint64_t bytes = 1 << 20);
  // Whole batches, all that are left, and the end of the call.
  void Complete(prefetch::CallId id);
  // One whole batch of the call's range, asked for or not.
  void SendBatch(prefetch::CallId id, const FakeBatch& batch);
  void SendRaw(prefetch::CallId id, wire::FrameView& frame) {
    events_->OnFrame(id, frame);
  }
  void End(prefetch::CallId id, absl::Status status);

  const std::map<prefetch::CallId, Call>& calls() const { return calls_; }
  std::vector<prefetch::CallId> CallsAt(prefetch::ServerId server) const;
  // Every call that was ever started.
  const std::vector<std::pair<prefetch::ServerId, prefetch::AskedSteps>>&
  history() const {
    return history_;
  }
  // Every server that was to get a new connection.
  const std::vector<prefetch::ServerId>& reconnects() const {
    return reconnects_;
  }
  int wakes() const { return wakes_.load(); }
  bool stopped() const { return stopped_; }

  // --- BatchTransport -----------------------------------------------------
  void Start(prefetch::TransportEvents* events) override;
  void StartCall(prefetch::CallId id, prefetch::ServerId server,
                 const prefetch::AskedSteps& steps) override;
  void CancelCall(prefetch::CallId id) override { calls_.erase(id); }
  void Reconnect(prefetch::ServerId server) override {
    reconnects_.push_back(server);
  }
  void Wake() override { wakes_.fetch_add(1); }
  void Stop() override { stopped_ = true; }

 protected:
  const OpenResponse plan_;
  prefetch::TransportEvents* events_ = nullptr;
  std::vector<prefetch::ServerState> servers_;
  std::map<prefetch::CallId, Call> calls_;
  std::vector<std::pair<prefetch::ServerId, prefetch::AskedSteps>> history_;
  std::vector<prefetch::ServerId> reconnects_;
  std::atomic<int> wakes_{0};
  bool stopped_ = false;
};

}  // namespace millrace::testing

#endif  // MILLRACE_TESTS_CLIENT_PREFETCH_FAKE_TRANSPORT_H_
