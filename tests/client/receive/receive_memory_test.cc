#include "client/receive/receive_memory.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace millrace::receive {
namespace {

uint64_t PageFaults() {
  rusage usage = {};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_minflt;
}

// As a read of the socket does it: pieces that are written once and freed
// together. Without the call each round takes a fault for every page.
TEST(ReceiveMemoryTest, MemoryThatIsFreedIsUsedAgainWithoutPageFaults) {
  constexpr size_t kPiece = 64 << 10;
  constexpr int kPieces = 32;
  constexpr int kRounds = 20;
  constexpr uint64_t kPages = kPieces * kPiece / 4096;
  AdaptMallocThresholds();
  std::vector<char*> pieces(kPieces);
  uint64_t before = 0;
  for (int round = 0; round <= kRounds; ++round) {
    if (round == 1) before = PageFaults();
    for (char*& piece : pieces) {
      piece = static_cast<char*>(std::malloc(kPiece));
      ASSERT_NE(piece, nullptr);
      std::memset(piece, round, kPiece);
    }
    for (char* piece : pieces) std::free(piece);
  }
  EXPECT_LT(PageFaults() - before, kRounds * kPages / 4);
}

}  // namespace
}  // namespace millrace::receive
