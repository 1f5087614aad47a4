#include "client/cli/bench_progress.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

namespace millrace::cli {
namespace {

// What `use` writes to a file, as if the file were a terminal or not.
template <typename Use>
std::string Written(bool on_terminal, Use use) {
  std::FILE* const file = std::tmpfile();
  EXPECT_NE(file, nullptr);
  {
    BenchProgress progress(fileno(file), on_terminal);
    use(progress);
  }
  std::rewind(file);
  char bytes[1024];
  const size_t count = std::fread(bytes, 1, sizeof(bytes), file);
  std::fclose(file);
  return std::string(bytes, count);
}

void TwoRounds(BenchProgress& progress) {
  progress.Round(1, 2, "window=4");
  progress.Round(2, 2, "window=16");
}

TEST(BenchProgressTest, RewritesOneLineOfATerminalAndClearsIt) {
  EXPECT_EQ(Written(true, TwoRounds),
            "\rround 1 of 2: window=4\033[K\rround 2 of 2: window=16\033[K"
            "\r\033[K");
  EXPECT_EQ(Written(true,
                    [](BenchProgress& progress) {
                      progress.Round(1, 1, "a");
                      progress.Clear();
                      progress.Clear();
                    }),
            "\rround 1 of 1: a\033[K\r\033[K");
  EXPECT_EQ(Written(true, [](BenchProgress&) {}), "");
}

TEST(BenchProgressTest, ALongSettingDoesNotWrap) {
  const std::string line = Written(true, [](BenchProgress& progress) {
    progress.Round(1, 1, std::string(200, 'x'));
  });
  EXPECT_EQ(line.find("\033[K"), 1 + 79u) << line;
}

TEST(BenchProgressTest, WritesALineForEachRoundElsewhere) {
  EXPECT_EQ(Written(false, TwoRounds),
            "round 1 of 2: window=4\nround 2 of 2: window=16\n");
}

}  // namespace
}  // namespace millrace::cli
