#include "server/storage/unpack/snappy_decompressor.h"

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace millrace::storage {
namespace {

template <typename... What>
absl::Status Damaged(const What&... what) {
  return absl::DataLossError(
      absl::StrCat("the snappy stream is damaged: ", what...));
}

// The two low bits of a tag.
constexpr uint8_t kLiteral = 0;
constexpr uint8_t kCopy1 = 1;
constexpr uint8_t kCopy2 = 2;
// Lengths of literals from here on follow the tag.
constexpr uint32_t kLongLiteral = 60;

}  // namespace

absl::Status SnappyDecompressor::Take(uint8_t byte) {
  switch (state_) {
    case State::kLength:
      if (length_bits_ == 28 && byte > 0x0F) {
        return Damaged("its length does not fit into 32 bits");
      }
      length_ |= uint64_t{byte & 0x7FU} << length_bits_;
      length_bits_ += 7;
      if (byte < 0x80) state_ = length_ == 0 ? State::kEnd : State::kTag;
      return absl::OkStatus();
    case State::kTag:
      tag_ = byte;
      operand_ = 0;
      operand_taken_ = 0;
      switch (tag_ & 3) {
        case kLiteral: {
          const uint32_t stored = tag_ >> 2;
          operand_bytes_ =
              stored < kLongLiteral ? 0 : static_cast<int>(stored - 59);
          break;
        }
        case kCopy1:
          operand_bytes_ = 1;
          break;
        case kCopy2:
          operand_bytes_ = 2;
          break;
        default:
          operand_bytes_ = 4;
      }
      state_ = State::kOperand;
      return operand_bytes_ == 0 ? BeginElement() : absl::OkStatus();
    case State::kOperand:
      operand_ |= uint32_t{byte} << (8 * operand_taken_);
      return ++operand_taken_ == operand_bytes_ ? BeginElement()
                                                : absl::OkStatus();
    default:
      return absl::InternalError("no byte is taken here");
  }
}

absl::Status SnappyDecompressor::BeginElement() {
  switch (tag_ & 3) {
    case kLiteral:
      left_ =
          uint64_t{operand_bytes_ == 0 ? uint32_t{tag_} >> 2 : operand_} + 1;
      break;
    case kCopy1:
      left_ = 4 + ((tag_ >> 2) & 7);
      offset_ = (uint32_t{tag_} >> 5) << 8 | operand_;
      break;
    default:
      left_ = (tag_ >> 2) + 1;
      offset_ = operand_;
  }
  if (left_ > length_ - made_) {
    return Damaged("it has more than the ", length_, " bytes that it claims");
  }
  if ((tag_ & 3) == kLiteral) {
    state_ = State::kLiteral;
    return absl::OkStatus();
  }
  if (offset_ == 0 || offset_ > made_) {
    return Damaged("it copies bytes from before its beginning");
  }
  if (offset_ > kWindow) {
    return Damaged("it copies bytes from ", offset_, " bytes before, and ",
                   kWindow, " are supported");
  }
  state_ = State::kCopy;
  return absl::OkStatus();
}

void SnappyDecompressor::Put(uint8_t byte, absl::Span<uint8_t> output,
                             size_t* made) {
  output[(*made)++] = byte;
  window_[made_++ % kWindow] = byte;
  if (--left_ == 0) state_ = made_ == length_ ? State::kEnd : State::kTag;
}

absl::StatusOr<Decompressor::Step> SnappyDecompressor::Run(
    absl::Span<const uint8_t> input, absl::Span<uint8_t> output) {
  Step step;
  for (;;) {
    switch (state_) {
      case State::kEnd:
        step.ended = true;
        return step;
      case State::kLiteral:
        if (step.taken == input.size() || step.made == output.size()) {
          return step;
        }
        Put(input[step.taken++], output, &step.made);
        break;
      case State::kCopy:
        if (step.made == output.size()) return step;
        Put(window_[(made_ - offset_) % kWindow], output, &step.made);
        break;
      default:
        if (step.taken == input.size()) return step;
        MR_RETURN_IF_ERROR(Take(input[step.taken++]));
    }
  }
}

}  // namespace millrace::storage
