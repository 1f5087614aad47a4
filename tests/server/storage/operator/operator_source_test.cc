#include "server/storage/operator/operator_source.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "proto/error_detail.h"
#include "server/storage/open.h"
#include "tests/testing/subprocess.h"

namespace millrace::storage {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::shared_ptr<const operators::Operators> Load(const std::string& path) {
  auto loaded = operators::Operators::Load({testing::ProgramPath(path)});
  EXPECT_TRUE(loaded.ok()) << loaded.status();
  return *std::move(loaded);
}

absl::StatusOr<std::unique_ptr<RecordSource>> Open(
    const std::string& uri,
    const std::shared_ptr<const operators::Operators>& operators) {
  return OpenRecordSource(uri, {.operators = operators.get()});
}

class OperatorSourceTest : public ::testing::Test {
 protected:
  absl::Status Read(const RecordSource& source, int64_t index,
                    std::vector<std::string>* fields) {
    auto reader = source.NewReader();
    EXPECT_TRUE(reader.ok()) << reader.status();
    return (*reader)->Read(index, [&](const EncodedSample& sample) {
      EXPECT_EQ(sample.row, index);
      fields->clear();
      for (absl::Span<const uint8_t> field : sample.fields) {
        fields->emplace_back(field.begin(), field.end());
      }
      return absl::OkStatus();
    });
  }

  const std::shared_ptr<const operators::Operators> good_ =
      Load("tests/testing/operators/good.so");
};

TEST_F(OperatorSourceTest, IsADatasetLikeAnyOther) {
  const auto source = Open("count:5", good_);
  ASSERT_TRUE(source.ok()) << source.status();
  const DatasetInfo& info = (*source)->info();
  EXPECT_EQ(info.format(), "count");
  EXPECT_EQ(info.samples(), 5);
  EXPECT_EQ(info.reader().name(), "count");
  EXPECT_EQ(info.reader().version(), "1.0");
  EXPECT_EQ(info.reader().library_hash(),
            good_->FindSource("count")->ref.library_hash());
  ASSERT_EQ(info.schema().fields_size(), 2);
  EXPECT_THAT(info.schema().fields(0).shape(), ElementsAre(2));
  EXPECT_EQ(info.schema().fields(1).num_classes(), 3);
  EXPECT_EQ(info.schema().fields(1).class_names(2), "c");
  EXPECT_EQ(info.train_preset(), "");
  EXPECT_EQ(info.shards_size(), 1);
  EXPECT_EQ(info.shards(0).samples(), 5);

  std::vector<std::string> fields;
  ASSERT_TRUE(Read(**source, 4, &fields).ok());
  EXPECT_EQ(fields[0], std::string("\x04\x08"));
  EXPECT_EQ(fields[1], std::string("\x01\0\0\0\0\0\0\0", 8));
  for (int64_t index : {int64_t{-1}, int64_t{5}}) {
    EXPECT_EQ(Read(**source, index, &fields).code(),
              absl::StatusCode::kOutOfRange);
  }
}

TEST_F(OperatorSourceTest, TheFingerprintIsOfContentAndLibrary) {
  const auto fingerprint = [](const std::string& uri, const auto& operators) {
    const auto source = Open(uri, operators);
    EXPECT_TRUE(source.ok()) << source.status();
    return source.ok() ? (*source)->info().fingerprint() : "";
  };
  const std::string five = fingerprint("count:5", good_);
  EXPECT_EQ(five.size(), 32);
  EXPECT_EQ(five, fingerprint("count:5", good_));
  EXPECT_NE(five, fingerprint("count:6", good_));
  EXPECT_NE(five, fingerprint("count:5", Load("tests/testing/operators/"
                                              "good_rebuilt.so")));
}

TEST_F(OperatorSourceTest, DamagedSamplesAreSaidToBe) {
  const auto source = Open("count:20", good_);
  ASSERT_TRUE(source.ok());
  std::vector<std::string> fields;
  const absl::Status damaged = Read(**source, 7, &fields);
  EXPECT_EQ(damaged.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(damaged.message(), "source count 1.0: seven is damaged");
  EXPECT_EQ(GetErrorDetail(damaged).stage(), "storage");
  EXPECT_EQ(GetErrorDetail(damaged).row(), 7);
  EXPECT_EQ(Read(**source, 8, &fields).code(), absl::StatusCode::kUnavailable);
  const absl::Status wrong = Read(**source, 9, &fields);
  EXPECT_EQ(wrong.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(wrong.message(), HasSubstr("1 bytes instead of 2"));
}

TEST_F(OperatorSourceTest, EverythingThatIsOpenedIsClosed) {
  void* const library =
      dlopen(good_->FindSource("count")->file.c_str(), RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(library, nullptr);
  const auto* datasets =
      static_cast<const int*>(dlsym(library, "millrace_test_datasets"));
  const auto* readers =
      static_cast<const int*>(dlsym(library, "millrace_test_readers"));
  ASSERT_TRUE(datasets != nullptr && readers != nullptr);
  {
    const auto source = Open("count:5", good_);
    ASSERT_TRUE(source.ok());
    const auto a = (*source)->NewReader();
    const auto b = (*source)->NewReader();
    EXPECT_EQ(*datasets, 1);
    EXPECT_EQ(*readers, 2);
  }
  EXPECT_EQ(*readers, 0);
  EXPECT_EQ(*datasets, 0);
  // Also where the description is refused.
  EXPECT_FALSE(Open("count:odd", good_).ok());
  EXPECT_EQ(*datasets, 0);
}

TEST_F(OperatorSourceTest, WhatCannotBeOpened) {
  const auto none = Open("count:none", good_);
  EXPECT_EQ(none.status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(none.status().message(), "source count 1.0: there is nothing");
  for (const auto& [uri, says] :
       {std::pair{"count:odd", "field x is of kind 9"},
        std::pair{"count:0", "has 0 samples"},
        std::pair{"count:3 without fingerprint", "no fingerprint"}}) {
    const auto source = Open(uri, good_);
    EXPECT_EQ(source.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(source.status().message(), HasSubstr(says));
    EXPECT_THAT(source.status().message(), HasSubstr("bug of the library"));
  }
  const auto unknown = Open("xls:x", good_);
  EXPECT_EQ(unknown.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(unknown.status().message(), HasSubstr("--operators=FILE.so"));
}

// The example of docs/extending.md.
class Cifar10Test : public OperatorSourceTest {
 protected:
  // Record `i`: class i % 10, byte j of the planes is i + j.
  std::string WriteRecords(int records) {
    std::string bytes;
    for (int i = 0; i < records; ++i) {
      bytes.push_back(static_cast<char>(i % 10));
      for (int j = 0; j < 3072; ++j) bytes.push_back(static_cast<char>(i + j));
    }
    const std::string path = testing::NewTempDir() + "/data.bin";
    testing::WriteFile(path, bytes);
    return path;
  }

  const std::shared_ptr<const operators::Operators> cifar_ =
      Load("docs/example/operators/cifar10.so");
};

TEST_F(Cifar10Test, ReadsRecords) {
  const std::string path = WriteRecords(12);
  const auto source = Open("cifar10:" + path, cifar_);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->info().samples(), 12);
  EXPECT_EQ((*source)->info().schema().fields(1).class_names(9), "truck");
  EXPECT_EQ((*source)->info().train_preset(), "cifar_train");
  EXPECT_EQ((*source)->info().eval_preset(), "cifar_eval");
  std::vector<std::string> fields;
  ASSERT_TRUE(Read(**source, 11, &fields).ok());
  ASSERT_EQ(fields[0].size(), 3072);
  for (int pixel : {0, 1, 500, 1023}) {
    for (int c = 0; c < 3; ++c) {
      EXPECT_EQ(static_cast<uint8_t>(fields[0][3 * pixel + c]),
                static_cast<uint8_t>(11 + 1024 * c + pixel));
    }
  }
  EXPECT_EQ(fields[1][0], 1);
}

TEST_F(Cifar10Test, TheSameContentHasTheSameFingerprint) {
  const auto a = Open("cifar10:" + WriteRecords(3), cifar_);
  const auto b = Open("cifar10:" + WriteRecords(3), cifar_);
  const auto c = Open("cifar10:" + WriteRecords(4), cifar_);
  ASSERT_TRUE(a.ok() && b.ok() && c.ok());
  EXPECT_EQ((*a)->info().fingerprint(), (*b)->info().fingerprint());
  EXPECT_NE((*a)->info().fingerprint(), (*c)->info().fingerprint());
}

TEST_F(Cifar10Test, FilesThatAreNone) {
  EXPECT_EQ(Open("cifar10:/none/at/all", cifar_).status().code(),
            absl::StatusCode::kNotFound);
  const std::string path = testing::NewTempDir() + "/data.bin";
  for (const std::string& bytes : {std::string(), std::string(3072, 'x')}) {
    testing::WriteFile(path, bytes);
    const auto source = Open("cifar10:" + path, cifar_);
    EXPECT_EQ(source.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(source.status().message(), HasSubstr("no multiple of 3073"));
  }
  // A class that is none is a bad sample.
  testing::WriteFile(path, std::string(3073, '\x0b'));
  const auto source = Open("cifar10:" + path, cifar_);
  ASSERT_TRUE(source.ok());
  std::vector<std::string> fields;
  EXPECT_EQ(Read(**source, 0, &fields).code(), absl::StatusCode::kDataLoss);
  // Cut while it is served.
  testing::WriteFile(path, std::string(100, '\1'));
  EXPECT_EQ(Read(**source, 0, &fields).code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace millrace::storage
