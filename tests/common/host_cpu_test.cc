#include "common/host_cpu.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

constexpr char kStat[] =
    "cpu  1000 20 300 9000 70 5 6 80 900 10\n"
    "cpu0 500 10 150 4500 35 2 3 40 450 5\n"
    "cpu1 500 10 150 4500 35 3 3 40 450 5\n"
    "intr 12345 0 0\n"
    "ctxt 678\n"
    "cpufreq 1\n";

TEST(HostCpuTest, AddsWhatProgramsTookAndCountsTheCpus) {
  const HostCpu host = ParseHostCpu(kStat, 100);
  EXPECT_EQ(host.cpus, 2u);
  // Neither idle, waiting for disks, stolen, nor guests, who are in user.
  EXPECT_DOUBLE_EQ(host.busy_seconds, 13.31);
}

TEST(HostCpuTest, OfAnotherTextNothingIsKnown) {
  for (const char* text : {"", "\n", "cpu\n", "cpu  1 2 3\n",
                           "cpu  a b c d e "
                           "f g\ncpu0 1\n",
                           "no such file"}) {
    const HostCpu host = ParseHostCpu(text, 100);
    EXPECT_EQ(host.cpus, 0u) << text;
    EXPECT_EQ(host.busy_seconds, 0) << text;
  }
}

TEST(HostCpuTest, WhatIsNotOursIsOthers) {
  const HostCpu before = {.busy_seconds = 100, .cpus = 2};
  const HostCpu after = {.busy_seconds = 118, .cpus = 2};
  EXPECT_DOUBLE_EQ(OtherCpuSeconds(before, after, 7.5), 10.5);
  EXPECT_EQ(OtherCpuSeconds(before, after, 18.02), 0) << "ticks";
}

TEST(HostCpuTest, ThisMachineSaysIt) {
  const HostCpu host = ReadHostCpu();
  EXPECT_GT(host.cpus, 0u);
  EXPECT_GT(host.busy_seconds, 0);
}

}  // namespace
}  // namespace millrace
