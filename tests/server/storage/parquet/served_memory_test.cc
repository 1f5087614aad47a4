// The memory of a real server over Parquet files, as the kernel counts it. Two
// times memory escaped the budget by ways that the counters of unit tests do
// not see: copies of samples that were read ahead, and what malloc keeps.

#include <arrow/api.h>
#include <arrow/io/file.h>
#include <gtest/gtest.h>
#include <parquet/arrow/writer.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "proto/spec_text.h"
#include "tests/testing/images/png_writer.h"
#include "tests/testing/process_memory.h"
#include "tests/testing/rpc_client.h"
#include "tests/testing/server_process.h"
#include "tests/testing/subprocess.h"

namespace millrace::testing {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kBudget = 128 * kMiB;
// Code, stacks, gRPC's buffers of two calls and what malloc keeps: what the
// budget is not for. An idle server takes 5 MiB; one that serves labels in
// small batches, which need next to nothing of the budget, 8 MiB.
constexpr uint64_t kBesideBudget = 24 * kMiB;

std::shared_ptr<arrow::Array> Labels(int64_t rows) {
  arrow::Int64Builder labels;
  for (int64_t row = 0; row < rows; ++row) {
    EXPECT_TRUE(labels.Append(row).ok());
  }
  return *labels.Finish();
}

// `values`, in turn, as a dictionary.
template <typename Builder>
std::shared_ptr<arrow::Array> Repeated(const std::vector<std::string>& values,
                                       int64_t rows) {
  Builder builder;
  for (const std::string& value : values) {
    EXPECT_TRUE(builder.Append(value).ok());
  }
  arrow::Int32Builder indices;
  for (int64_t row = 0; row < rows; ++row) {
    EXPECT_TRUE(indices.Append(static_cast<int32_t>(row % values.size())).ok());
  }
  return *arrow::DictionaryArray::FromArrays(*indices.Finish(),
                                             *builder.Finish());
}

class ServedMemoryTest : public ::testing::Test {
 protected:
  // With a schema of plain columns, if `store_schema` is false.
  void Write(const arrow::FieldVector& fields,
             const arrow::ArrayVector& columns, int64_t group_rows,
             bool store_schema = true) {
    const auto file = *arrow::io::FileOutputStream::Open(path_);
    parquet::ArrowWriterProperties::Builder arrow_properties;
    if (store_schema) arrow_properties.store_schema();
    ASSERT_TRUE(parquet::arrow::WriteTable(
                    *arrow::Table::Make(arrow::schema(fields), columns),
                    arrow::default_memory_pool(), file, group_rows,
                    parquet::WriterProperties::Builder()
                        .dictionary_pagesize_limit(64 * kMiB)
                        ->compression(arrow::Compression::SNAPPY)
                        ->build(),
                    arrow_properties.build())
                    .ok());
    ASSERT_TRUE(file->Close().ok());
  }

  // Two clients receive epochs of `pipeline` for `seconds`, at least a batch
  // each; a larger part of the server's memory than the budget and what is
  // beside it fails the test.
  void ServeWithin(const std::string& pipeline, int seconds) {
    auto server = ServerProcess::Start(
        {absl::StrCat("--dataset=d=parquet:", path_),
         absl::StrCat("--memory_budget=", kBudget / kMiB, "MiB")});
    ASSERT_TRUE(server.ok()) << server.status();
    const pid_t pid = (*server)->process().pid();
    const uint64_t idle = AnonymousBytes(pid);
    const absl::Time end = absl::Now() + absl::Seconds(seconds);
    std::atomic<int> running{2};
    std::atomic<int64_t> rows{0};
    std::vector<std::thread> clients;
    for (int client = 0; client < 2; ++client) {
      clients.emplace_back([&, client] {
        const absl::Status received =
            Receive(**server, pipeline, client, end, &rows);
        EXPECT_TRUE(received.ok()) << received;
        --running;
      });
    }
    uint64_t peak = 0;
    while (running > 0) {
      peak = std::max(peak, AnonymousBytes(pid));
      absl::SleepFor(absl::Milliseconds(2));
    }
    for (std::thread& client : clients) client.join();
    std::printf("%d rows; idle %d MiB, at most %d MiB\n",
                static_cast<int>(rows), static_cast<int>(idle / kMiB),
                static_cast<int>(peak / kMiB));
    EXPECT_LE(peak, kBudget + kBesideBudget);
    EXPECT_EQ((*server)->Stop(), 0);
  }

  // A loader that asks for whole epochs and reads as fast as they come.
  static absl::Status Receive(const ServerProcess& server,
                              const std::string& pipeline, int seed,
                              absl::Time end, std::atomic<int64_t>* rows) {
    RpcClient client(server.address());
    auto spec = ParseSpecText(absl::StrCat(pipeline, " seed: ", seed), "test");
    if (!spec.ok()) return spec.status();
    const auto plan = client.Open(*spec, 1);
    if (!plan.ok()) return plan.status();
    bool any = false;
    for (uint64_t epoch = 0; !any || absl::Now() < end; ++epoch) {
      GetBatchesRequest request =
          RpcClient::Request(*plan, 0, plan->steps_per_epoch());
      request.set_epoch(epoch);
      grpc::ClientContext context;
      const auto reader = client.stub().GetBatches(&context, request);
      Frame frame;
      while (reader->Read(&frame)) {
        if (!frame.has_header()) continue;
        any = true;
        *rows += static_cast<int64_t>(frame.header().rows());
        if (absl::Now() > end) context.TryCancel();
      }
      const grpc::Status status = reader->Finish();
      if (!status.ok() && status.error_code() != grpc::StatusCode::CANCELLED) {
        return absl::InternalError(status.error_message());
      }
    }
    return absl::OkStatus();
  }

  const std::string path_ = NewTempDir() + "/d.parquet";
};

// 1.1 MB in the footer, 164 MB once decoded: a server took 3.2 GB.
TEST_F(ServedMemoryTest, PaddedTokensInLargeRowGroups) {
  constexpr int64_t kRows = 20'000;
  constexpr int32_t kTokens = 1024;
  arrow::Int64Builder tokens;
  ASSERT_TRUE(tokens.Reserve(kRows * kTokens).ok());
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t i = 0; i < kTokens; ++i) {
      tokens.UnsafeAppend(i < row % 7 ? row * 31 + i + 1 : 0);
    }
  }
  const std::shared_ptr<arrow::Array> lists =
      *arrow::FixedSizeListArray::FromArrays(*tokens.Finish(), kTokens);
  ASSERT_NO_FATAL_FAILURE(
      Write({arrow::field("tokens", lists->type())}, {lists}, kRows));
  ServeWithin("sources { dataset: 'd' } batch_size: 64", 4);
}

// A file of 1 MB, of which one column is used: a server took 5.5 GB.
TEST_F(ServedMemoryTest, LargeStringsThatAreNoOutput) {
  constexpr int64_t kRows = 10'000;
  std::vector<std::string> strings;
  for (int i = 0; i < 10; ++i) {
    strings.emplace_back(540'000, static_cast<char>('a' + i));
  }
  ASSERT_NO_FATAL_FAILURE(Write(
      {arrow::field("text", arrow::dictionary(arrow::int32(), arrow::utf8())),
       arrow::field("label", arrow::int64())},
      {Repeated<arrow::StringBuilder>(strings, kRows), Labels(kRows)}, kRows,
      /*store_schema=*/false));
  ASSERT_LT(std::filesystem::file_size(path_), 2 * kMiB);
  ServeWithin(
      "sources { dataset: 'd' } batch_size: 64 outputs { field: 'label' }", 3);
}

// 64 samples of 4 MB were held in each task of those that read ahead: 378 MiB.
TEST_F(ServedMemoryTest, OneImageOf4MegabytesInADictionary) {
  constexpr int64_t kRows = 400;
  constexpr int kSide = 1150;
  PngKind kind;
  kind.width = kSide;
  kind.height = kSide;
  std::vector<uint8_t> noise(kSide * kSide * 3);
  uint32_t state = 1;
  for (uint8_t& byte : noise) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<uint8_t>(state >> 24);
  }
  const std::vector<uint8_t> png = WritePng(kind, noise);
  ASSERT_GT(png.size(), 3'900'000);
  ASSERT_NO_FATAL_FAILURE(
      Write({arrow::field("image",
                          arrow::dictionary(arrow::int32(), arrow::binary())),
             arrow::field("label", arrow::int64())},
            {Repeated<arrow::BinaryBuilder>(
                 {std::string(png.begin(), png.end())}, kRows),
             Labels(kRows)},
            kRows, /*store_schema=*/false));
  ASSERT_LT(std::filesystem::file_size(path_), 5 * kMiB);
  ServeWithin(
      "sources { dataset: 'd' } batch_size: 64 "
      "transforms { decode_image {} } "
      "transforms { resize { height: 64 width: 64 } }",
      6);
}

}  // namespace
}  // namespace millrace::testing
