#include "tests/server/storage/arrow/ipc_testing.h"

#include <arrow/io/memory.h>
#include <arrow/ipc/api.h>
#include <arrow/json/from_string.h>
#include <arrow/util/key_value_metadata.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/server/storage/storage_testing.h"

namespace millrace::storage {
namespace {

arrow::Result<std::string> Write(const std::vector<NamedArray>& columns,
                                 const IpcOptions& options) {
  arrow::FieldVector fields;
  arrow::ArrayVector arrays;
  for (const NamedArray& column : columns) {
    fields.push_back(arrow::field(column.name, column.array->type()));
    arrays.push_back(column.array);
  }
  auto schema = arrow::schema(fields);
  if (!options.features.empty()) {
    schema = schema->WithMetadata(
        arrow::key_value_metadata({"huggingface"}, {options.features}));
  }
  ARROW_ASSIGN_OR_RAISE(const auto sink,
                        arrow::io::BufferOutputStream::Create());
  arrow::ipc::IpcWriteOptions write = arrow::ipc::IpcWriteOptions::Defaults();
  if (options.codec != arrow::Compression::UNCOMPRESSED) {
    ARROW_ASSIGN_OR_RAISE(write.codec,
                          arrow::util::Codec::Create(options.codec));
  }
  std::shared_ptr<arrow::ipc::RecordBatchWriter> writer;
  if (options.stream) {
    ARROW_ASSIGN_OR_RAISE(
        writer, arrow::ipc::MakeStreamWriter(sink.get(), schema, write));
  } else {
    ARROW_ASSIGN_OR_RAISE(
        writer, arrow::ipc::MakeFileWriter(sink.get(), schema, write));
  }
  ARROW_RETURN_NOT_OK(writer->WriteTable(*arrow::Table::Make(schema, arrays),
                                         options.batch_rows));
  ARROW_RETURN_NOT_OK(writer->Close());
  ARROW_ASSIGN_OR_RAISE(const auto buffer, sink->Finish());
  return buffer->ToString();
}

}  // namespace

std::string IpcBytes(const std::vector<NamedArray>& columns,
                     const IpcOptions& options) {
  const auto bytes = Write(columns, options);
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  return bytes.ValueOr("");
}

void WriteIpc(const std::string& path, const std::vector<NamedArray>& columns,
              const IpcOptions& options) {
  WriteFile(path, IpcBytes(columns, options));
}

std::shared_ptr<arrow::Array> Json(const std::shared_ptr<arrow::DataType>& type,
                                   const std::string& json) {
  auto array = arrow::json::ArrayFromJSONString(type, json);
  EXPECT_TRUE(array.ok()) << array.status();
  return array.ok() ? *array : nullptr;
}

void WritePhotographs(const std::string& path,
                      const std::vector<Photograph>& photographs,
                      const std::vector<std::string>& classes,
                      const IpcOptions& options) {
  arrow::BinaryBuilder bytes;
  arrow::StringBuilder paths;
  arrow::Int64Builder labels;
  for (const Photograph& photograph : photographs) {
    EXPECT_TRUE(bytes.Append(photograph.bytes).ok());
    EXPECT_TRUE(paths.AppendNull().ok());
    EXPECT_TRUE(labels.Append(photograph.label).ok());
  }
  const auto images = *arrow::StructArray::Make(
      {*bytes.Finish(), *paths.Finish()},
      arrow::FieldVector{arrow::field("bytes", arrow::binary()),
                         arrow::field("path", arrow::utf8())});
  IpcOptions with_classes = options;
  with_classes.features = absl::StrCat(
      R"({"info": {"features": {"image": {"_type": "Image"}, )",
      R"("label": {"names": [")", absl::StrJoin(classes, R"(", ")"),
      R"("], "_type": "ClassLabel"}}}})");
  WriteIpc(path, {{"image", images}, {"label", *labels.Finish()}},
           with_classes);
}

std::shared_ptr<arrow::DataType> ImageType() {
  return arrow::struct_({arrow::field("bytes", arrow::binary()),
                         arrow::field("path", arrow::utf8())});
}

}  // namespace millrace::storage
