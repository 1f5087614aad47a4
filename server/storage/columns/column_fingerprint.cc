#include "server/storage/columns/column_fingerprint.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "common/logging.h"
#include "common/mutex.h"
#include "common/status_macros.h"
#include "common/thread.h"

namespace millrace::storage {
namespace {

// Number of pieces that are collected before they are read: few enough for
// little memory, and enough to occupy all threads.
constexpr size_t kMaxPieces = 1 << 14;
// After this time a log line explains why the server has not started yet.
constexpr std::chrono::seconds kLongTime{5};

// Sums the hashes of pieces of files. Add() is called in the order of the
// pieces. The sum does not depend on which thread reads a piece, or when.
class PieceHasher {
 public:
  explicit PieceHasher(int threads) : threads_(threads) {}

  // Adds bytes [begin, begin + bytes), which must be inside the file.
  absl::Status Add(const HashedFile& file, int64_t begin, int64_t bytes) {
    bytes_ += bytes;
    for (int64_t at = 0; at < bytes; at += kFingerprintPieceBytes) {
      pieces_.push_back(
          {.file = &file,
           .begin = begin + at,
           .bytes = std::min(kFingerprintPieceBytes, bytes - at)});
    }
    return pieces_.size() < kMaxPieces ? absl::OkStatus() : Flush();
  }

  // Reads and hashes the added pieces.
  absl::Status Flush() {
    std::atomic<size_t> next{0};
    Mutex mu;
    absl::Status failed;
    const auto work = [&] {
      std::vector<uint8_t> buffer(kFingerprintPieceBytes);
      ContentSum sum;
      absl::Status status;
      for (size_t i = next++; i < pieces_.size() && status.ok(); i = next++) {
        status = Hash(first_ + static_cast<int64_t>(i), pieces_[i],
                      absl::MakeSpan(buffer), &sum);
      }
      if (!status.ok()) next = pieces_.size();
      MutexLock lock(mu);
      failed.Update(status);
      sum_.Add(sum.value());
    };
    {
      std::vector<NamedThread> others;
      const size_t threads = std::min<size_t>(threads_, pieces_.size());
      for (size_t i = 1; i < threads; ++i) others.emplace_back("mr-hash", work);
      work();
    }
    first_ += static_cast<int64_t>(pieces_.size());
    pieces_.clear();
    return failed;
  }

  Hash128 sum() const { return sum_.value(); }
  int64_t bytes() const { return bytes_; }

 private:
  struct Piece {
    const HashedFile* file;
    int64_t begin;
    int64_t bytes;
  };

  static absl::Status Hash(int64_t number, const Piece& piece,
                           absl::Span<uint8_t> buffer, ContentSum* sum) {
    const absl::Span<uint8_t> bytes = buffer.first(piece.bytes);
    MR_ASSIGN_OR_RETURN(const uint64_t got,
                        piece.file->read(piece.begin, bytes));
    // The file has become shorter since it was opened.
    if (got < bytes.size()) {
      MR_RETURN_IF_ERROR(piece.file->check());
      return absl::UnavailableError(
          absl::StrCat(piece.file->path, " could not be read at byte ",
                       piece.begin + static_cast<int64_t>(got)));
    }
    const absl::Span<const uint8_t> field = bytes;
    sum->Add(number, {&field, 1});
    return absl::OkStatus();
  }

  const int threads_;
  std::vector<Piece> pieces_;
  int64_t first_ = 0;  // number of pieces_[0]
  int64_t bytes_ = 0;
  ContentSum sum_;
};

// Chooses the columns that are read completely.
std::vector<bool> WholeColumns(const std::vector<int64_t>& bytes,
                               int64_t whole_bytes) {
  std::vector<size_t> order(bytes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return bytes[a] < bytes[b]; });
  std::vector<bool> whole(bytes.size());
  int64_t left = whole_bytes;
  for (const size_t column : order) {
    if (bytes[column] > left) break;
    left -= bytes[column];
    whole[column] = true;
  }
  return whole;
}

}  // namespace

absl::StatusOr<Hash128> HashColumns(absl::Span<const HashedFile> files,
                                    size_t columns, int64_t whole_bytes,
                                    int threads) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<int64_t> bytes(columns);
  for (const HashedFile& file : files) {
    for (int64_t group = 0; group < file.groups; ++group) {
      for (size_t i = 0; i < columns; ++i) {
        MR_ASSIGN_OR_RETURN(const ColumnBytes place, file.place(group, i));
        bytes[i] += place.bytes;
      }
    }
  }
  const std::vector<bool> whole = WholeColumns(bytes, whole_bytes);
  PieceHasher hasher(threads);
  for (const HashedFile& file : files) {
    for (int64_t group = 0; group < file.groups; ++group) {
      for (size_t i = 0; i < columns; ++i) {
        MR_ASSIGN_OR_RETURN(const ColumnBytes place, file.place(group, i));
        const auto [begin, size] = place;
        if (whole[i] || size <= 2 * kFingerprintEndBytes) {
          MR_RETURN_IF_ERROR(hasher.Add(file, begin, size));
          continue;
        }
        MR_RETURN_IF_ERROR(hasher.Add(file, begin, kFingerprintEndBytes));
        MR_RETURN_IF_ERROR(hasher.Add(file, begin + size - kFingerprintEndBytes,
                                      kFingerprintEndBytes));
      }
    }
  }
  MR_RETURN_IF_ERROR(hasher.Flush());
  const auto took = std::chrono::steady_clock::now() - start;
  if (took > kLongTime) {
    MR_LOG(INFO)
        << files.front().path << ": reading " << (hasher.bytes() >> 20)
        << " MiB of " << files.size()
        << " files for the dataset's fingerprint took "
        << std::chrono::duration_cast<std::chrono::seconds>(took).count()
        << " s";
  }
  return hasher.sum();
}

}  // namespace millrace::storage
