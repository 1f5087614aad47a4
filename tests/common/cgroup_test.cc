#include "common/cgroup.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace millrace {
namespace {

// A machine of 64 CPUs and 1 TiB whose files lie in a folder of the test's.
class Cgroup : public testing::Test {
 protected:
  Cgroup() {
    root_.path = testing::TempDir() + "/cgroup_" +
                 testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(root_.path);
    root_.machine_cpus = 64;
    root_.machine_memory = uint64_t{1} << 40;
  }

  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root_.path + "/" + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << "\n";
  }

  CgroupRoot root_;
};

TEST_F(Cgroup, WithoutGroupsTheMachineCounts) {
  EXPECT_EQ(AvailableCpus(root_), 64u);
  EXPECT_EQ(AvailableMemoryBytes(root_), uint64_t{1} << 40);
}

TEST_F(Cgroup, Version2) {
  Write("proc/self/cgroup", "0::/pod/server");
  Write("sys/fs/cgroup/pod/server/cpu.max", "250000 100000");
  Write("sys/fs/cgroup/pod/server/memory.max", "1073741824");
  EXPECT_EQ(AvailableCpus(root_), 3u);  // rounded up
  EXPECT_EQ(AvailableMemoryBytes(root_), uint64_t{1} << 30);
}

TEST_F(Cgroup, AParentsLimitHolds) {
  Write("proc/self/cgroup", "0::/pod/server");
  Write("sys/fs/cgroup/pod/server/cpu.max", "max 100000");
  Write("sys/fs/cgroup/pod/server/memory.max", "max");
  Write("sys/fs/cgroup/pod/cpu.max", "400000 100000");
  Write("sys/fs/cgroup/pod/memory.max", "4096");
  EXPECT_EQ(AvailableCpus(root_), 4u);
  EXPECT_EQ(AvailableMemoryBytes(root_), 4096u);
}

TEST_F(Cgroup, TheContainersOwnGroupIsTheMount) {
  // The host's path does not exist inside the container.
  Write("proc/self/cgroup", "0::/kubepods/burstable/pod1/c1");
  Write("sys/fs/cgroup/cpu.max", "200000 100000");
  Write("sys/fs/cgroup/memory.max", "8192");
  EXPECT_EQ(AvailableCpus(root_), 2u);
  EXPECT_EQ(AvailableMemoryBytes(root_), 8192u);
}

TEST_F(Cgroup, Version1) {
  Write("proc/self/cgroup",
        "5:memory:/docker/a\n4:cpu,cpuacct:/docker/a\n1:name=systemd:/");
  Write("sys/fs/cgroup/cpu,cpuacct/docker/a/cpu.cfs_quota_us", "50000");
  Write("sys/fs/cgroup/cpu,cpuacct/docker/a/cpu.cfs_period_us", "100000");
  Write("sys/fs/cgroup/memory/docker/a/memory.limit_in_bytes", "2147483648");
  EXPECT_EQ(AvailableCpus(root_), 1u);  // never less
  EXPECT_EQ(AvailableMemoryBytes(root_), uint64_t{2} << 30);
}

TEST_F(Cgroup, Version1WithoutLimits) {
  Write("proc/self/cgroup", "5:memory:/\n4:cpu:/");
  Write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1");
  Write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000");
  Write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");
  EXPECT_EQ(AvailableCpus(root_), 64u);
  EXPECT_EQ(AvailableMemoryBytes(root_), uint64_t{1} << 40);
}

TEST_F(Cgroup, NonsenseDoesNotLimit) {
  Write("proc/self/cgroup", "nonsense\n0::relative\n:::::");
  Write("sys/fs/cgroup/cpu.max", "0 0");
  Write("sys/fs/cgroup/memory.max", "-5");
  EXPECT_EQ(AvailableCpus(root_), 64u);
  EXPECT_EQ(AvailableMemoryBytes(root_), uint64_t{1} << 40);
}

TEST(CgroupOfThisMachine, IsSensible) {
  EXPECT_GE(AvailableCpus(), 1u);
  EXPECT_GT(AvailableMemoryBytes(), uint64_t{1} << 20);
}

}  // namespace
}  // namespace millrace
