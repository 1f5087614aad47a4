#include "common/sealed_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace millrace {
namespace {

TEST(SealedMemoryTest, AReaderSeesWhatItsMakerWritesLater) {
  UniqueFd file;
  auto memory = SealedMemory::Create(100'000, &file);
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ(memory->bytes(), SealedMemory::Rounded(100'000));
  auto view = SealedMemory::MapReadOnly(file.get(), 100'000);
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_EQ(view->data()[99'999], 0);
  memory->data()[99'999] = 7;
  EXPECT_EQ(view->data()[99'999], 7);
}

TEST(SealedMemoryTest, ItsSizeIsFixed) {
  UniqueFd file;
  auto memory = SealedMemory::Create(8192, &file);
  ASSERT_TRUE(memory.ok());
  EXPECT_NE(ftruncate(file.get(), 4096), 0);
  EXPECT_EQ(errno, EPERM);
  EXPECT_NE(ftruncate(file.get(), 16384), 0);
  EXPECT_EQ(errno, EPERM);
}

TEST(SealedMemoryTest, NobodyElseCanWrite) {
  UniqueFd file;
  auto memory = SealedMemory::Create(8192, &file);
  ASSERT_TRUE(memory.ok());
  EXPECT_EQ(
      mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0),
      MAP_FAILED);
  EXPECT_EQ(write(file.get(), "x", 1), -1);
  // Nor make the read-only mapping a writable one, or take the seals off.
  auto view = SealedMemory::MapReadOnly(file.get(), 8192);
  ASSERT_TRUE(view.ok());
  EXPECT_NE(mprotect(view->data(), view->bytes(), PROT_READ | PROT_WRITE), 0);
  EXPECT_NE(fcntl(file.get(), F_ADD_SEALS, F_SEAL_WRITE), 0);
}

TEST(SealedMemoryTest, TheViewOutlivesItsMaker) {
  UniqueFd file;
  SealedMemory view;
  {
    auto memory = SealedMemory::Create(4096, &file);
    ASSERT_TRUE(memory.ok());
    std::memset(memory->data(), 3, 4096);
    auto mapped = SealedMemory::MapReadOnly(file.get(), 4096);
    ASSERT_TRUE(mapped.ok());
    view = *std::move(mapped);
  }
  file.Reset();
  EXPECT_EQ(view.data()[4095], 3);
}

TEST(SealedMemoryTest, AFileThatCouldShrinkIsRefused) {
  UniqueFd plain(memfd_create("plain", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_TRUE(plain.ok());
  ASSERT_EQ(ftruncate(plain.get(), 8192), 0);
  EXPECT_TRUE(absl::IsInvalidArgument(
      SealedMemory::MapReadOnly(plain.get(), 8192).status()));
  ASSERT_EQ(fcntl(plain.get(), F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SEAL), 0);
  EXPECT_TRUE(absl::IsInvalidArgument(
      SealedMemory::MapReadOnly(plain.get(), 8192).status()));
  int pipe_fds[2];
  ASSERT_EQ(pipe(pipe_fds), 0);
  UniqueFd out(pipe_fds[0]), in(pipe_fds[1]);
  EXPECT_TRUE(absl::IsInvalidArgument(
      SealedMemory::MapReadOnly(out.get(), 8192).status()));
}

TEST(SealedMemoryTest, AnotherSizeThanItHasIsRefused) {
  UniqueFd file;
  auto memory = SealedMemory::Create(8192, &file);
  ASSERT_TRUE(memory.ok());
  for (const uint64_t bytes : {0, 4096, 8193, 1 << 20}) {
    EXPECT_TRUE(absl::IsInvalidArgument(
        SealedMemory::MapReadOnly(file.get(), bytes).status()))
        << bytes;
  }
}

}  // namespace
}  // namespace millrace
