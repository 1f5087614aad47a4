#include "trainer/weights/safetensors_header.h"

#include <limits>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "common/utf8.h"

namespace millrace::weights {
namespace {

void AppendUtf8(uint32_t code, std::string& out) {
  if (code < 0x80) {
    out.push_back(static_cast<char>(code));
  } else if (code < 0x800) {
    out.push_back(static_cast<char>(0xC0 | (code >> 6)));
    out.push_back(static_cast<char>(0x80 | (code & 0x3F)));
  } else if (code < 0x10000) {
    out.push_back(static_cast<char>(0xE0 | (code >> 12)));
    out.push_back(static_cast<char>(0x80 | ((code >> 6) & 0x3F)));
    out.push_back(static_cast<char>(0x80 | (code & 0x3F)));
  } else {
    out.push_back(static_cast<char>(0xF0 | (code >> 18)));
    out.push_back(static_cast<char>(0x80 | ((code >> 12) & 0x3F)));
    out.push_back(static_cast<char>(0x80 | ((code >> 6) & 0x3F)));
    out.push_back(static_cast<char>(0x80 | (code & 0x3F)));
  }
}

class Parser {
 public:
  explicit Parser(absl::string_view text) : text_(text) {}

  absl::StatusOr<SafetensorsHeader> Parse() {
    SafetensorsHeader header;
    absl::flat_hash_set<std::string> names;
    MR_RETURN_IF_ERROR(Object([&](std::string name) -> absl::Status {
      if (!names.insert(name).second) {
        return Bad(absl::StrCat("the name \"", name, "\" comes twice"));
      }
      if (name == "__metadata__") return Metadata(header);
      SafetensorsEntry entry;
      entry.name = std::move(name);
      MR_RETURN_IF_ERROR(Entry(entry));
      header.entries.push_back(std::move(entry));
      return absl::OkStatus();
    }));
    SkipSpace();
    if (at_ != text_.size()) return Bad("data follows its end");
    return header;
  }

 private:
  absl::Status Bad(absl::string_view what) const {
    return absl::DataLossError(
        absl::StrCat("in the header, at byte ", at_, ": ", what));
  }

  void SkipSpace() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' ||
                                  text_[at_] == '\n' || text_[at_] == '\r')) {
      ++at_;
    }
  }

  // Consumes the character after white space if it is `c`.
  bool Take(char c) {
    SkipSpace();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  absl::Status Expect(char c) {
    if (Take(c)) return absl::OkStatus();
    return Bad(absl::StrCat("no '", std::string(1, c), "'"));
  }

  // `member` parses the value of the name.
  template <typename Member>
  absl::Status Object(Member member) {
    MR_RETURN_IF_ERROR(Expect('{'));
    if (Take('}')) return absl::OkStatus();
    do {
      MR_ASSIGN_OR_RETURN(std::string name, String());
      MR_RETURN_IF_ERROR(Expect(':'));
      MR_RETURN_IF_ERROR(member(std::move(name)));
    } while (Take(','));
    return Expect('}');
  }

  absl::Status Metadata(SafetensorsHeader& header) {
    return Object([&](const std::string& name) -> absl::Status {
      MR_ASSIGN_OR_RETURN(std::string value, String());
      if (name == kDataDigestName) header.data_digest = std::move(value);
      return absl::OkStatus();
    });
  }

  absl::Status Entry(SafetensorsEntry& entry) {
    bool dtype = false, shape = false, offsets = false;
    MR_RETURN_IF_ERROR(Object([&](const std::string& name) -> absl::Status {
      if (name == "dtype" && !std::exchange(dtype, true)) {
        MR_ASSIGN_OR_RETURN(entry.dtype, String());
        return absl::OkStatus();
      }
      if (name == "shape" && !std::exchange(shape, true)) {
        return Numbers(entry.shape);
      }
      if (name == "data_offsets" && !std::exchange(offsets, true)) {
        std::vector<uint64_t> both;
        MR_RETURN_IF_ERROR(Numbers(both));
        if (both.size() != 2) return Bad("data_offsets are not two numbers");
        entry.begin = both[0];
        entry.end = both[1];
        return absl::OkStatus();
      }
      return Bad(absl::StrCat("\"", name, "\" is not expected here"));
    }));
    if (dtype && shape && offsets) return absl::OkStatus();
    return Bad(absl::StrCat("the tensor \"", entry.name,
                            "\" has no dtype, shape or data_offsets"));
  }

  absl::Status Numbers(std::vector<uint64_t>& numbers) {
    MR_RETURN_IF_ERROR(Expect('['));
    if (Take(']')) return absl::OkStatus();
    do {
      MR_ASSIGN_OR_RETURN(const uint64_t number, Number());
      numbers.push_back(number);
    } while (Take(','));
    return Expect(']');
  }

  absl::StatusOr<uint64_t> Number() {
    SkipSpace();
    const size_t start = at_;
    uint64_t value = 0;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') {
      const auto digit = static_cast<uint64_t>(text_[at_] - '0');
      if (value > (std::numeric_limits<uint64_t>::max() - digit) / 10) {
        return Bad("the number has more than 64 bits");
      }
      value = 10 * value + digit;
      ++at_;
    }
    if (at_ == start) return Bad("expected a whole number of 0 or more");
    if (text_[start] == '0' && at_ > start + 1) {
      return Bad("a number begins with 0");
    }
    return value;
  }

  absl::StatusOr<uint32_t> Hex4() {
    if (text_.size() - at_ < 4) return Bad("the text ends in a \\u");
    uint32_t value = 0;
    for (int i = 0; i < 4; ++i) {
      const char c = text_[at_++];
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) return Bad("\\u without four hexadecimal digits");
      value = 16 * value + static_cast<uint32_t>(digit);
    }
    return value;
  }

  absl::StatusOr<std::string> String() {
    MR_RETURN_IF_ERROR(Expect('"'));
    std::string out;
    while (true) {
      if (at_ >= text_.size()) return Bad("a text does not end");
      const char c = text_[at_++];
      if (c == '"') break;
      if (static_cast<unsigned char>(c) < 0x20) {
        return Bad("a control character in a text");
      }
      if (c != '\\') {
        out.push_back(c);
        continue;
      }
      MR_RETURN_IF_ERROR(Escape(out));
    }
    if (!IsUtf8(out)) return Bad("a text is not UTF-8");
    return out;
  }

  absl::Status Escape(std::string& out) {
    if (at_ >= text_.size()) return Bad("a text does not end");
    const char c = text_[at_++];
    constexpr absl::string_view kNames = "\"\\/bfnrt";
    constexpr absl::string_view kMeant = "\"\\/\b\f\n\r\t";
    if (const size_t i = kNames.find(c); i != absl::string_view::npos) {
      out.push_back(kMeant[i]);
      return absl::OkStatus();
    }
    if (c != 'u') return Bad("an unknown escape after a backslash");
    MR_ASSIGN_OR_RETURN(uint32_t code, Hex4());
    if (code >= 0xDC00 && code < 0xE000) return Bad("a lone surrogate");
    if (code >= 0xD800 && code < 0xDC00) {
      if (text_.size() - at_ < 2 || text_[at_] != '\\' ||
          text_[at_ + 1] != 'u') {
        return Bad("a lone surrogate");
      }
      at_ += 2;
      MR_ASSIGN_OR_RETURN(const uint32_t low, Hex4());
      if (low < 0xDC00 || low >= 0xE000) return Bad("a lone surrogate");
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    AppendUtf8(code, out);
    return absl::OkStatus();
  }

  const absl::string_view text_;
  size_t at_ = 0;
};

}  // namespace

absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(
    absl::string_view json) {
  return Parser(json).Parse();
}

}  // namespace millrace::weights
