// A source that stands for another one gives its answers.

#include "server/storage/forwarding_source.h"

#include <memory>

#include "gtest/gtest.h"
#include "tests/server/storage/odd_source.h"

namespace millrace::storage {
namespace {

TEST(ForwardingSourceTest, GivesEveryAnswerOfItsBase) {
  const auto base = std::make_shared<const OddSource>();
  ExpectForwards(ForwardingSource(base), *base);
}

TEST(ForwardingSourceTest, KeepsItsBase) {
  auto base = std::make_shared<const OddSource>();
  const std::weak_ptr<const OddSource> watched = base;
  {
    const ForwardingSource source(std::move(base));
    EXPECT_FALSE(watched.expired());
  }
  EXPECT_TRUE(watched.expired());
}

// Of a source that says nothing of files.
TEST(RecordSourceTest, SamplesShareFilesByDefault) {
  class Plain final : public RecordSource {
   public:
    const DatasetInfo& info() const override { return info_; }
    absl::StatusOr<std::unique_ptr<RecordReader>> NewReader() const override {
      return absl::UnimplementedError("no test reads");
    }

   private:
    DatasetInfo info_;
  };
  EXPECT_EQ(Plain().sample_files(), nullptr);
  EXPECT_EQ(ForwardingSource(std::make_shared<Plain>()).sample_files(),
            nullptr);
}

}  // namespace
}  // namespace millrace::storage
