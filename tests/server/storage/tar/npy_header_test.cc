#include "server/storage/tar/npy_header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace millrace::storage {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Npy(const std::string& dictionary, char version = 1) {
  std::string bytes = "\x93NUMPY";
  bytes += version;
  bytes += '\0';
  bytes += static_cast<char>(dictionary.size());
  bytes += '\0';
  if (version > 1) bytes += std::string(2, '\0');
  return bytes + dictionary;
}

absl::StatusOr<NpyHeader> Parse(const std::string& bytes) {
  return ParseNpyHeader(
      {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
}

TEST(NpyHeaderTest, TypesAndShapes) {
  const auto header = Parse(
      Npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }   \n"));
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->dtype, DTYPE_FLOAT32);
  EXPECT_THAT(header->shape, ElementsAre(2, 3));
  const std::string scalar =
      Npy("{'descr': '|u1', 'fortran_order': False, 'shape': (), }\n", 2);
  ASSERT_TRUE(Parse(scalar).ok());
  EXPECT_EQ(Parse(scalar)->data_offset, scalar.size());
  EXPECT_THAT(Parse(scalar)->shape, ElementsAre());
  EXPECT_THAT(
      Parse(Npy("{'descr':'<i8','fortran_order':False,'shape':(7,)}"))->shape,
      ElementsAre(7));
}

TEST(NpyHeaderTest, OthersAreRefused) {
  const auto message = [](const std::string& bytes) {
    const auto header = Parse(bytes);
    return header.ok() ? "" : std::string(header.status().message());
  };
  EXPECT_THAT(
      message(Npy("{'descr': '>f4', 'fortran_order': False, 'shape': (2,)}")),
      HasSubstr("has elements of type"));
  EXPECT_THAT(
      message(Npy("{'descr': '|O', 'fortran_order': False, 'shape': (2,)}")),
      HasSubstr("supported are uint8"));
  EXPECT_THAT(
      message(Npy("{'descr': '<f4', 'fortran_order': True, 'shape': (2,)}")),
      HasSubstr("Fortran"));
  const std::string good =
      Npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}");
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_EQ(message(good.substr(0, size)), "is no NumPy array") << size;
  }
  for (const std::string shape : {"2", "(-1,)", "(x,)", "(2", ""}) {
    EXPECT_EQ(message(Npy("{'descr': '<f4', 'fortran_order': False, 'shape': " +
                          shape + "}")),
              "is no NumPy array")
        << shape;
  }
}

}  // namespace
}  // namespace millrace::storage
