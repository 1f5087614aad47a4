#include "common/program/progress_line.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <string>

namespace millrace::program {
namespace {

// What `use` writes to a file, as if the file were a terminal or not.
template <typename Use>
std::string Written(bool on_terminal, Use use) {
  std::FILE* const file = std::tmpfile();
  EXPECT_NE(file, nullptr);
  ProgressLine line(fileno(file), on_terminal);
  use(line);
  char bytes[1024];
  const ssize_t count = pread(fileno(file), bytes, sizeof(bytes), 0);
  std::fclose(file);
  return std::string(bytes, count < 0 ? 0 : static_cast<size_t>(count));
}

TEST(ProgressLineTest, RewritesALineOfATerminal) {
  EXPECT_EQ(Written(true,
                    [](ProgressLine& line) {
                      line.Show("1 of 20");
                      line.Show("2 of 20");
                      line.Clear();
                      line.Clear();
                    }),
            "\r1 of 20\033[K\r2 of 20\033[K\r\033[K");
  EXPECT_EQ(Written(true, [](ProgressLine& line) { line.Clear(); }), "");
}

TEST(ProgressLineTest, PrintsWholeLinesInItsPlace) {
  EXPECT_EQ(Written(true,
                    [](ProgressLine& line) {
                      line.Show("1 of 2");
                      line.Print("done\nall");
                      line.Clear();
                    }),
            "\r1 of 2\033[K\r\033[Kdone\nall\n");
}

TEST(ProgressLineTest, WritesALineEachTimeElsewhere) {
  EXPECT_EQ(Written(false,
                    [](ProgressLine& line) {
                      line.Show("1 of 2");
                      line.Print("done");
                      line.Clear();
                    }),
            "1 of 2\ndone\n");
}

TEST(ProgressLineTest, ALongTextDoesNotWrap) {
  const auto show = [](ProgressLine& line) {
    EXPECT_EQ(line.width(), 79u) << "a file has no size of a terminal";
    line.Show(std::string(200, 'x'));
  };
  EXPECT_EQ(Written(true, show), "\r" + std::string(79, 'x') + "\033[K");
  EXPECT_EQ(Written(false, show), std::string(200, 'x') + "\n");
}

TEST(ProgressLineTest, AFailedWriteIsIgnored) {
  const int full = open("/dev/full", O_WRONLY);
  ASSERT_GE(full, 0);
  ProgressLine line(full, true);
  line.Show("1 of 2");
  line.Clear();
  close(full);
}

}  // namespace
}  // namespace millrace::program
