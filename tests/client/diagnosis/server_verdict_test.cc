#include "client/diagnosis/server_verdict.h"

#include <gtest/gtest.h>

namespace millrace::diagnosis {
namespace {

// After 100 s with 4 threads that were idle for `idle` thread-seconds.
GetStatusResponse Status(double idle) {
  GetStatusResponse status;
  status.set_uptime_seconds(100);
  status.set_threads(4);
  status.set_idle_thread_seconds(idle);
  status.set_active_streams(2);
  status.set_batches_sent(1000);
  const std::pair<const char*, double> stages[] = {
      {"read", 30}, {"decode", 240}, {"augment", 30}};
  for (const auto& [name, seconds] : stages) {
    StageTime* const stage = status.add_stages();
    stage->set_stage(name);
    stage->set_seconds(seconds);
  }
  return status;
}

TEST(ServerVerdictTest, BusyThreadsNameTheirStage) {
  EXPECT_EQ(ServerVerdict({}, Status(12)),
            "threads busy 97 %, mostly in decode: add cores or servers");
  EXPECT_EQ(StageShares({}, Status(12)),
            "decode 80 %, read 10 %, augment 10 %");
}

TEST(ServerVerdictTest, ThreadsThatReadThemselvesWaitForStorage) {
  GetStatusResponse status = Status(12);
  status.mutable_stages(0)->set_seconds(900);
  EXPECT_EQ(ServerVerdict({}, status),
            "threads busy 97 %, mostly in read, and no thread reads ahead: "
            "start the server without --read_threads=0");
  status.set_read_threads(32);
  EXPECT_EQ(ServerVerdict({}, status),
            "threads busy 97 %, mostly in read: add cores or servers");
}

TEST(ServerVerdictTest, LooksAtWhatHappenedInBetween) {
  GetStatusResponse later = Status(400);
  later.set_uptime_seconds(110);
  later.set_idle_thread_seconds(404);
  later.mutable_stages(2)->set_seconds(60);
  EXPECT_DOUBLE_EQ(BusyShare(Status(400), later).value(), 0.9);
  EXPECT_EQ(ServerVerdict(Status(400), later),
            "threads busy 90 %, mostly in augment: add cores or servers");
}

// "2 of 11 streams wait for their client" hid that another client got nothing.
TEST(ServerVerdictTest, AFullShareIsNamedBeforeTheSlowClientsThatFillIt) {
  GetStatusResponse status = Status(360);
  status.set_blocked_sends(2);
  FullShare& share = *status.add_full_shares();
  share.set_peer("ipv4:10.0.0.9");
  share.set_waiting_clients(1);
  EXPECT_EQ(ServerVerdict({}, status),
            "threads busy 10 %; 1 client at ipv4:10.0.0.9 gets no batches, "
            "because other connections of this address use its share of the "
            "memory: raise --memory_budget");
  share.set_advised_budget_bytes(uint64_t{192} << 20);
  EXPECT_EQ(RaiseBudget(share), "raise --memory_budget to 192MiB");
}

TEST(ServerVerdictTest, IdleThreadsPointToWhatTheyWaitFor) {
  GetStatusResponse status = Status(360);
  EXPECT_EQ(ServerVerdict({}, status), "threads busy 10 %: spare capacity");
  status.set_waiting_for_memory(3);
  EXPECT_EQ(ServerVerdict({}, status),
            "threads busy 10 %; 3 batches wait for memory: raise "
            "--memory_budget");
  // They wait for memory because it is full of what nobody takes.
  status.set_blocked_sends(1);
  EXPECT_EQ(ServerVerdict({}, status),
            "threads busy 10 %; 1 of 2 streams blocked by a slow client or "
            "network");
}

TEST(ServerVerdictTest, SaysWhenItCannotKnow) {
  EXPECT_EQ(BusyShare({}, Status(0)), std::nullopt);
  EXPECT_EQ(ServerVerdict({}, Status(0)),
            "not clear: this version of the server does not report how busy "
            "its threads are");
  EXPECT_EQ(BusyShare(Status(12), Status(12)), std::nullopt);
  GetStatusResponse status = Status(400);
  status.set_active_streams(0);
  EXPECT_EQ(ServerVerdict(status, status), "idle: no client requests batches");
  status.set_shutting_down(true);
  EXPECT_EQ(ServerVerdict({}, status), "stopping");
  EXPECT_EQ(StageShares({}, {}), "");
}

}  // namespace
}  // namespace millrace::diagnosis
