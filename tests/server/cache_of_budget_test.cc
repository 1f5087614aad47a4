// A source with the cache of another budget: all else is that of the source.

#include "server/cache_of_budget.h"

#include <memory>

#include "gtest/gtest.h"
#include "tests/server/storage/odd_source.h"

namespace millrace::server {
namespace {

TEST(CacheOfBudgetTest, OnlyTheFieldsAreThoseOfTheOtherCache) {
  const auto base = std::make_shared<const storage::OddSource>();
  const CacheOfBudget source(base, 77);
  ExpectForwards(source, *base, /*fields=*/false);
  EXPECT_EQ(source.CheckFields({true}), base->CheckFieldsWithin({true}, 77));
}

}  // namespace
}  // namespace millrace::server
