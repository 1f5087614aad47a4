// ImageCheck decodes whole images on its own threads and lists images that do
// not decode. The first bytes do not show that a file is truncated; without the
// check the server would find it only when it serves the image. Pixels are
// computed at the smallest size of the decoder, which still reads every byte of
// the image.
//
// Belongs to one thread; owns its others. A few images a thread are held in
// memory.
//
//   ImageCheck check(AvailableCpus(), nullptr);
//   for (...) check.Add(i, [path] { return Read(path); });
//   for (const ImageCheck::Bad& bad : check.Finish()) Print(bad.status);

#ifndef MILLRACE_SERVER_DATA_TOOL_IMAGE_CHECK_H_
#define MILLRACE_SERVER_DATA_TOOL_IMAGE_CHECK_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/mutex.h"
#include "common/thread_pool.h"
#include "server/decode/image_decoder.h"
#include "server/operators/operators.h"

namespace millrace::data_tool {

// Decodes an image as ImageCheck does. The status of the decoder; names no
// file. Keeps little memory in `decoder`.
absl::Status DecodesWhole(absl::Span<const uint8_t> bytes,
                          const operators::Operators* operators,
                          decode::ImageDecoder& decoder);

class ImageCheck {
 public:
  // `threads` is at least 1. What a decoder of `operators` knows by its first
  // bytes is decoded by it; null: there are none, else they outlive the check.
  ImageCheck(uint32_t threads, const operators::Operators* operators);
  ImageCheck(const ImageCheck&) = delete;
  ImageCheck& operator=(const ImageCheck&) = delete;

  // The bytes of an image; called once, on any thread.
  using Fetch = std::function<absl::StatusOr<std::string>()>;

  // Checks an image that the caller calls `number`. Waits while all threads
  // are busy and as many images wait.
  void Add(int64_t number, Fetch fetch);

  struct Bad {
    int64_t number;
    absl::Status status;  // of the fetch or the decoder; names no file
  };
  // Waits for all; those that do not decode, by number. Nothing comes after it.
  std::vector<Bad> Finish();

 private:
  void Check(int64_t number, const Fetch& fetch);

  const operators::Operators* const operators_;
  Mutex mu_;
  std::vector<std::unique_ptr<decode::ImageDecoder>> idle_ MR_GUARDED_BY(mu_);
  std::vector<Bad> bad_ MR_GUARDED_BY(mu_);
  ThreadPool pool_;  // last: its threads use the others
};

}  // namespace millrace::data_tool

#endif  // MILLRACE_SERVER_DATA_TOOL_IMAGE_CHECK_H_
