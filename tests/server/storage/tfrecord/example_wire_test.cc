// Compares the parser of Examples with protobuf's own (example.proto).

#include "server/storage/tfrecord/example_wire.h"

#include <google/protobuf/stubs/logging.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "server/storage/wire_reader.h"
#include "tests/server/storage/tfrecord/tfrecord_testing.h"

namespace millrace::storage {
namespace {

using std::string_literals::operator""s;

// Kind and values of each feature; numbers as their bytes.
using Parsed = std::map<std::string, std::pair<ListKind, std::string>>;

// By the code under test; false: damaged.
bool Parse(const std::string& example, Parsed* parsed) {
  const uint8_t* damage = nullptr;
  std::map<std::string, absl::Span<const uint8_t>> entries;
  if (!ForEachFeature(AsBytes(example), &damage, [&](auto name, auto entry) {
        entries[std::string(name)] = entry;
      })) {
    EXPECT_NE(damage, nullptr);
    return false;
  }
  for (const auto& [name, entry] : entries) {
    FeatureValues values;
    if (!FindValues(entry, &damage, &values)) {
      EXPECT_NE(damage, nullptr);
      return false;
    }
    std::string bytes;
    if (values.kind == ListKind::kBytes) {
      bytes = absl::StrCat(values.count, " ", AsText(values.view));
    } else if (values.kind == ListKind::kFloat) {
      bytes.resize(values.count * sizeof(float));
      if (!CopyFloats(entry, values, &damage,
                      reinterpret_cast<uint8_t*>(bytes.data()))) {
        return false;
      }
      if (!values.view.empty()) {
        EXPECT_EQ(AsText(values.view), bytes);
      }
    } else if (values.kind == ListKind::kInt64) {
      bytes.resize(values.count * sizeof(int64_t));
      if (!CopyInt64s(entry, values, &damage,
                      reinterpret_cast<uint8_t*>(bytes.data()))) {
        return false;
      }
    }
    (*parsed)[name] = {values.kind, bytes};
  }
  return true;
}

// By protobuf.
bool ParseByProtobuf(const std::string& bytes, Parsed* parsed) {
  reference::Example example;
  if (!example.ParseFromString(bytes)) return false;
  for (const auto& [name, feature] : example.features().feature()) {
    auto& [kind, text] = (*parsed)[name];
    kind = static_cast<ListKind>(feature.kind_case());
    if (kind == ListKind::kBytes) {
      const auto& list = feature.bytes_list();
      text = absl::StrCat(
          list.value_size(), " ",
          list.value_size() == 0 ? "" : list.value(list.value_size() - 1));
    }
    for (float value : feature.float_list().value()) text += NumberText(value);
    for (int64_t value : feature.int64_list().value()) {
      text += NumberText(value);
    }
  }
  return true;
}

Parsed MustParse(const std::string& example) {
  Parsed parsed;
  EXPECT_TRUE(Parse(example, &parsed));
  Parsed expected;
  EXPECT_TRUE(ParseByProtobuf(example, &expected));
  EXPECT_EQ(parsed, expected);
  return parsed;
}

// A field of type kBytes.
std::string Message(int number, const std::string& content) {
  EXPECT_LT(content.size(), 128);
  return std::string{static_cast<char>(number << 3 | 2),
                     static_cast<char>(content.size())} +
         content;
}

// An Example with one feature "f", whose entry holds `features`.
std::string ExampleWith(const std::vector<std::string>& features) {
  std::string entry = Message(1, "f");
  for (const std::string& feature : features) entry += Message(2, feature);
  return Message(1, Message(1, entry));
}

std::string Int64Text(const std::vector<int64_t>& values) {
  std::string text;
  for (int64_t value : values) text += NumberText(value);
  return text;
}

TEST(ExampleWire, ReadsEachKindOfList) {
  const Parsed parsed = MustParse(ExampleBytes({
      {"bytes", Strings({"abc"})},
      {"several", Strings({"a", "", "b"})},
      {"empty", Strings({})},
      {"float", Floats({1.5F})},
      {"floats", Floats({1, 2, -3})},
      {"int", Ints({-1})},
      {"ints", Ints({0, 127, 128, INT64_MAX, INT64_MIN})},
      {"none", reference::Feature()},
  }));
  EXPECT_EQ(parsed.size(), 8);
  EXPECT_EQ(parsed.at("ints").second,
            Int64Text({0, 127, 128, INT64_MAX, INT64_MIN}));
  EXPECT_EQ(parsed.at("none").first, ListKind::kNone);
}

TEST(ExampleWire, ReadsNumbersThatAreNotPacked) {
  const Parsed ints =
      MustParse(ExampleWith({Message(3, "\x08\x05\x08\x96\x01")}));
  EXPECT_EQ(ints.at("f").second, Int64Text({5, 150}));
  const Parsed floats = MustParse(ExampleWith({Message(2,
                                                       "\x0D"
                                                       "1234\x0D"
                                                       "5678")}));
  EXPECT_EQ(floats.at("f").second, "12345678");
}

TEST(ExampleWire, MergesAListInParts) {
  // Packed and not, in one list, in two lists, in two features of one entry.
  const Parsed parsed = MustParse(ExampleWith(
      {Message(3, "\x08\x01\x0A\x02\x02\x03") + Message(3, "\x08\x04"),
       Message(3, "\x0A\x01\x05")}));
  EXPECT_EQ(parsed.at("f").second, Int64Text({1, 2, 3, 4, 5}));
  const Parsed floats = MustParse(ExampleWith(
      {Message(2, Message(1, "12345678")), Message(2, Message(1, "abcd"))}));
  EXPECT_EQ(floats.at("f").second, "12345678abcd");
}

TEST(ExampleWire, AListOfAnotherKindReplacesTheOneBefore) {
  const std::string ints = Message(3, "\x08\x07");
  const std::string floats = Message(2, Message(1, "12345678"));
  EXPECT_EQ(MustParse(ExampleWith({ints, floats})).at("f"),
            Parsed::mapped_type(ListKind::kFloat, "12345678"));
  EXPECT_EQ(MustParse(ExampleWith({floats + ints})).at("f"),
            Parsed::mapped_type(ListKind::kInt64, Int64Text({7})));
  EXPECT_EQ(MustParse(ExampleWith({floats, ints, ints, floats})).at("f"),
            Parsed::mapped_type(ListKind::kFloat, "12345678"));
}

TEST(ExampleWire, OfTwoFeaturesWithOneNameTheLastCounts) {
  const auto entry = [](const std::string& ints) {
    return Message(1, Message(1, "f") + Message(2, Message(3, ints)));
  };
  // In one Features and in two.
  EXPECT_EQ(
      MustParse(Message(1, entry("\x08\x01") + entry("\x08\x02"))).at("f"),
      Parsed::mapped_type(ListKind::kInt64, Int64Text({2})));
  EXPECT_EQ(
      MustParse(Message(1, entry("\x08\x01")) + Message(1, entry("\x08\x02")))
          .at("f"),
      Parsed::mapped_type(ListKind::kInt64, Int64Text({2})));
}

TEST(ExampleWire, SkipsUnknownFields) {
  const std::string unknown =
      "\x2D"
      "1234"
      "\x38\x05\x3B\x08\x01\x3C"s;
  const std::string example =
      unknown +
      Message(
          1,
          unknown +
              Message(1, unknown + Message(1, "f") +
                             Message(2, unknown +
                                            Message(3, unknown + "\x08\x09"))));
  EXPECT_EQ(MustParse(example).at("f").second, Int64Text({9}));
}

TEST(ExampleWire, AFeatureWithoutANameHasTheEmptyOne) {
  EXPECT_EQ(
      MustParse(Message(1, Message(1, Message(2, Message(3, "\x08\x09")))))
          .count(""),
      1);
}

TEST(ExampleWire, RefusesDamagedLists) {
  for (const std::string& feature : {
           Message(3, "\x0A\x02\x05\x96"),  // packed numbers cut off
           Message(3, "\x0A\x0B\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01"),
           Message(2, Message(1, "12345")),  // 1.25 floats
           Message(1,
                   "\x0A\x05"
                   "abc"),
       }) {
    Parsed parsed;
    EXPECT_FALSE(Parse(ExampleWith({feature}), &parsed)) << feature;
    EXPECT_FALSE(ParseByProtobuf(ExampleWith({feature}), &parsed)) << feature;
  }
}

TEST(ExampleWire, TellsASequenceExample) {
  reference::SequenceExample sequence;
  (*sequence.mutable_context()->mutable_feature())["a"] = Ints({1});
  sequence.mutable_feature_lists();
  EXPECT_TRUE(HasFeatureLists(AsBytes(sequence.SerializeAsString())));
  EXPECT_FALSE(HasFeatureLists(AsBytes(ExampleBytes({{"a", Ints({1})}}))));
  // A TensorProto has a type and a shape there.
  EXPECT_FALSE(HasFeatureLists(AsBytes("\x08\x01" + Message(2, "shape"))));
}

// Whatever protobuf takes, and whatever it takes it for.
TEST(ExampleWire, AgreesWithProtobufOnChangedExamples) {
  const auto quiet = google::protobuf::SetLogHandler(
      [](google::protobuf::LogLevel, const char*, int, const std::string&) {});
  const std::vector<std::string> seeds = {
      ExampleBytes({{"a", Strings({"abc"})}, {"b", Ints({1, 300, -1})}}),
      ExampleBytes({{"a", Floats({1, 2, 3})}, {"b", Strings({"x", "y"})}}),
      ExampleWith({Message(3, "\x08\x01\x0A\x02\x02\x03") +
                       Message(2, Message(1, "12345678")),
                   Message(3, "\x0A\x01\x05")}),
  };
  std::mt19937 random(20261128);
  int taken = 0;
  for (int round = 0; round < 30000; ++round) {
    std::string example = seeds[random() % seeds.size()];
    for (int changes = 1 + random() % 3; changes > 0; --changes) {
      const size_t at = random() % example.size();
      switch (random() % 4) {
        case 0:
          example[at] = static_cast<char>(random());
          break;
        case 1:
          example[at] ^= static_cast<char>(1 << random() % 8);
          break;
        case 2:
          example.insert(at, 1, static_cast<char>(random() % 32));
          break;
        default:
          example.erase(at, 1 + random() % 3);
          if (example.empty()) example = "x";
      }
    }
    Parsed expected;
    if (!ParseByProtobuf(example, &expected)) continue;
    ++taken;
    Parsed parsed;
    ASSERT_TRUE(Parse(example, &parsed)) << round;
    ASSERT_EQ(parsed, expected) << round;
  }
  google::protobuf::SetLogHandler(quiet);
  EXPECT_GT(taken, 1000);
}

}  // namespace
}  // namespace millrace::storage
