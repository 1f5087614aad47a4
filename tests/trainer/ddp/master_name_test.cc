#include "trainer/ddp/master_name.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace millrace::ddp {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(MasterNameTest, AnAddressAndAKnownNameNeedNoWait) {
  for (const char* host : {"127.0.0.1", "::1", "localhost"}) {
    const absl::Status status = AwaitMasterName(host, absl::ZeroDuration());
    EXPECT_TRUE(status.ok()) << status;
  }
}

// The record of a Kubernetes service may come after its pods.
TEST(MasterNameTest, ALateNameIsWaitedFor) {
  int lookups = 0;
  const absl::Status status = AwaitMasterName(
      "late", absl::Minutes(1), [&lookups](const std::string& host) {
        EXPECT_EQ(host, "late");
        return std::string(++lookups < 3 ? "Name or service not known" : "");
      });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(lookups, 3);
}

// c10d's store tried for --rank_timeout, two minutes.
TEST(MasterNameTest, ANameWithoutAnAddressIsAnErrorThatSaysWhatToDo) {
  int lookups = 0;
  const absl::Time started = absl::Now();
  const absl::Status status = AwaitMasterName(
      "gpu-1", absl::Milliseconds(600), [&lookups](const std::string&) {
        ++lookups;
        return std::string("Temporary failure in name resolution");
      });
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(
      status.message(),
      AllOf(HasSubstr("the name gpu-1 of rank 0's machine has no address "
                      "(Temporary failure in name resolution, looked up for "
                      "600ms)"),
            HasSubstr("--master_addr"), HasSubstr("MASTER_ADDR")));
  EXPECT_GE(lookups, 2);
  EXPECT_GE(absl::Now() - started, absl::Milliseconds(600));
}

// RFC 6761 keeps .invalid free of addresses.
TEST(MasterNameTest, TheSystemSaysWhyANameHasNoAddress) {
  EXPECT_NE(WhyUnresolved("no-such-machine.invalid"), "");
  EXPECT_EQ(WhyUnresolved("127.0.0.1"), "");
}

}  // namespace
}  // namespace millrace::ddp
