// TFRecord files and tf.train.Examples in memory, for the tests.
//
//   OwnedWindow window(RecordFile({ExampleBytes({{"label", Ints({3})}})}));

#ifndef MILLRACE_TESTS_SERVER_STORAGE_TFRECORD_TFRECORD_TESTING_H_
#define MILLRACE_TESTS_SERVER_STORAGE_TFRECORD_TFRECORD_TESTING_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/storage/extents/object_window.h"
#include "server/storage/tfrecord/crc32c.h"
#include "tests/server/storage/tfrecord/example.pb.h"

namespace millrace::storage {

inline absl::Span<const uint8_t> AsBytes(absl::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

inline std::string AsText(absl::Span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// An object in memory; keeps what At() gave in memory of its own, so that a
// sanitizer sees a use of it after the next call.
class OwnedWindow : public ObjectWindow {
 public:
  explicit OwnedWindow(std::string bytes) : bytes_(std::move(bytes)) {}

  uint64_t size() const override { return bytes_.size(); }

  absl::StatusOr<absl::Span<const uint8_t>> At(uint64_t offset,
                                               uint64_t bytes) override {
    if (offset > bytes_.size() || bytes > bytes_.size() - offset) {
      return absl::DataLossError(absl::StrCat("byte ", offset, ": the object ",
                                              "has ", bytes_.size(), " bytes"));
    }
    asked_ += bytes;
    given_.assign(bytes_.data() + offset, bytes_.data() + offset + bytes);
    given_.shrink_to_fit();
    return absl::MakeConstSpan(given_);
  }

  // Bytes that all calls of At() asked for.
  uint64_t asked() const { return asked_; }

 private:
  const std::string bytes_;
  std::vector<uint8_t> given_;
  uint64_t asked_ = 0;
};

template <typename T>
std::string NumberText(T value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
}

// Payload and checksum: an extent of a TFRecord file.
inline std::string ExtentOf(absl::string_view payload) {
  return absl::StrCat(payload, NumberText(MaskedCrc32c(AsBytes(payload))));
}

inline std::string HeaderOf(uint64_t length) {
  const std::string text = NumberText(length);
  return absl::StrCat(text, NumberText(MaskedCrc32c(AsBytes(text))));
}

inline std::string RecordFile(const std::vector<std::string>& payloads) {
  std::string file;
  for (const std::string& payload : payloads) {
    absl::StrAppend(&file, HeaderOf(payload.size()), ExtentOf(payload));
  }
  return file;
}

inline reference::Feature Ints(const std::vector<int64_t>& values) {
  reference::Feature feature;
  feature.mutable_int64_list();
  for (int64_t value : values) feature.mutable_int64_list()->add_value(value);
  return feature;
}

inline reference::Feature Floats(const std::vector<float>& values) {
  reference::Feature feature;
  feature.mutable_float_list();
  for (float value : values) feature.mutable_float_list()->add_value(value);
  return feature;
}

inline reference::Feature Strings(const std::vector<std::string>& values) {
  reference::Feature feature;
  feature.mutable_bytes_list();
  for (const std::string& value : values) {
    feature.mutable_bytes_list()->add_value(value);
  }
  return feature;
}

using NamedFeatures = std::vector<std::pair<std::string, reference::Feature>>;

inline std::string ExampleBytes(const NamedFeatures& features) {
  reference::Example example;
  for (const auto& [name, feature] : features) {
    (*example.mutable_features()->mutable_feature())[name] = feature;
  }
  return example.SerializeAsString();
}

// What begins like an image.
inline constexpr absl::string_view kJpegStart = "\xFF\xD8\xFF\xE0 a JPEG";

}  // namespace millrace::storage

#endif  // MILLRACE_TESTS_SERVER_STORAGE_TFRECORD_TFRECORD_TESTING_H_
