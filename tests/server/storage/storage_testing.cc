#include "tests/server/storage/storage_testing.h"

#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "common/logging.h"
#include "common/status_macros.h"
#include "server/storage/format_registry.h"

namespace millrace::storage {
namespace {

Field* AddField(DatasetInfo* info, absl::string_view name, FieldKind kind,
                DType dtype, std::vector<int64_t> shape = {}) {
  Field* field = info->mutable_schema()->add_fields();
  field->set_name(std::string(name));
  field->set_kind(kind);
  field->set_dtype(dtype);
  for (int64_t extent : shape) field->add_shape(extent);
  return field;
}

// Bytes that differ from sample to sample and are the same in every run.
std::string AnyBytes(uint64_t seed, size_t size) {
  std::string bytes(size, 0);
  uint64_t state = seed * 0x9E3779B97F4A7C15 + 1;
  for (char& c : bytes) {
    state = state * 6364136223846793005 + 1442695040888963407;
    c = static_cast<char>(state >> 56);
  }
  return bytes;
}

}  // namespace

TempFolder::TempFolder() {
  const char* root = getenv("TEST_TMPDIR");
  path_ = absl::StrCat(root != nullptr ? root : "/tmp", "/storage.XXXXXX");
  MR_CHECK(mkdtemp(path_.data()) != nullptr) << path_;
}

TempFolder::~TempFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string TempFolder::operator/(absl::string_view name) const {
  return absl::StrCat(path_, "/", name);
}

std::vector<std::string> TempFolder::Names() const {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(path_)) {
    names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  MR_CHECK(in.good()) << path;
  return {std::istreambuf_iterator<char>(in), {}};
}

void WriteFile(const std::string& path, absl::string_view bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), bytes.size());
  MR_CHECK(out.flush().good()) << path;
}

DatasetInfo ImageDataset(int64_t samples) {
  DatasetInfo info;
  info.set_samples(samples);
  AddField(&info, "image", FIELD_KIND_ENCODED_IMAGE, DTYPE_UNSPECIFIED);
  Field* label = AddField(&info, "label", FIELD_KIND_TENSOR, DTYPE_INT64);
  label->set_num_classes(3);
  for (const char* name : {"cat", "dog", "eel \"x\""}) {
    label->add_class_names(name);
  }
  info.set_train_preset("imagenet_train");
  info.set_eval_preset("imagenet_eval");
  return info;
}

Samples ImageSamples(int64_t samples) {
  Samples result;
  for (int64_t i = 0; i < samples; ++i) {
    // Some are larger than a page, some smaller, one is empty.
    const size_t size = i == 1 ? 0 : (i * 7919) % 9000;
    result.push_back({AnyBytes(i, size), Scalar<int64_t>(i % 3)});
  }
  return result;
}

DatasetInfo EveryKindDataset(int64_t samples) {
  DatasetInfo info;
  info.set_samples(samples);
  AddField(&info, "text", FIELD_KIND_RAGGED, DTYPE_UINT8);
  AddField(&info, "tokens", FIELD_KIND_RAGGED, DTYPE_INT64);
  AddField(&info, "image", FIELD_KIND_ENCODED_IMAGE, DTYPE_UNSPECIFIED);
  AddField(&info, "u8", FIELD_KIND_TENSOR, DTYPE_UINT8);
  AddField(&info, "flag", FIELD_KIND_TENSOR, DTYPE_BOOL);
  AddField(&info, "i32", FIELD_KIND_TENSOR, DTYPE_INT32);
  AddField(&info, "i64", FIELD_KIND_TENSOR, DTYPE_INT64);
  AddField(&info, "f16", FIELD_KIND_TENSOR, DTYPE_FLOAT16);
  AddField(&info, "f32", FIELD_KIND_TENSOR, DTYPE_FLOAT32);
  AddField(&info, "f64", FIELD_KIND_TENSOR, DTYPE_FLOAT64);
  AddField(&info, "raw", FIELD_KIND_TENSOR, DTYPE_UINT8, {4, 3, 1});
  AddField(&info, "mask", FIELD_KIND_TENSOR, DTYPE_BOOL, {9});
  AddField(&info, "vector", FIELD_KIND_TENSOR, DTYPE_FLOAT32, {5});
  AddField(&info, "class", FIELD_KIND_TENSOR, DTYPE_INT64)->set_num_classes(7);
  return info;
}

Samples EveryKindSamples(int64_t samples) {
  Samples result;
  for (int64_t i = 0; i < samples; ++i) {
    std::string mask;
    for (int j = 0; j < 9; ++j) mask.push_back((i + j) % 3 == 0);
    std::string vector;
    for (int j = 0; j < 5; ++j) vector += Scalar<float>(i * 0.5f - j);
    result.push_back({absl::StrCat("text ", i), AnyBytes(i, 8 * (i % 4)),
                      AnyBytes(i, i % 50), Scalar<uint8_t>(i),
                      Scalar<uint8_t>(i % 2), Scalar<int32_t>(-i),
                      Scalar<int64_t>(i << 40), Scalar<uint16_t>(0x3C00 + i),
                      Scalar<float>(i / 3.0f), Scalar<double>(i / 7.0),
                      AnyBytes(i + 1000, 12), mask, vector,
                      Scalar<int64_t>(i % 7)});
  }
  return result;
}

absl::StatusOr<DatasetInfo> Pack(absl::string_view uri, const DatasetInfo& info,
                                 const Samples& samples,
                                 const DatasetWriter::Options& options) {
  MR_ASSIGN_OR_RETURN(auto writer, DatasetWriter::Create(uri, info, options));
  for (size_t i = 0; i < samples.size(); ++i) {
    std::vector<absl::Span<const uint8_t>> fields;
    for (const std::string& field : samples[i]) {
      fields.push_back(
          {reinterpret_cast<const uint8_t*>(field.data()), field.size()});
    }
    MR_RETURN_IF_ERROR(writer->Append(fields, absl::StrCat("f/", i, ".jpg")));
  }
  return writer->Finish();
}

absl::StatusOr<Samples> ReadAll(const RecordSource& source) {
  MR_ASSIGN_OR_RETURN(auto reader, source.NewReader());
  Samples samples;
  for (int64_t i = 0; i < source.info().samples(); ++i) {
    MR_RETURN_IF_ERROR(reader->Read(i, [&](const EncodedSample& sample) {
      std::vector<std::string> fields;
      for (const auto& field : sample.fields) {
        fields.emplace_back(field.begin(), field.end());
      }
      samples.push_back(std::move(fields));
      return absl::OkStatus();
    }));
  }
  return samples;
}

std::vector<std::string> Schemes() {
  std::vector<std::string> schemes = {"lmdb"};
  if (FindFormat("parquet").ok()) schemes.push_back("parquet");
  return schemes;
}

}  // namespace millrace::storage
