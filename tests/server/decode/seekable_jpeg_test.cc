// The rewriter of JPEGs and the decoder that makes use of what it wrote.

#include "server/decode/seekable_jpeg.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/decode/image_decoder.h"
#include "server/decode/jpeg_decoder.h"
#include "server/decode/seek_index.h"
#include "tests/testing/images/jpeg_writer.h"
#include "tests/testing/images/png_writer.h"

namespace millrace::decode {
namespace {

using Bytes = std::vector<uint8_t>;
using Outcome = SeekableJpeg::Outcome;

// Small deterministic numbers.
class Draw {
 public:
  int64_t Below(int64_t n) {
    state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<int64_t>((state_ >> 33) % n);
  }

 private:
  uint64_t state_ = 777;
};

// The new bytes; empty when the image stays as it is.
Bytes Rewritten(const Bytes& jpeg, Outcome want = Outcome::kRewritten) {
  SeekableJpeg rewriter;
  std::string out;
  const Outcome outcome = rewriter.Rewrite(jpeg, &out);
  EXPECT_EQ(outcome, want) << SeekableJpeg::Reason(outcome) << ": "
                           << rewriter.message();
  if (outcome != Outcome::kRewritten) return {};
  return Bytes(out.begin(), out.end());
}

struct Segment {
  int marker;
  size_t begin;  // of the payload
  size_t end;
};

// Up to the scan, whose payload's end is where its data begins.
std::vector<Segment> Segments(const Bytes& jpeg) {
  std::vector<Segment> segments;
  for (size_t at = 2; at + 4 <= jpeg.size();) {
    EXPECT_EQ(jpeg[at], 0xFF);
    const size_t end = at + 2 + (jpeg[at + 2] << 8 | jpeg[at + 3]);
    segments.push_back({jpeg[at + 1], at + 4, end});
    if (jpeg[at + 1] == 0xDA) break;
    at = end;
  }
  return segments;
}

std::optional<Segment> Find(const std::vector<Segment>& segments, int marker) {
  for (const Segment& s : segments) {
    if (s.marker == marker) return s;
  }
  return std::nullopt;
}

Bytes WithSegment(const Bytes& jpeg, int marker, const std::string& payload) {
  Bytes out = jpeg;
  std::string segment = {'\xFF', static_cast<char>(marker),
                         static_cast<char>((payload.size() + 2) >> 8),
                         static_cast<char>((payload.size() + 2) & 255)};
  segment += payload;
  const size_t place = Segments(jpeg)[0].end;  // behind JFIF
  out.insert(out.begin() + place, segment.begin(), segment.end());
  return out;
}

std::string Exif(int orientation, size_t thumbnail) {
  std::string text("Exif\0\0MM\0*\0\0\0\x08\0\1\1\x12\0\3\0\0\0\1\0", 25);
  text.push_back(static_cast<char>(orientation));
  return text + std::string(6, '\0') + std::string(thumbnail, 't');
}

using Named = NamedJpegKind;

std::vector<Named> Kinds() {
  std::vector<Named> kinds =
      SampledJpegKinds({{97, 175}, {160, 128}, {33, 90}}, /*restart_rows=*/3);
  for (int quality : {2, 100}) {
    JpegKind k;
    k.width = 131;
    k.height = 321;
    k.quality = quality;
    kinds.push_back({"quality " + std::to_string(quality), k});
  }
  JpegKind one;
  one.width = one.height = 1;
  kinds.push_back({"1x1", one});
  return kinds;
}

// Decodes a region and compares it with the same part of `full`.
void ExpectRegion(JpegDecoder& decoder, const Bytes& jpeg,
                  const DecodeRegion& r, int64_t width, const Bytes& full) {
  auto header = decoder.Open(jpeg, false);
  ASSERT_TRUE(header.ok()) << header.status();
  auto image = decoder.Decode(r);
  ASSERT_TRUE(image.ok()) << image.status();
  for (int64_t y = 0; y < r.height; ++y) {
    const uint8_t* got = image->data + y * image->stride;
    const uint8_t* want = full.data() + ((r.top + y) * width + r.left) * 3;
    ASSERT_TRUE(std::equal(got, got + r.width * 3, want)) << "row " << y;
  }
}

TEST(SeekableJpeg, ARegionOfARewrittenImageHasThePixelsOfTheOriginal) {
  Draw draw;
  JpegDecoder decoder;
  for (const Named& named : Kinds()) {
    const Bytes jpeg = WriteJpeg(named.kind, 3);
    const Bytes seekable = Rewritten(jpeg);
    ASSERT_FALSE(seekable.empty()) << named.name;
    for (int divisor : {1, 2, 4, 8}) {
      const Bytes full = ReferenceDecode(jpeg, divisor, 3);
      // A reader that knows nothing of the index.
      ASSERT_EQ(ReferenceDecode(seekable, divisor, 3), full) << named.name;
      const int64_t width = (named.kind.width + divisor - 1) / divisor;
      const int64_t height = (named.kind.height + divisor - 1) / divisor;
      for (int i = 0; i < 40; ++i) {
        DecodeRegion r;
        r.divisor = divisor;
        r.left = i == 0 ? 0 : draw.Below(width);
        r.top = i == 0 ? 0 : draw.Below(height);
        r.width = i == 0 ? width : 1 + draw.Below(width - r.left);
        r.height = i == 0 ? height : 1 + draw.Below(height - r.top);
        SCOPED_TRACE(testing::Message()
                     << named.name << " 1/" << divisor << " at " << r.left
                     << ", " << r.top << ": " << r.width << " x " << r.height);
        ExpectRegion(decoder, seekable, r, width, full);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(SeekableJpeg, WritesOneScanWithMarkersAtTheRowsAndAnIndexOfThem) {
  JpegKind kind;
  kind.progressive = true;
  kind.width = 100;
  kind.height = 300;
  const Bytes jpeg = Rewritten(WriteJpeg(kind, 1));
  ASSERT_FALSE(jpeg.empty());
  const auto segments = Segments(jpeg);
  EXPECT_TRUE(Find(segments, 0xC0).has_value());  // baseline
  EXPECT_FALSE(Find(segments, 0xC2).has_value());
  EXPECT_EQ(segments[0].marker, 0xE0);  // JFIF stays the first
  EXPECT_EQ(segments[1].marker, 0xE0 + kSeekIndexApp);
  const absl::Span<const uint8_t> index = {jpeg.data() + segments[1].begin,
                                           segments[1].end - segments[1].begin};
  const auto scan = absl::MakeConstSpan(jpeg).subspan(segments.back().end);
  EXPECT_TRUE(FindInterval(index, scan, 19, 0).has_value());  // 300 / 16 rows
  EXPECT_LT(index.size(), 8 + 19 * 3);
}

TEST(SeekableJpeg, RewritingAgainChangesNothing) {
  const Bytes once = Rewritten(WriteJpeg({}, 1));
  EXPECT_EQ(Rewritten(once), once);
}

TEST(SeekableJpeg, OnlyTheIntervalsOfTheRegionAreRead) {
  JpegKind kind;
  kind.width = 200;
  kind.height = 480;  // 30 intervals
  const Bytes jpeg = Rewritten(WriteJpeg(kind, 4));
  const Bytes full = ReferenceDecode(jpeg, 1, 3);
  const auto segments = Segments(jpeg);
  const auto index = Find(segments, 0xE0 + kSeekIndexApp);
  ASSERT_TRUE(index.has_value());
  const size_t scan = segments.back().end;
  const auto begin = [&](int interval) {
    return scan + *FindInterval(
                      {jpeg.data() + index->begin, index->end - index->begin},
                      absl::MakeConstSpan(jpeg).subspan(scan), 30, interval);
  };
  // Rows 160 .. 223 are MCU rows 10 .. 13, their neighbours 9 and 14. All else
  // becomes a run of ones, which is no code of any table.
  Bytes damaged = jpeg;
  for (int i = 0; i < 30; ++i) {
    if (i >= 9 && i <= 14) continue;
    const size_t end = i == 29 ? jpeg.size() : begin(i + 1);
    for (size_t at = begin(i); at + 2 < end; ++at) {
      damaged[at] = (at - begin(i)) % 2 == 0 && at + 3 < end ? 0xFF : 0;
    }
  }
  JpegDecoder decoder;
  ExpectRegion(decoder, damaged, {1, 20, 160, 100, 64, 3}, 200, full);
  // Without the index the markers are looked for.
  for (size_t at = index->begin; at < index->end; ++at) damaged[at] = 0;
  ExpectRegion(decoder, damaged, {1, 20, 160, 100, 64, 3}, 200, full);
  // What is asked for and damaged is found.
  ASSERT_TRUE(decoder.Open(damaged, false).ok());
  EXPECT_EQ(decoder.Decode({1, 20, 100, 100, 64, 3}).status().code(),
            absl::StatusCode::kDataLoss);
}

TEST(SeekableJpeg, AWrongIndexChangesNoPixel) {
  Draw draw;
  JpegDecoder decoder;
  for (bool grey : {false, true}) {
    JpegKind kind;
    kind.width = 150;
    kind.height = 400;
    kind.components = grey ? 1 : 3;
    const Bytes jpeg = Rewritten(WriteJpeg(kind, 4));
    const Bytes full = ReferenceDecode(jpeg, 1, 3);
    const auto segments = Segments(jpeg);
    const auto index = Find(segments, 0xE0 + kSeekIndexApp);
    ASSERT_TRUE(index.has_value());
    for (int i = 0; i < 2000; ++i) {
      Bytes wrong = jpeg;
      for (int64_t n = 1 + draw.Below(3); n > 0; --n) {
        wrong[index->begin + 8 + draw.Below(index->end - index->begin - 8)] ^=
            1 << draw.Below(8);
      }
      DecodeRegion r;
      r.top = 100 + draw.Below(250);
      r.height = 1 + draw.Below(50);
      r.left = draw.Below(100);
      r.width = 50;
      SCOPED_TRACE(testing::Message() << "change " << i);
      ExpectRegion(decoder, wrong, r, kind.width, full);
      if (HasFatalFailure()) return;
    }
    // The index of another image of this size.
    kind.quality = 40;
    const Bytes other = Rewritten(WriteJpeg(kind, 9));
    const auto others = Find(Segments(other), 0xE0 + kSeekIndexApp);
    Bytes mixed(jpeg.begin(), jpeg.begin() + index->begin - 4);
    mixed.insert(mixed.end(), other.begin() + others->begin - 4,
                 other.begin() + others->end);
    mixed.insert(mixed.end(), jpeg.begin() + index->end, jpeg.end());
    ExpectRegion(decoder, mixed, {1, 30, 333, 100, 60, 3}, kind.width, full);
  }
}

TEST(SeekableJpeg, DataThatCanBeReadInTwoWaysIsDamaged) {
  // A second interval 1, and an index that says that interval 0 is both.
  JpegKind kind;
  kind.height = 32;
  const Bytes jpeg = Rewritten(WriteJpeg(kind, 4));
  const auto segments = Segments(jpeg);
  const size_t scan = segments.back().end;
  const auto index = Find(segments, 0xE0 + kSeekIndexApp);
  ASSERT_TRUE(index.has_value());
  const auto payload = absl::MakeConstSpan(jpeg).subspan(
      index->begin, index->end - index->begin);
  const size_t second =
      scan +
      *FindInterval(payload, absl::MakeConstSpan(jpeg).subspan(scan), 2, 1);
  Bytes twice(jpeg.begin(), jpeg.begin() + index->begin + 8);
  const auto append_length = [&twice](size_t bytes) {
    for (; bytes >= 128; bytes >>= 7) twice.push_back(bytes | 128);
    twice.push_back(bytes);
  };
  append_length(second - scan + (jpeg.size() - second));
  append_length(jpeg.size() - second);
  ASSERT_EQ(twice.size(), index->end);  // so the segment's length is right
  twice.insert(twice.end(), jpeg.begin() + index->end, jpeg.end());
  twice.back() = 0xD0;
  twice.insert(twice.end(), jpeg.begin() + second, jpeg.end());
  JpegDecoder decoder;
  ASSERT_TRUE(decoder.Open(twice, false).ok());
  EXPECT_EQ(decoder.Decode({1, 0, 0, 64, 32, 3}).status().code(),
            absl::StatusCode::kDataLoss);
  // Without the index the first way is right, as for other readers.
  twice[index->begin] = 'x';
  ExpectRegion(decoder, twice, {1, 0, 0, 64, 32, 3}, 64,
               ReferenceDecode(jpeg, 1, 3));
}

TEST(SeekableJpeg, KeepsWhatChangesHowThePictureLooks) {
  const Bytes plain = WriteJpeg({}, 2);
  const std::string icc = std::string("ICC_PROFILE\0\1\1", 14) + "a profile";
  const std::string xmp = std::string("http://ns.adobe.com/xap/1.0/\0", 29) +
                          "<rdf tiff:Orientation=\"6\"/>";
  Bytes jpeg = WithSegment(plain, 0xE2, icc);
  jpeg = WithSegment(jpeg, 0xE1, xmp);
  jpeg = WithSegment(jpeg, 0xE1, Exif(1, 30000));
  jpeg = WithSegment(jpeg, 0xFE, "a comment");
  jpeg = WithSegment(jpeg, 0xED, "Photoshop 3.0");
  jpeg.insert(jpeg.end(), 5000, 0xAB);  // as the other pictures of an MPO
  const Bytes seekable = Rewritten(jpeg);
  ASSERT_FALSE(seekable.empty());
  EXPECT_LT(seekable.size(), plain.size() + 300);
  const std::string text(seekable.begin(), seekable.end());
  EXPECT_NE(text.find(icc), text.npos);
  EXPECT_EQ(text.find(xmp), text.npos);  // EXIF said otherwise
  EXPECT_EQ(text.find("tttttt"), text.npos);
  EXPECT_EQ(text.find("a comment"), text.npos);
  EXPECT_EQ(text.find("Photoshop"), text.npos);

  ImageDecoder decoder;
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const Bytes turned = WithSegment(plain, 0xE1, Exif(orientation, 0));
    auto before = decoder.Open(turned, true);
    ASSERT_TRUE(before.ok());
    ASSERT_EQ(before->orientation, orientation);
    const Bytes after = Rewritten(turned);
    auto header = decoder.Open(after, true);
    ASSERT_TRUE(header.ok());
    EXPECT_EQ(header->orientation, orientation);
    EXPECT_EQ(header->width, before->width);
    // An upright picture needs no EXIF.
    EXPECT_EQ(Find(Segments(after), 0xE1).has_value(), orientation != 1);
  }
  const Bytes after = Rewritten(WithSegment(plain, 0xE1, xmp));
  auto header = decoder.Open(after, true);
  ASSERT_TRUE(header.ok());
  EXPECT_EQ(header->orientation, 6);
}

TEST(SeekableJpeg, LeavesWhatItCannotKeepEqual) {
  JpegKind cmyk;
  cmyk.components = 4;
  Rewritten(WriteJpeg(cmyk, 1), Outcome::kCmyk);
  JpegKind arithmetic;
  arithmetic.arithmetic = true;
  Rewritten(WriteJpeg(arithmetic, 1), Outcome::kArithmetic);
  // More blocks than one interleaved scan may hold.
  JpegKind wide;
  wide.separate_scans = true;
  wide.h_sampling = 4;
  wide.v_sampling = 4;
  Rewritten(WriteJpeg(wide, 1), Outcome::kUnusual);
  Rewritten(WritePng({}, TestPixels(20, 14, 3, 5)), Outcome::kNotJpeg);
  Rewritten({}, Outcome::kNotJpeg);

  Bytes twelve = WriteJpeg({}, 1);
  const auto frame = Find(Segments(twelve), 0xC0);
  twelve[frame->begin] = 12;
  Rewritten(twelve, Outcome::kUnusual);

  Bytes huge = WriteJpeg({}, 1);
  for (int i = 1; i < 5; ++i) huge[frame->begin + i] = 0xFA;
  Rewritten(huge, Outcome::kTooLarge);
}

TEST(SeekableJpeg, LeavesDamagedOnesForTheReaderToSee) {
  for (bool progressive : {false, true}) {
    JpegKind kind;
    kind.progressive = progressive;
    const Bytes jpeg = WriteJpeg(kind, 7);
    SeekableJpeg rewriter;
    std::string out;
    for (size_t size = 3; size < jpeg.size(); ++size) {
      // Its own allocation, so that a read past the end is seen.
      const Bytes cut(jpeg.begin(), jpeg.begin() + size);
      ASSERT_EQ(rewriter.Rewrite(cut, &out), Outcome::kDamaged) << size;
    }
    EXPECT_EQ(rewriter.Rewrite(jpeg, &out), Outcome::kRewritten);
  }
}

TEST(SeekableJpeg, DataThatLibjpegDecodesToPixelsOfItsOwnStays) {
  // FF before a stuffed FF is no entropy-coded data. libjpeg-turbo decodes the
  // MCU a second time then, over what is left of the first.
  JpegKind kind;
  kind.components = 1;
  kind.quality = 95;
  const Bytes jpeg = WriteJpeg(kind, 7);
  SeekableJpeg rewriter;
  std::string out;
  int stays = 0;
  for (size_t at = Segments(jpeg).back().end; at + 600 < jpeg.size(); ++at) {
    if (jpeg[at] != 0xFF) continue;
    Bytes odd = jpeg;
    odd.insert(odd.begin() + at, 5, 0xFF);
    const Outcome outcome = rewriter.Rewrite(odd, &out);
    if (outcome == Outcome::kRewritten) {
      // Then it made no difference.
      EXPECT_EQ(ReferenceDecode(odd, 1, 1), ReferenceDecode(jpeg, 1, 1));
      continue;
    }
    ++stays;
    EXPECT_EQ(outcome, Outcome::kDamaged);
    EXPECT_EQ(rewriter.message(),
              "other decoders decode its data to other pixels");
  }
  EXPECT_GT(stays, 0);
}

TEST(SeekableJpeg, ProgressiveImagesWithoutTheirLastScansStay) {
  // libjpeg smooths them; the same coefficients in one scan it would not.
  JpegKind kind;
  kind.progressive = true;
  kind.width = kind.height = 120;
  kind.quality = 20;
  Bytes jpeg = WriteJpeg(kind, 7);
  size_t second = 0;
  for (size_t at = Segments(jpeg).back().end; at + 1 < jpeg.size(); ++at) {
    if (jpeg[at] == 0xFF && jpeg[at + 1] != 0) {
      second = at;
      break;
    }
  }
  jpeg.resize(second);
  jpeg.push_back(0xFF);
  jpeg.push_back(0xD9);
  Rewritten(jpeg, Outcome::kDifferent);
}

TEST(SeekableJpeg, AnyBytesGiveTheSamePixelsOrStay) {
  Draw draw;
  SeekableJpeg rewriter;
  JpegDecoder decoder;
  std::string out;
  int rewritten = 0;
  int damaged = 0;
  for (int i = 0; i < 12; ++i) {
    JpegKind kind;
    kind.width = 20 + i * 3;
    kind.height = 90 - i * 4;
    kind.components = i % 4 == 0 ? 1 : 3;
    kind.progressive = i % 3 == 1;
    kind.restart_rows = i % 2;
    const Bytes seed =
        i < 6 ? WriteJpeg(kind, i) : Rewritten(WriteJpeg(kind, i));
    for (int n = 0; n < 150; ++n) {
      Bytes bytes = seed;
      for (int64_t c = 1 + draw.Below(3); c > 0; --c) {
        const size_t at = draw.Below(bytes.size());
        if (draw.Below(2) == 0) {
          bytes[at] = static_cast<uint8_t>(draw.Below(256));
        } else {
          bytes.erase(bytes.begin() + at,
                      bytes.begin() +
                          std::min<size_t>(bytes.size(), at + draw.Below(9)));
        }
      }
      if (rewriter.Rewrite(bytes, &out) != Outcome::kRewritten) {
        ++damaged;
        continue;
      }
      ++rewritten;
      const Bytes seekable(out.begin(), out.end());
      auto header = decoder.Open(seekable, false);
      ASSERT_TRUE(header.ok()) << header.status();
      const Bytes full = ReferenceDecode(bytes, 1, 3);
      ExpectRegion(decoder, seekable,
                   {1, 0, header->height / 2, header->width,
                    header->height - header->height / 2, 3},
                   header->width, full);
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GT(rewritten, 100);  // else the changes reach nothing
  EXPECT_GT(damaged, 100);
}

}  // namespace
}  // namespace millrace::decode
