#include "server/decode/operator_decoder.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/decode/image_decoder.h"
#include "tests/testing/subprocess.h"

namespace millrace::decode {
namespace {

using ::testing::HasSubstr;

std::vector<uint8_t> Bytes(const std::string& text) {
  return {text.begin(), text.end()};
}

class OperatorDecoderTest : public ::testing::Test {
 protected:
  OperatorDecoderTest() {
    auto loaded = operators::Operators::Load(
        {testing::ProgramPath("tests/testing/operators/good.so"),
         testing::ProgramPath("docs/example/operators/pnm.so")});
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    operators_ = *std::move(loaded);
    odd_ = operators_->FindDecoder("odd");
    pnm_ = operators_->FindDecoder("pnm");
  }

  static std::vector<uint8_t> Odd(int channels, int width, int height) {
    std::vector<uint8_t> bytes = Bytes("ODD");
    for (int value : {channels, width, height}) {
      bytes.push_back(static_cast<uint8_t>(value));
    }
    return bytes;
  }

  void ExpectDataLoss(const operators::Operators::Decoder& decoder,
                      const std::vector<uint8_t>& bytes,
                      const std::string& says) {
    OperatorDecoder one(decoder);
    auto header = one.Open(bytes, true);
    absl::Status status = header.status();
    if (header.ok()) {
      status = one.Decode({1, 0, 0, header->width, header->height, 3}).status();
    }
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(says));
  }

  std::shared_ptr<const operators::Operators> operators_;
  const operators::Operators::Decoder* odd_;
  const operators::Operators::Decoder* pnm_;
};

TEST_F(OperatorDecoderTest, DecodesARegion) {
  OperatorDecoder decoder(*odd_);
  const std::vector<uint8_t> bytes = Odd(3, 8, 4);
  ASSERT_TRUE(decoder.Sniff(bytes));
  const auto header = decoder.Open(bytes, false);
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->width, 8);
  EXPECT_EQ(header->height, 4);
  EXPECT_EQ(header->decoded_channels, 3);
  EXPECT_EQ(header->max_divisor, 1);
  EXPECT_EQ(header->orientation, 1);
  const auto image = decoder.Decode({1, 2, 1, 3, 2, 3});
  ASSERT_TRUE(image.ok()) << image.status();
  for (int y = 0; y < 2; ++y) {
    for (int x = 0; x < 3; ++x) {
      for (int c = 0; c < 3; ++c) {
        EXPECT_EQ(image->data[y * image->stride + 3 * x + c],
                  2 + x + 16 * (1 + y) + 64 * c);
      }
    }
  }
}

TEST_F(OperatorDecoderTest, TurnsGreyAndColourIntoEachOther) {
  OperatorDecoder decoder(*odd_);
  const std::vector<uint8_t> grey = Odd(1, 4, 2);
  ASSERT_TRUE(decoder.Open(grey, false).ok());
  const auto colour = decoder.Decode({1, 1, 0, 2, 2, 3});
  ASSERT_TRUE(colour.ok());
  EXPECT_EQ(colour->data[colour->stride + 3], 2 + 16);
  EXPECT_EQ(colour->data[colour->stride + 5], 2 + 16);
  const std::vector<uint8_t> rgb = Odd(3, 4, 2);
  ASSERT_TRUE(decoder.Open(rgb, false).ok());
  const auto luma = decoder.Decode({1, 1, 0, 2, 2, 1});
  ASSERT_TRUE(luma.ok());
  EXPECT_EQ(luma->data[0], (19595 * 1 + 38470 * 65 + 7471 * 129 + 32768) >> 16);
}

TEST_F(OperatorDecoderTest, GreyValuesAreClassNumbers) {
  OperatorDecoder decoder(*odd_);
  const std::vector<uint8_t> grey = Odd(1, 4, 2);
  ASSERT_TRUE(decoder.Open(grey, false).ok());
  DecodeRegion region{1, 0, 0, 4, 2, 1};
  region.index = true;
  EXPECT_TRUE(decoder.Decode(region).ok());
  const std::vector<uint8_t> rgb = Odd(3, 4, 2);
  ASSERT_TRUE(decoder.Open(rgb, false).ok());
  EXPECT_EQ(decoder.Decode(region).status().code(),
            absl::StatusCode::kDataLoss);
}

TEST_F(OperatorDecoderTest, LimitsHoldBeforeAnythingIsAllocated) {
  ExpectDataLoss(*odd_, Odd(3, 255, 4), "1099511627776 x 4 pixels");
  ExpectDataLoss(*odd_, Odd(3, 4, 255),
                 "requests memory of 1 TiB; the maximum is 256 MiB");
  ExpectDataLoss(*odd_, Odd(3, 0, 4), "0 x 4 pixels");
  ExpectDataLoss(*odd_, Odd(2, 4, 4), "2 channels");
  std::vector<uint8_t> turned = Odd(3, 4, 4);
  turned.push_back(9);
  ExpectDataLoss(*odd_, turned, "orientation is 9");
}

TEST_F(OperatorDecoderTest, DamageIsDataLossInItsOwnWords) {
  ExpectDataLoss(*odd_, Bytes("ODD"), "decoder odd 1.0: truncated");
  std::vector<uint8_t> damaged = Odd(3, 4, 4);
  damaged.push_back(1);
  damaged.push_back('X');
  ExpectDataLoss(*odd_, damaged, "decoder odd 1.0: pixels are damaged");
}

TEST_F(OperatorDecoderTest, EachThreadsDecoderHasAStateOfItsOwn) {
  void* const library = dlopen(odd_->file.c_str(), RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(library, nullptr);
  const auto* const states =
      static_cast<const int*>(dlsym(library, "millrace_test_states"));
  ASSERT_NE(states, nullptr);
  const int before = *states;
  {
    OperatorDecoder a(*odd_), b(*odd_), unused(*odd_);
    const std::vector<uint8_t> bytes = Odd(1, 2, 2);
    ASSERT_TRUE(a.Open(bytes, false).ok());
    ASSERT_TRUE(a.Open(bytes, false).ok());
    ASSERT_TRUE(b.Open(bytes, false).ok());
    EXPECT_EQ(*states, before + 2);
  }
  EXPECT_EQ(*states, before);
}

TEST_F(OperatorDecoderTest, IsAskedFirstWhereTheSpecNamesIt) {
  ImageDecoder decoder;
  const std::vector<uint8_t> odd = Odd(3, 5, 7);
  EXPECT_EQ(decoder.Open(odd, false).status().code(),
            absl::StatusCode::kDataLoss);
  const operators::Operators::Decoder* const both[] = {pnm_, odd_};
  const auto header = decoder.Open(odd, false, both);
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->width, 5);
  EXPECT_TRUE(decoder.Decode({1, 0, 0, 5, 7, 3}).ok());
  // Others go to the server's own decoders.
  EXPECT_EQ(
      decoder.Open(Bytes("\x89PNG\r\n\x1a\nxxxx"), false, both).status().code(),
      absl::StatusCode::kDataLoss);
}

TEST_F(OperatorDecoderTest, TurnsImagesUprightWhenAsked) {
  std::vector<uint8_t> bytes = Odd(1, 3, 2);
  bytes.push_back(6);  // turned by 90 degrees
  const operators::Operators::Decoder* const odd[] = {odd_};
  ImageDecoder decoder;
  ASSERT_EQ(decoder.Open(bytes, false, odd)->width, 3);
  const auto header = decoder.Open(bytes, true, odd);
  ASSERT_TRUE(header.ok());
  EXPECT_EQ(header->width, 2);
  EXPECT_EQ(header->height, 3);
  const auto image = decoder.Decode({1, 0, 0, 2, 3, 1});
  ASSERT_TRUE(image.ok());
  EXPECT_EQ(image->data[0], 16);  // stored column 0, last row
  EXPECT_EQ(image->data[1], 0);
}

// The example of docs/extending.md.
TEST_F(OperatorDecoderTest, PnmReadsGreyAndColour) {
  OperatorDecoder decoder(*pnm_);
  const std::vector<uint8_t> ppm =
      Bytes("P6\n# a comment 12\n 2\t3 # another\n255\nabcdefghijklmnopqr");
  ASSERT_TRUE(decoder.Sniff(ppm));
  const auto header = decoder.Open(ppm, false);
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->width, 2);
  EXPECT_EQ(header->height, 3);
  const auto image = decoder.Decode({1, 1, 1, 1, 2, 3});
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(image->data), 3), "jkl");
  EXPECT_EQ(std::string(
                reinterpret_cast<const char*>(image->data + image->stride), 3),
            "pqr");
  const std::vector<uint8_t> pgm = Bytes("P5 4 1 255 wxyz");
  ASSERT_TRUE(decoder.Sniff(pgm));
  ASSERT_TRUE(decoder.Open(pgm, false).ok());
  EXPECT_EQ(decoder.Decode({1, 2, 0, 1, 1, 1})->data[0], 'y');
}

TEST_F(OperatorDecoderTest, PnmRefusesWhatIsDamaged) {
  OperatorDecoder decoder(*pnm_);
  EXPECT_FALSE(decoder.Sniff(Bytes("")));
  EXPECT_FALSE(decoder.Sniff(Bytes("P6")));
  EXPECT_FALSE(decoder.Sniff(Bytes("P4 1 1 255 x")));
  ExpectDataLoss(*pnm_, Bytes("P6 "), "header of the PNM is damaged");
  ExpectDataLoss(*pnm_, Bytes("P6 #"), "header of the PNM is damaged");
  ExpectDataLoss(*pnm_, Bytes("P6 2 x"), "header of the PNM is damaged");
  ExpectDataLoss(*pnm_, Bytes("P6 99999999999 1 255 "), "damaged");
  ExpectDataLoss(*pnm_, Bytes("P6 1 1 65535 xxxxxx"), "not 255");
  ExpectDataLoss(*pnm_, Bytes("P6 99999999 99999999 255 x"), "truncated");
  const std::string whole = "P6 2 2 255 abcdefghijkl";
  for (size_t size = 3; size < whole.size(); ++size) {
    OperatorDecoder one(*pnm_);
    EXPECT_FALSE(one.Open(Bytes(whole.substr(0, size)), false).ok()) << size;
  }
}

}  // namespace
}  // namespace millrace::decode
