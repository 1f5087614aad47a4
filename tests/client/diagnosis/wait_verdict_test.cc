#include "client/diagnosis/wait_verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace millrace::diagnosis {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

constexpr double kElapsed = 100;

// 1,000 batches of a server whose threads do nothing else than decode them.
ServerTimes Decoding(std::string address) {
  ServerTimes s;
  s.address = std::move(address);
  s.batches = s.timed_batches = 1000;
  s.read_seconds = 4;
  s.decode_seconds = 300;
  s.augment_seconds = 90;
  s.wait_thread_seconds = 500;
  s.make_seconds = 100;
  s.idle_seconds = 2;
  s.send_seconds = 1;
  s.receive_seconds = 10;
  s.waited_seconds = 5;
  return s;
}

// Threads that mostly have nothing to do.
ServerTimes Idle(std::string address) {
  ServerTimes s = Decoding(std::move(address));
  s.wait_thread_seconds = 0;
  s.idle_seconds = 90;
  return s;
}

ServerTimes SlowLink(std::string address) {
  ServerTimes s = Idle(std::move(address));
  s.receive_seconds = 95;
  return s;
}

WaitReport Report(double wait_seconds, std::vector<ServerTimes> servers) {
  WaitReport report;
  report.elapsed_seconds = kElapsed;
  report.wait_seconds = report.host_wait_seconds = wait_seconds;
  report.servers = std::move(servers);
  return report;
}

TEST(VerdictTest, WhoHardlyWaitsIsTheBottleneckItself) {
  WaitReport report = Report(2, {Decoding("a:1")});
  EXPECT_EQ(JudgeWait(report).text,
            "waited 2 %: the trainer is the bottleneck");
  EXPECT_EQ(JudgeWait(report).cause, WaitCause::kConsumer);
  report.consumer = "this client";
  EXPECT_EQ(JudgeWait(report).text,
            "waited 2 %: this client is the bottleneck");
}

TEST(VerdictTest, NamesTheWorkAndCountsTheServers) {
  ServerTimes quick = Idle("c:1");
  quick.waited_seconds = 0.1;
  EXPECT_EQ(
      JudgeWait(Report(11, {Decoding("a:1"), Decoding("b:1"), quick})).text,
      "waited 11 %: decoding on 2 of 3 servers (a:1, b:1); add servers "
      "or cores");
  EXPECT_EQ(JudgeWait(Report(11, {Decoding("a:1")})).text,
            "waited 11 %: decoding on the server; add servers or cores");
  EXPECT_EQ(JudgeWait(Report(11, {Decoding("a:1"), Decoding("b:1"),
                                  Decoding("c:1"), Idle("d:1")}))
                .text,
            "waited 11 %: decoding on 3 of 4 servers; add servers or cores");
}

TEST(VerdictTest, ServersThatDoNotAnswerAreNamed) {
  WaitReport report = Report(92, {Decoding("a:1")});
  report.no_answer_seconds = 86;
  report.no_answer = "a:1: connection refused";
  EXPECT_EQ(JudgeWait(report).text,
            "waited 92 %: no server answered (a:1: connection refused); check "
            "that the servers run and can be reached");
  EXPECT_EQ(NameOf(JudgeWait(report).cause), "no_answer");
  // Not one batch came.
  report.servers.clear();
  EXPECT_EQ(JudgeWait(report).cause, WaitCause::kNoAnswer);
  // A short outage is not the bottleneck.
  report = Report(30, {Decoding("a:1")});
  report.no_answer_seconds = 1;
  EXPECT_EQ(JudgeWait(report).cause, WaitCause::kDecoding);
}

TEST(VerdictTest, TellsTheKindsOfWorkApart) {
  ServerTimes s = Decoding("a:1");
  EXPECT_EQ(CauseAt(s, kElapsed), WaitCause::kDecoding);
  s.augment_seconds = 900;
  EXPECT_EQ(CauseAt(s, kElapsed), WaitCause::kAugmenting);
  s.augment_seconds = 300;
  EXPECT_EQ(CauseAt(s, kElapsed), WaitCause::kWork);
  // Perhaps by threads of its own, while others decode without a pause.
  s.read_seconds = 2000;
  EXPECT_EQ(CauseAt(s, kElapsed), WaitCause::kWork);
}

TEST(VerdictTest, ALinkThatIsNeverFreeIsTheCause) {
  EXPECT_EQ(JudgeWait(Report(30, {Idle("data-1:7001"), Idle("data-2:7001"),
                                  [] {
                                    ServerTimes s = SlowLink("data-3:7001");
                                    s.waited_seconds = 25;
                                    return s;
                                  }()}))
                .text,
            "waited 30 %: the link to data-3:7001");
  const WaitVerdict all = JudgeWait(
      Report(30, {SlowLink("a:1"), SlowLink("b:1"), SlowLink("c:1")}));
  EXPECT_EQ(all.cause, WaitCause::kLink);
  EXPECT_THAT(all.text, HasSubstr("all 3 servers: this client's own link"));
}

// "The link" was named although no batch had come over one.
TEST(VerdictTest, BatchesInSharedMemoryHaveNoLink) {
  ServerTimes s = SlowLink("a:1");
  s.shared_batches = s.batches;
  const WaitVerdict verdict = JudgeWait(Report(30, {s}));
  EXPECT_EQ(verdict.cause, WaitCause::kSharedMemory);
  EXPECT_EQ(NameOf(verdict.cause), "shared_memory");
  EXPECT_EQ(verdict.text,
            "waited 30 %: batches are ready in shared memory of the server, "
            "and this client copies them out too slowly");
  // The first ones may come over the network before the memory is there.
  s.shared_batches = s.batches * 3 / 4;
  EXPECT_EQ(CauseAt(s, kElapsed), WaitCause::kSharedMemory);
  s.shared_batches = s.batches / 4;
  EXPECT_EQ(CauseAt(s, kElapsed), WaitCause::kLink);
  s = Decoding("a:1");
  s.shared_batches = s.batches;
  EXPECT_EQ(CauseAt(s, kElapsed), WaitCause::kDecoding);
}

TEST(VerdictTest, BatchesThatStandReadyAtTheServerWaitForTheLink) {
  ServerTimes s = Idle("a:1");  // batches of one frame: none is on its way
  s.receive_seconds = 0;
  s.send_seconds = 300;
  s.wait_memory_seconds = 200;
  EXPECT_EQ(CauseAt(s, kElapsed), WaitCause::kLink);
}

// Photographs through 20 MB/s: the threads work without a pause while they make
// a batch, for a fifth of the time.
TEST(VerdictTest, ThreadsThatAreBusyWhileBatchesAreMadeDoNotHideTheLink) {
  ServerTimes s = Decoding("a:1");
  s.make_seconds = 20;
  s.idle_seconds = 1;
  s.wait_thread_seconds = 0;
  s.receive_seconds = 98;
  s.send_seconds = 75;
  EXPECT_EQ(CauseAt(s, kElapsed), WaitCause::kLink);
  // Several made side by side, and sent one after the other.
  s.make_seconds = 120;
  EXPECT_EQ(CauseAt(s, kElapsed), WaitCause::kLink);
  // Each batch on a call of its own: it is given to the connection at once.
  s.send_seconds = 0;
  EXPECT_EQ(CauseAt(s, kElapsed), WaitCause::kLink);
  // A link that has pauses may hold nothing up.
  s.receive_seconds = 75;
  EXPECT_EQ(CauseAt(s, kElapsed), WaitCause::kUnclear);
  s.send_seconds = 100;
  EXPECT_EQ(CauseAt(s, kElapsed), WaitCause::kLink);
}

TEST(VerdictTest, IdleThreadsAndWaitsForMemoryAreTheBudget) {
  ServerTimes s = Idle("a:1");
  s.wait_memory_seconds = 400;
  EXPECT_EQ(JudgeWait(Report(20, {s})).text,
            "waited 20 %: too little memory for batches on the server; raise "
            "--memory_budget");
  // Busy threads make them wait as well: then it is the work.
  s.idle_seconds = 1;
  EXPECT_EQ(CauseAt(s, kElapsed), WaitCause::kDecoding);
}

TEST(VerdictTest, IdleThreadsAndReadingAreTheStorage) {
  ServerTimes s = Idle("a:1");
  s.read_seconds = 3000;
  s.wait_thread_seconds = 50;
  EXPECT_EQ(CauseAt(s, kElapsed), WaitCause::kReading);
}

TEST(VerdictTest, WhereNothingQueuesTooLittleIsAskedFor) {
  EXPECT_EQ(CauseAt(Idle("a:1"), kElapsed), WaitCause::kWindow);
  EXPECT_THAT(JudgeWait(Report(20, {Idle("a:1")})).text,
              HasSubstr("raise --window"));
}

TEST(VerdictTest, ServersThatSendNoTimesGetNoGuess) {
  ServerTimes old;
  old.address = "old:1";
  old.batches = 1000;
  old.receive_seconds = 10;
  old.waited_seconds = 20;
  const WaitVerdict verdict = JudgeWait(Report(20, {old}));
  EXPECT_EQ(verdict.cause, WaitCause::kUnclear);
  EXPECT_THAT(verdict.text,
              HasSubstr("waited 20 %: not clear: the servers sent "
                        "no times"));
  // Below a row with these times it said that there were none.
  ServerTimes three = old;
  three.batches = three.timed_batches = 3;
  three.make_seconds = three.read_seconds = 1;
  EXPECT_THAT(JudgeWait(Report(20, {three})).text,
              AllOf(HasSubstr("not clear: too few batches with times"),
                    Not(HasSubstr("no times"))));
  // What the client measured itself still counts.
  old.receive_seconds = 90;
  EXPECT_EQ(CauseAt(old, kElapsed), WaitCause::kLink);
  // A server whose `make` is not there, but waits are.
  ServerTimes partly = Decoding("partly:1");
  partly.make_seconds = partly.idle_seconds = 0;
  EXPECT_EQ(CauseAt(partly, kElapsed), WaitCause::kUnclear);
  // Times of a few batches do not stand for all.
  ServerTimes few = Decoding("few:1");
  few.timed_batches = 100;
  EXPECT_EQ(CauseAt(few, kElapsed), WaitCause::kUnclear);
}

TEST(VerdictTest, EveryCauseHasAName) {
  for (int i = 0; i <= static_cast<int>(WaitCause::kUnclear); ++i) {
    const auto cause = static_cast<WaitCause>(i);
    EXPECT_EQ(WaitCauseOf(NameOf(cause)), cause);
  }
  EXPECT_EQ(NameOf(WaitCause::kConsumer), "consumer");
  EXPECT_EQ(NameOf(WaitCause::kUnclear), "unclear");
  EXPECT_EQ(WaitCauseOf("a word of the future"), WaitCause::kUnclear);
}

TEST(VerdictTest, ContradictionsAreNotClear) {
  ServerTimes both = Decoding("a:1");
  both.receive_seconds = 75;
  EXPECT_EQ(CauseAt(both, kElapsed), WaitCause::kUnclear);
  ServerTimes between = Idle("a:1");
  between.idle_seconds = 35;
  EXPECT_EQ(CauseAt(between, kElapsed), WaitCause::kUnclear);
  ServerTimes few = Decoding("a:1");
  few.batches = few.timed_batches = 2;
  EXPECT_EQ(CauseAt(few, kElapsed), WaitCause::kUnclear);
}

TEST(VerdictTest, TwoCausesAreBothSaidAndNoneIsNamed) {
  ServerTimes link = SlowLink("b:1");
  link.waited_seconds = 5;
  const WaitVerdict verdict = JudgeWait(Report(10, {Decoding("a:1"), link}));
  EXPECT_EQ(verdict.cause, WaitCause::kUnclear);
  EXPECT_THAT(verdict.text,
              HasSubstr("not clear: 50 % of the wait: the link to b:1"));
  EXPECT_THAT(verdict.text,
              HasSubstr("50 % of the wait: decoding on 1 of 2 servers"));
}

TEST(VerdictTest, OwnWorkOnTheClientIsNotBlamedOnServers) {
  WaitReport report = Report(30, {Decoding("a:1")});
  report.host_wait_seconds = 1;
  report.prepare_seconds = 28;
  EXPECT_EQ(JudgeWait(report).cause, WaitCause::kPreparing);
  // The thread that prepares waits, too.
  report.host_wait_seconds = 60;
  EXPECT_EQ(JudgeWait(report).cause, WaitCause::kDecoding);
}

TEST(VerdictTest, StepsThatWereAskedAgainAreSaid) {
  ServerTimes s;
  s.address = "a:1";
  s.batches = 10;
  s.waited_seconds = 30;
  WaitReport report = Report(30, {s});
  report.retried_steps = 7;
  EXPECT_THAT(JudgeWait(report).text,
              HasSubstr("7 steps were requested again"));
  report.retried_steps = 1;
  EXPECT_THAT(JudgeWait(report).text, HasSubstr("1 step was requested again"));
}

TEST(VerdictTest, NothingMeasuredSaysNothing) {
  EXPECT_EQ(JudgeWait(WaitReport()).cause, WaitCause::kUnclear);
  WaitReport report = Report(50, {});
  EXPECT_EQ(JudgeWait(report).text, "waited 50 %: not clear");
}

TEST(ServerTimesTest, TakesStagesAndBoundsForeignNumbers) {
  BatchHeader header;
  ServerTimes s;
  s.AddStages(header);
  EXPECT_EQ(s.timed_batches, 0);
  header.mutable_stage_micros()->set_decode(1500000);
  header.mutable_stage_micros()->set_make(1000000);
  header.mutable_stage_micros()->set_idle(~uint64_t{0});
  header.mutable_stage_micros()->set_read(~uint64_t{0});
  s.AddStages(header);
  EXPECT_EQ(s.timed_batches, 1);
  EXPECT_DOUBLE_EQ(s.decode_seconds, 1.5);
  EXPECT_DOUBLE_EQ(s.idle_seconds, 1);
  EXPECT_DOUBLE_EQ(s.read_seconds, 86400);
}

TEST(ServerTimesTest, DifferenceIsByAddress) {
  const ServerTimes a = Decoding("a:1");
  ServerTimes later = a;
  later.batches += 10;
  later.timed_batches += 8;
  later.shared_batches += 7;
  later.decode_seconds += 3;
  later.waited_seconds += 0.5;
  const std::vector<ServerTimes> difference =
      Difference({later, Decoding("b:1")}, {a});
  ASSERT_THAT(difference, SizeIs(2));
  EXPECT_EQ(difference[0].batches, 10);
  EXPECT_EQ(difference[0].timed_batches, 8);
  EXPECT_EQ(difference[0].shared_batches, 7);
  EXPECT_DOUBLE_EQ(difference[0].decode_seconds, 3);
  EXPECT_DOUBLE_EQ(difference[0].waited_seconds, 0.5);
  EXPECT_DOUBLE_EQ(difference[0].make_seconds, 0);
  EXPECT_EQ(difference[1].batches, 1000);
  EXPECT_THAT(Difference({a}, {a}), SizeIs(0));
}

}  // namespace
}  // namespace millrace::diagnosis
