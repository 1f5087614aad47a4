// Files of Arrow's IPC formats for tests, written by Arrow itself.

#ifndef MILLRACE_TESTS_SERVER_STORAGE_ARROW_IPC_TESTING_H_
#define MILLRACE_TESTS_SERVER_STORAGE_ARROW_IPC_TESTING_H_

#include <arrow/api.h>
#include <arrow/util/compression.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace millrace::storage {

struct NamedArray {
  std::string name;
  std::shared_ptr<arrow::Array> array;
};

struct IpcOptions {
  bool stream = false;
  arrow::Compression::type codec = arrow::Compression::UNCOMPRESSED;
  int64_t batch_rows = 2;
  std::string features;  // of Hugging Face; empty: none
};

// The bytes of such a file.
std::string IpcBytes(const std::vector<NamedArray>& columns,
                     const IpcOptions& options = {});
void WriteIpc(const std::string& path, const std::vector<NamedArray>& columns,
              const IpcOptions& options = {});

// An array from JSON, as Arrow's own tests write it; strings are bytes, too.
std::shared_ptr<arrow::Array> Json(const std::shared_ptr<arrow::DataType>& type,
                                   const std::string& json);

// Struct of bytes and path, as Hugging Face datasets store images.
std::shared_ptr<arrow::DataType> ImageType();

// Photographs as Hugging Face datasets have them: image and label, a
// ClassLabel of `classes`.
struct Photograph {
  std::string bytes;
  int64_t label = 0;
};
void WritePhotographs(const std::string& path,
                      const std::vector<Photograph>& photographs,
                      const std::vector<std::string>& classes,
                      const IpcOptions& options = {});

inline constexpr char kCatDog[] =
    R"({"info": {"features": {"image": {"_type": "Image"}, )"
    R"("label": {"names": ["cat", "dog"], "_type": "ClassLabel"}}}})";

}  // namespace millrace::storage

#endif  // MILLRACE_TESTS_SERVER_STORAGE_ARROW_IPC_TESTING_H_
