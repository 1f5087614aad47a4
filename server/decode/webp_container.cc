#include "server/decode/webp_container.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/status_macros.h"

namespace millrace::decode {
namespace {

using Bytes = absl::Span<const uint8_t>;

constexpr size_t kChunkHeader = 8;   // tag and size
constexpr size_t kFileHeader = 12;   // "RIFF", size, "WEBP"
constexpr size_t kExtended = 10;     // VP8X
constexpr size_t kFrameHeader = 16;  // ANMF, before its chunks

uint32_t Read24(const uint8_t* p) { return p[0] | p[1] << 8 | p[2] << 16; }

uint32_t Read32(const uint8_t* p) {
  return Read24(p) | static_cast<uint32_t>(p[3]) << 24;
}

absl::string_view Text(const uint8_t* p, size_t n) {
  return {reinterpret_cast<const char*>(p), n};
}

absl::Status Damaged(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("the WebP is damaged: ", what));
}

// Iterates the chunks of a file or of a frame.
class Chunks {
 public:
  // `claimed`: the size according to the surrounding header.
  Chunks(Bytes bytes, uint64_t claimed)
      : left_(bytes.first(std::min<uint64_t>(bytes.size(), claimed))),
        cut_(bytes.size() < claimed) {}

  // False: there are no more chunks.
  absl::StatusOr<bool> Next() {
    if (left_.empty()) return false;
    if (left_.size() < kChunkHeader) {
      // The rest is a byte of padding, or too short for a picture.
      left_ = {};
      return false;
    }
    tag_ = Text(left_.data(), 4);
    const uint64_t size = Read32(left_.data() + 4);
    left_.remove_prefix(kChunkHeader);
    if (size > left_.size()) {
      if (cut_) {
        return absl::DataLossError(absl::StrCat(
            "the WebP is truncated: its chunk \"", absl::CHexEscape(tag_),
            "\" has ", left_.size(), " of ", size, " bytes"));
      }
      return Damaged(absl::StrCat("its chunk \"", absl::CHexEscape(tag_),
                                  "\" claims ", size, " bytes of ",
                                  left_.size()));
    }
    data_ = left_.first(size);
    left_.remove_prefix(std::min<size_t>(left_.size(), size + (size & 1)));
    return true;
  }

  absl::string_view tag() const { return tag_; }
  Bytes data() const { return data_; }
  // Whether bytes are missing that the header claims.
  bool cut() const { return cut_; }

 private:
  Bytes left_;
  const bool cut_;
  absl::string_view tag_;
  Bytes data_;
};

// Takes the chunk if it is a picture. The check of its first bytes ensures that
// libwebp sees the same kind of picture.
absl::StatusOr<bool> TakePicture(const Chunks& chunk, WebpContainer& file) {
  const Bytes data = chunk.data();
  if (chunk.tag() == "VP8 ") {
    if (data.size() < 10 || Text(&data[3], 3) != "\x9D\x01\x2A") {
      return Damaged("its VP8 picture has no valid header");
    }
    file.lossless = false;
  } else if (chunk.tag() == "VP8L") {
    if (data.size() < 5 || data[0] != 0x2F) {
      return Damaged("its VP8L picture has no valid header");
    }
    file.lossless = true;
  } else {
    return false;
  }
  file.picture = data;
  return true;
}

absl::Status ReadFrame(Bytes frame, WebpContainer& file) {
  if (frame.size() < kFrameHeader) return Damaged("its first frame is empty");
  file.animated = true;
  file.frame_left = int64_t{2} * Read24(&frame[0]);
  file.frame_top = int64_t{2} * Read24(&frame[3]);
  file.frame_width = int64_t{1} + Read24(&frame[6]);
  file.frame_height = int64_t{1} + Read24(&frame[9]);
  frame.remove_prefix(kFrameHeader);
  Chunks chunks(frame, frame.size());
  while (true) {
    MR_ASSIGN_OR_RETURN(const bool more, chunks.Next());
    if (!more) return Damaged("its first frame contains no picture");
    MR_ASSIGN_OR_RETURN(const bool taken, TakePicture(chunks, file));
    if (taken) return absl::OkStatus();
  }
}

}  // namespace

absl::StatusOr<WebpContainer> ReadWebpContainer(Bytes bytes) {
  if (bytes.size() < kFileHeader || Text(&bytes[0], 4) != "RIFF" ||
      Text(&bytes[8], 4) != "WEBP") {
    return Damaged("it has no valid header");
  }
  // The size includes "WEBP" and all bytes after it.
  const uint64_t claimed = Read32(&bytes[4]);
  Chunks chunks(bytes.subspan(kFileHeader), claimed < 4 ? 0 : claimed - 4);
  WebpContainer file;
  bool found = false;
  while (true) {
    auto more = chunks.Next();
    // The picture is complete; missing bytes after it are not needed.
    if (!more.ok() && found) break;
    MR_RETURN_IF_ERROR(more.status());
    if (!*more) break;
    if (chunks.tag() == "VP8X" && !found && file.canvas_width == 0) {
      const Bytes data = chunks.data();
      if (data.size() < kExtended) return Damaged("its VP8X chunk is short");
      file.canvas_width = int64_t{1} + Read24(&data[4]);
      file.canvas_height = int64_t{1} + Read24(&data[7]);
    } else if (chunks.tag() == "ANMF" && !found) {
      MR_RETURN_IF_ERROR(ReadFrame(chunks.data(), file));
      found = true;
    } else if (chunks.tag() == "EXIF" && file.exif.empty()) {
      file.exif = chunks.data();
    } else if (chunks.tag() == "XMP " && file.xmp.empty()) {
      file.xmp = chunks.data();
    } else if (!found) {
      MR_ASSIGN_OR_RETURN(found, TakePicture(chunks, file));
    }
  }
  if (!found) {
    if (chunks.cut()) {
      return absl::DataLossError(absl::StrCat(
          "the WebP is truncated: it has ", bytes.size(), " of ", claimed + 8,
          " bytes, and the picture is not among them"));
    }
    return Damaged("it contains no picture");
  }
  if (file.animated && file.canvas_width == 0) {
    return Damaged("it has frames and no canvas");
  }
  return file;
}

}  // namespace millrace::decode
