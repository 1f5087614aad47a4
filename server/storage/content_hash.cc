#include "server/storage/content_hash.h"

#include <xxhash.h>

#include <bit>
#include <memory>

#include "absl/strings/str_cat.h"

namespace millrace::storage {
namespace {

static_assert(std::endian::native == std::endian::little,
              "hashes are defined over little-endian numbers");

Hash128 FromXxh(XXH128_hash_t hash) { return {hash.low64, hash.high64}; }

// Appends numbers and texts in the canonical encoding: a number takes eight
// bytes, a text follows its length.
class Canonical {
 public:
  void Number(uint64_t value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void Text(absl::string_view text) {
    Number(text.size());
    bytes_.append(text.data(), text.size());
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

}  // namespace

std::string HashToHex(Hash128 hash) {
  return absl::StrCat(absl::Hex(hash.high, absl::kZeroPad16),
                      absl::Hex(hash.low, absl::kZeroPad16));
}

bool HashFromHex(absl::string_view text, Hash128* hash) {
  if (text.size() != 32) return false;
  uint64_t words[2] = {0, 0};
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    uint64_t digit;
    if (c >= '0' && c <= '9') {
      digit = c - '0';
    } else if (c >= 'a' && c <= 'f') {
      digit = c - 'a' + 10;
    } else {
      return false;
    }
    words[i / 16] = words[i / 16] << 4 | digit;
  }
  *hash = {.low = words[1], .high = words[0]};
  return true;
}

Hash128 HashBytes(absl::Span<const uint8_t> bytes) {
  return FromXxh(XXH3_128bits(bytes.data(), bytes.size()));
}

Hash128 HashSample(int64_t index,
                   absl::Span<const absl::Span<const uint8_t>> fields) {
  // Allocated on the heap for its 64-byte alignment, which AddressSanitizer's
  // detached stack frames do not keep. One for each thread, because a dataset
  // has many samples.
  struct Free {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  static thread_local const std::unique_ptr<XXH3_state_t, Free> owned(
      XXH3_createState());
  XXH3_state_t* const state = owned.get();
  XXH3_128bits_reset(state);
  const uint64_t place = static_cast<uint64_t>(index);
  XXH3_128bits_update(state, &place, sizeof(place));
  for (const absl::Span<const uint8_t> field : fields) {
    const uint64_t size = field.size();
    XXH3_128bits_update(state, &size, sizeof(size));
    XXH3_128bits_update(state, field.data(), field.size());
  }
  return FromXxh(XXH3_128bits_digest(state));
}

void ContentSum::Add(Hash128 hash) {
  sum_.low += hash.low;
  sum_.high += hash.high + (sum_.low < hash.low ? 1 : 0);
}

std::string DatasetFingerprint(int64_t samples, const Schema& schema,
                               Hash128 content) {
  Canonical text;
  text.Text("millrace dataset 1");
  text.Number(samples);
  text.Number(schema.fields_size());
  for (const Field& field : schema.fields()) {
    text.Text(field.name());
    text.Number(field.kind());
    text.Number(field.dtype());
    text.Number(field.shape_size());
    for (int64_t extent : field.shape()) text.Number(extent);
    text.Number(field.num_classes());
    text.Number(field.class_names_size());
    for (const std::string& name : field.class_names()) text.Text(name);
  }
  text.Number(content.low);
  text.Number(content.high);
  return HashToHex(
      FromXxh(XXH3_128bits(text.bytes().data(), text.bytes().size())));
}

}  // namespace millrace::storage
