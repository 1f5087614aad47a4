#include "server/storage/hdf5/heap_value.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"

namespace millrace::storage {
namespace {

using ::testing::HasSubstr;

template <typename T>
std::string Little(T value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
}

std::string Object(uint16_t number, const std::string& bytes) {
  std::string object = Little(number) + Little(uint16_t{1}) +
                       Little(uint32_t{0}) + Little(uint64_t{bytes.size()}) +
                       bytes;
  object.resize((object.size() + 7) / 8 * 8);
  return object;
}

std::string Collection(const std::string& objects, size_t size) {
  std::string bytes = absl::StrCat("GCOL", std::string("\1\0\0\0", 4),
                                   Little(uint64_t{size}), objects);
  bytes.resize(size);
  return bytes;
}

class HeapValueTest : public ::testing::Test {
 protected:
  // A file of some bytes, a user block of 8, and the collection at 32.
  absl::StatusOr<std::string> Find(const std::string& collection,
                                   uint32_t object, uint64_t bytes,
                                   uint64_t address = 24) {
    file_ = std::string(32, 'x') + collection;
    loads_ = 0;
    const auto offset = FindHeapValue(
        {.elements = 1, .address = address, .object = object}, bytes, 8,
        file_.size(), [&](uint64_t offset, absl::Span<uint8_t> to) {
          ++loads_;
          if (offset > file_.size() || to.size() > file_.size() - offset) {
            ADD_FAILURE() << "bytes behind the file were asked for";
            return absl::DataLossError("beyond");
          }
          std::memcpy(to.data(), file_.data() + offset, to.size());
          return absl::OkStatus();
        });
    if (!offset.ok()) return offset.status();
    return file_.substr(*offset, bytes);
  }

  std::string file_;
  int loads_ = 0;
};

TEST_F(HeapValueTest, FindsEachObject) {
  const std::string big(10'000, 'b');
  const std::string heap = Collection(
      Object(1, "one") + Object(2, big) + Object(3, "three"), 20'000);
  EXPECT_EQ(*Find(heap, 1, 3), "one");
  EXPECT_EQ(loads_, 1);
  EXPECT_EQ(*Find(heap, 2, big.size()), big);
  EXPECT_EQ(loads_, 1);
  EXPECT_EQ(*Find(heap, 3, 5), "three");
  EXPECT_EQ(loads_, 2);  // the object before it is passed unread
}

TEST_F(HeapValueTest, DamageIsAnErrorWithoutAReadBehindTheFile) {
  const std::string heap = Collection(Object(1, "one"), 64);
  const auto message = [&](const std::string& bytes, uint32_t object,
                           uint64_t size, uint64_t address = 24) {
    const auto found = Find(bytes, object, size, address);
    EXPECT_TRUE(absl::IsDataLoss(found.status())) << found.status();
    return std::string(found.status().message());
  };
  EXPECT_THAT(message(heap, 7, 3), HasSubstr("no object 7"));
  EXPECT_THAT(message(heap, 1, 4), HasSubstr("has 3 bytes, not 4"));
  EXPECT_THAT(message(heap, 1, 3, 16), HasSubstr("no collection"));
  EXPECT_THAT(message(heap, 1, 3, 1'000), HasSubstr("the file ends"));
  EXPECT_THAT(message(heap, 1, 3, UINT64_MAX), HasSubstr("the file ends"));
  EXPECT_THAT(message(Collection(Object(1, "one"), 64).substr(0, 60), 1, 3),
              HasSubstr("ends behind the file"));
  std::string object = heap;
  object.replace(24, 8, Little(UINT64_MAX));
  EXPECT_THAT(message(object, 2, 3), HasSubstr("ends behind its collection"));
  std::string tiny = heap;
  tiny.replace(8, 8, Little(uint64_t{3}));
  EXPECT_THAT(message(tiny, 1, 3), HasSubstr("no object 1"));
  // Every byte of the collection wrong: an answer, and no read outside.
  for (size_t at = 0; at < heap.size(); ++at) {
    for (const char wrong : {'\0', '\x7f', '\xff'}) {
      std::string damaged = heap;
      damaged[at] = wrong;
      static_cast<void>(Find(damaged, 1, 3));
    }
  }
}

TEST_F(HeapValueTest, ReferencesAreParsed) {
  const std::string bytes =
      Little(uint32_t{7}) + Little(uint64_t{1} << 40) + Little(uint32_t{9});
  const HeapReference reference = ParseHeapReference(
      {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
  EXPECT_EQ(reference.elements, 7u);
  EXPECT_EQ(reference.address, uint64_t{1} << 40);
  EXPECT_EQ(reference.object, 9u);
}

}  // namespace
}  // namespace millrace::storage
