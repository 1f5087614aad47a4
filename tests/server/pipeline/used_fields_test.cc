// A pipeline reads the fields that its outputs are made of and no others, and
// is refused where its readers have no memory for them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/server/pipeline/engine_fixture.h"

namespace millrace::pipeline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Hands out the fields that are used and nothing in place of the others; has no
// memory for a field "heavy".
class SparingSource final : public storage::RecordSource {
 public:
  explicit SparingSource(std::shared_ptr<const storage::RecordSource> base,
                         int heavy = -1)
      : base_(std::move(base)), heavy_(heavy) {}
  const DatasetInfo& info() const override { return base_->info(); }
  storage::ReadWait read_wait() const override {
    return storage::ReadWait::kRead;
  }
  // Its readers wait for each other, as far as the engine knows.
  uint32_t max_concurrent_reads() const override { return 2; }
  absl::StatusOr<std::unique_ptr<storage::RecordReader>> NewReader()
      const override {
    auto reader = base_->NewReader();
    if (!reader.ok()) return reader.status();
    return std::make_unique<Reader>(*this, *std::move(reader));
  }
  absl::Status CheckFields(const std::vector<bool>& used) const override {
    if (heavy_ < 0 || !used[heavy_]) return absl::OkStatus();
    return absl::FailedPreconditionError("7 bytes are wanted of 5");
  }

  std::set<std::vector<bool>> used() const {
    MutexLock lock(mu_);
    return used_;
  }

 private:
  class Reader final : public storage::RecordReader {
   public:
    Reader(const SparingSource& source,
           std::unique_ptr<storage::RecordReader> base)
        : source_(source), base_(std::move(base)) {}
    absl::Status Read(
        int64_t index,
        absl::FunctionRef<absl::Status(const storage::EncodedSample&)> visit)
        override {
      return base_->Read(index, [&](const storage::EncodedSample& sample) {
        std::vector<absl::Span<const uint8_t>> fields(sample.fields.begin(),
                                                      sample.fields.end());
        for (size_t i = 0; i < fields.size(); ++i) {
          if (!used_[i]) fields[i] = {};
        }
        storage::EncodedSample sparing = sample;
        sparing.fields = fields;
        return visit(sparing);
      });
    }
    absl::Status UseFields(const std::vector<bool>& used) override {
      used_ = used;
      MutexLock lock(source_.mu_);
      source_.used_.insert(used);
      return absl::OkStatus();
    }

   private:
    const SparingSource& source_;
    const std::unique_ptr<storage::RecordReader> base_;
    std::vector<bool> used_;
  };

  const std::shared_ptr<const storage::RecordSource> base_;
  const int heavy_;
  mutable Mutex mu_;
  mutable std::set<std::vector<bool>> used_ MR_GUARDED_BY(mu_);
};

using UsedFieldsTest = EngineFixture;

TEST_F(UsedFieldsTest, OnlyThoseOfTheOutputsAreRead) {
  for (const std::string& outputs :
       {std::string(), std::string("outputs { field: 'label' }"),
        std::string("outputs { field: 'x' }")}) {
    const std::string text =
        "sources { dataset: 'd' } batch_size: 8 " + outputs;
    for (const uint32_t read_threads : {0u, 4u}) {
      Engine::Options options;
      options.threads = 2;
      options.read_threads = read_threads;
      std::map<uint64_t, std::string> wanted;
      {
        auto engine = Create(options, {{"d", Numbers(60)}});
        for (const auto& [step, batch] : RunAll(*engine, text)) {
          wanted[step] = PayloadText(batch);
        }
      }
      const auto source = std::make_shared<const SparingSource>(Numbers(60));
      {
        auto engine = Create(options, {{"d", source}});
        const auto batches = RunAll(*engine, text);
        EXPECT_EQ(batches.size(), wanted.size());
        for (const auto& [step, batch] : batches) {
          EXPECT_EQ(PayloadText(batch), wanted[step]) << outputs << step;
        }
      }
      EXPECT_THAT(source->used(), ElementsAre(std::vector<bool>{
                                      outputs.find("label") == outputs.npos,
                                      outputs.find("'x'") == outputs.npos}));
    }
  }
}

TEST_F(UsedFieldsTest, WhatItsReadersHaveNoMemoryForIsRefusedAtOpen) {
  const auto source = std::make_shared<const SparingSource>(Numbers(60), 0);
  auto engine = Create({}, {{"d", source}});
  const std::string all = "sources { dataset: 'd' } batch_size: 8 ";
  const auto refused = engine->Open(Spec(all));
  EXPECT_TRUE(absl::IsFailedPrecondition(refused.status()));
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("7 bytes are wanted of 5"));
  EXPECT_NE(Open(*engine, all + "outputs { field: 'label' }"), nullptr);
}

}  // namespace
}  // namespace millrace::pipeline
