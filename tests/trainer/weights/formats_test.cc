// Files of weights as bytes: what Python wrote is read, what we write is read
// back, and nothing else is taken for weights.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/dtype.h"
#include "tests/testing/subprocess.h"
#include "tests/trainer/weights/golden_weights.h"
#include "trainer/weights/match.h"
#include "trainer/weights/pickle.h"
#include "trainer/weights/safetensors.h"
#include "trainer/weights/torch_file.h"
#include "trainer/weights/weights_file.h"
#include "trainer/weights/zip_archive.h"

namespace millrace::weights {
namespace {

using ::millrace::testing::GoldenTensor;
using ::millrace::testing::GoldenWeights;
using ::millrace::testing::WeightsPath;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string FileBytes(const std::string& name) {
  std::string bytes = testing::ReadFile(WeightsPath(name));
  EXPECT_FALSE(bytes.empty()) << name;
  return bytes;
}

double HalfValue(uint16_t bits, int exponent_bits) {
  const int mantissa_bits = 15 - exponent_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const double mantissa =
      static_cast<double>(bits & ((1 << mantissa_bits) - 1)) /
      (1 << mantissa_bits);
  const double size = exponent == 0 ? std::ldexp(mantissa, 1 - bias)
                                    : std::ldexp(1 + mantissa, exponent - bias);
  return (bits & 0x8000) != 0 ? -size : size;
}

template <typename T>
T At(absl::string_view bytes, int64_t index) {
  T value;
  std::memcpy(&value, bytes.substr(index * sizeof(T)).data(), sizeof(T));
  return value;
}

double ValueAt(const StoredTensor& tensor, int64_t index) {
  switch (tensor.dtype) {
    case DTYPE_FLOAT64:
      return At<double>(tensor.bytes, index);
    case DTYPE_FLOAT32:
      return At<float>(tensor.bytes, index);
    case DTYPE_FLOAT16:
      return HalfValue(At<uint16_t>(tensor.bytes, index), 5);
    case DTYPE_BFLOAT16:
      return HalfValue(At<uint16_t>(tensor.bytes, index), 8);
    case DTYPE_INT64:
      return static_cast<double>(At<int64_t>(tensor.bytes, index));
    case DTYPE_INT32:
      return At<int32_t>(tensor.bytes, index);
    case DTYPE_INT16:
      return At<int16_t>(tensor.bytes, index);
    case DTYPE_INT8:
      return At<int8_t>(tensor.bytes, index);
    default:
      return At<uint8_t>(tensor.bytes, index);
  }
}

// Row-major.
std::vector<double> Values(const StoredTensor& tensor) {
  int64_t elements = 1;
  for (const int64_t dim : tensor.shape) elements *= dim;
  std::vector<double> values;
  for (int64_t i = 0; i < elements; ++i) {
    int64_t place = 0, rest = i;
    for (size_t d = tensor.shape.size(); d-- > 0;) {
      place += rest % tensor.shape[d] * tensor.strides[d];
      rest /= tensor.shape[d];
    }
    values.push_back(ValueAt(tensor, place));
  }
  return values;
}

const StoredTensor* Find(const std::vector<StoredTensor>& tensors,
                         const std::string& name) {
  for (const StoredTensor& tensor : tensors) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

void ExpectGolden(const std::vector<StoredTensor>& tensors,
                  const std::string& file) {
  const std::vector<GoldenTensor> golden = GoldenWeights(file);
  ASSERT_FALSE(golden.empty()) << file;
  EXPECT_EQ(tensors.size(), golden.size());
  for (const GoldenTensor& expected : golden) {
    SCOPED_TRACE(absl::StrCat(file, ": ", expected.name));
    const StoredTensor* tensor = Find(tensors, expected.name);
    ASSERT_NE(tensor, nullptr);
    EXPECT_EQ(DTypeName(tensor->dtype), expected.type);
    EXPECT_EQ(tensor->shape, expected.shape);
    const std::vector<double> values = Values(*tensor);
    ASSERT_EQ(values.size(), expected.values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_EQ(values[i], std::stod(expected.values[i])) << i;
    }
  }
}

TEST(WeightsFile, ReadsWhatPythonWrote) {
  for (const char* name :
       {"module.pt", "protocol_4.pt", "training.pt", "parameters.pt",
        "types.pt", "module.safetensors", "types.safetensors"}) {
    const auto file = WeightsFile::Read(WeightsPath(name));
    ASSERT_TRUE(file.ok()) << file.status();
    ExpectGolden(file->tensors(), name);
  }
}

// What stands in the bytes, made row-major, so that it can be written.
struct Rows {
  explicit Rows(const std::vector<StoredTensor>& from) {
    bytes.reserve(from.size());
    for (StoredTensor tensor : from) {
      const size_t size = ElementBytes(tensor.dtype);
      int64_t elements = 1;
      for (const int64_t dim : tensor.shape) elements *= dim;
      std::string& out = bytes.emplace_back();
      for (int64_t i = 0; i < elements; ++i) {
        int64_t place = 0, rest = i;
        for (size_t d = tensor.shape.size(); d-- > 0;) {
          place += rest % tensor.shape[d] * tensor.strides[d];
          rest /= tensor.shape[d];
        }
        absl::StrAppend(&out, tensor.bytes.substr(place * size, size));
      }
      tensor.strides = RowMajorStrides(tensor.shape);
      tensor.bytes = out;
      tensors.push_back(tensor);
    }
  }
  std::vector<std::string> bytes;
  std::vector<StoredTensor> tensors;
};

TEST(WeightsFile, GivesBackWhatWasWritten) {
  const auto types = WeightsFile::Read(WeightsPath("types.pt"));
  ASSERT_TRUE(types.ok()) << types.status();
  const Rows rows(types->tensors());
  const std::string folder = testing::NewTempDir();
  for (const char* name : {"/a.pt", "/a.pth", "/a.safetensors"}) {
    ASSERT_TRUE(WriteWeights(folder + name, rows.tensors).ok());
    const auto file = WeightsFile::Read(folder + name);
    ASSERT_TRUE(file.ok()) << file.status();
    ExpectGolden(file->tensors(), "types.pt");
    for (const StoredTensor& tensor : file->tensors()) {
      const size_t place =
          tensor.bytes.data() - file->tensors()[0].bytes.data();
      EXPECT_EQ(place % ElementBytes(tensor.dtype), 0u) << tensor.name;
    }
  }
  const absl::Status other = WriteWeights(folder + "/a.bin", rows.tensors);
  EXPECT_TRUE(absl::IsInvalidArgument(other)) << other;
  const std::string none = folder + "/none.safetensors";
  ASSERT_TRUE(WriteWeights(none, {}).ok());
  EXPECT_TRUE(WeightsFile::Read(none)->tensors().empty());
}

TEST(WeightsFile, SaysWhatElseAFileIs) {
  const auto refusal = [](const std::string& path) {
    const auto file = WeightsFile::Read(path);
    EXPECT_FALSE(file.ok()) << path;
    EXPECT_THAT(std::string(file.status().message()), HasSubstr(path));
    return std::string(file.status().message());
  };
  EXPECT_THAT(refusal(WeightsPath("whole_module.pt")),
              AllOf(HasSubstr("torch.nn.modules.container Sequential"),
                    HasSubstr("state_dict()")));
  EXPECT_THAT(refusal(WeightsPath("before_1_6.pt")), HasSubstr("torch 1.6"));
  EXPECT_THAT(refusal(WeightsPath("no_tensors.pt")),
              HasSubstr("its keys are: a, b"));
  EXPECT_THAT(refusal("tests/testdata/trainer/models/small_cnn.pt"),
              HasSubstr("--model=torchscript:"));
  EXPECT_THAT(refusal(WeightsPath("expected.txt")), HasSubstr("safetensors"));
  EXPECT_THAT(refusal("/no/such/file.pt"), HasSubstr("No such file"));
}

// Wherever a file is cut, it is refused, and no byte outside of it is touched.
TEST(WeightsFile, RefusesFilesThatAreCut) {
  const std::string torch_file = FileBytes("module.pt");
  for (size_t size = 0; size < torch_file.size(); ++size) {
    const std::string cut = torch_file.substr(0, size);
    ASSERT_FALSE(ParseTorchFile(cut).ok()) << size;
  }
  const std::string safetensors = FileBytes("module.safetensors");
  for (size_t size = 0; size < safetensors.size(); ++size) {
    const std::string cut = safetensors.substr(0, size);
    ASSERT_FALSE(ParseSafetensors(cut).ok()) << size;
  }
}

// The archive has checksums: no changed byte of a tensor goes unnoticed.
TEST(WeightsFile, RefusesDamagedTensors) {
  std::string bytes = FileBytes("module.pt");
  const auto entries = ParseZip(bytes);
  ASSERT_TRUE(entries.ok()) << entries.status();
  int changed = 0;
  for (const ZipEntry& entry : *entries) {
    if (entry.data.empty()) continue;
    const size_t place = entry.data.data() - bytes.data();
    bytes[place] ^= 1;
    EXPECT_TRUE(absl::IsDataLoss(ParseTorchFile(bytes).status())) << entry.name;
    bytes[place] ^= 1;
    ++changed;
  }
  EXPECT_GT(changed, 8);
  EXPECT_TRUE(ParseTorchFile(bytes).ok());
}

// The format has no checksums; what we write has a digest of the elements.
TEST(WeightsFile, RefusesDamagedTensorsOfSafetensorsThatItWrote) {
  const auto module = WeightsFile::Read(WeightsPath("module.pt"));
  ASSERT_TRUE(module.ok()) << module.status();
  const std::string path = testing::NewTempDir() + "/a.safetensors";
  ASSERT_TRUE(WriteWeights(path, Rows(module->tensors()).tensors).ok());
  const std::string whole = testing::ReadFile(path);
  const auto tensors = ParseSafetensors(whole);
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  int changed = 0;
  for (const StoredTensor& tensor : *tensors) {
    if (tensor.bytes.empty()) continue;
    std::string damaged = whole;
    damaged[tensor.bytes.data() - whole.data()] ^= 1;
    const absl::Status status = ParseSafetensors(damaged).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << tensor.name << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("digest"));
    ++changed;
  }
  EXPECT_GT(changed, 3);
}

std::string Safetensors(const std::string& header, size_t data) {
  std::string file;
  for (int i = 0; i < 8; ++i) {
    file.push_back(static_cast<char>(header.size() >> (8 * i)));
  }
  return file + header + std::string(data, '\0');
}

std::string SafetensorsError(const std::string& header, size_t data) {
  const auto tensors = ParseSafetensors(Safetensors(header, data));
  EXPECT_TRUE(absl::IsDataLoss(tensors.status())) << header;
  return std::string(tensors.status().message());
}

TEST(Safetensors, TakesWhatTheFormatAllows) {
  EXPECT_TRUE(ParseSafetensors(Safetensors("{}", 0)).ok());
  EXPECT_TRUE(ParseSafetensors(Safetensors("{}     ", 0)).ok());
  const auto tensors = ParseSafetensors(Safetensors(
      R"( {"__metadata__": {"a": "b"}, "x\u00fc\ud83d\ude00\n" :
          {"shape": [2, 1], "data_offsets": [8, 16], "dtype": "F32"},
          "none": {"dtype": "I64", "shape": [0, 18], "data_offsets": [8, 8]},
          "y": {"dtype":"F64","shape":[],"data_offsets":[0,8]}} )",
      16));
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  ASSERT_EQ(tensors->size(), 3u);
  EXPECT_EQ((*tensors)[0].name, "x\u00fc\U0001F600\n");
  EXPECT_EQ((*tensors)[0].shape, (std::vector<int64_t>{2, 1}));
  EXPECT_EQ((*tensors)[0].bytes.size(), 8u);
  EXPECT_EQ((*tensors)[2].strides.size(), 0u);
}

TEST(Safetensors, RefusesOffsetsThatCannotBe) {
  const auto entry = [](const std::string& name, const std::string& dtype,
                        const std::string& shape, const std::string& place) {
    return absl::StrCat("\"", name, "\":{\"dtype\":\"", dtype, "\",\"shape\":[",
                        shape, "],\"data_offsets\":[", place, "]}");
  };
  const auto one = [&](const std::string& dtype, const std::string& shape,
                       const std::string& place, size_t data) {
    return SafetensorsError("{" + entry("a", dtype, shape, place) + "}", data);
  };
  EXPECT_THAT(one("F32", "2", "0,8", 4), HasSubstr("0 to 8 of 4"));
  EXPECT_THAT(one("F32", "2", "8,0", 8), HasSubstr("8 to 0"));
  EXPECT_THAT(one("F32", "2", "0,4", 4), HasSubstr("takes 8 bytes"));
  EXPECT_THAT(one("F32", "1", "4,8", 8), HasSubstr("nothing names the bytes"));
  EXPECT_THAT(one("F32", "1", "0,4", 8), HasSubstr("but 8 follow"));
  EXPECT_THAT(one("F99", "1", "0,4", 4), HasSubstr("type F99"));
  EXPECT_THAT(one("F32", "4294967296,4294967296,4294967296", "0,4", 4),
              HasSubstr("more bytes than there are"));
  EXPECT_THAT(one("F32", "0,18446744073709551615", "0,0", 0),
              HasSubstr("dimension of 18446744073709551615"));
  EXPECT_THAT(one("F32", "18446744073709551616", "0,4", 4),
              HasSubstr("64 bits"));
  EXPECT_THAT(SafetensorsError("{" + entry("a", "F32", "2", "0,8") + "," +
                                   entry("b", "F32", "1", "4,8") + "}",
                               8),
              HasSubstr("overlap"));
  EXPECT_THAT(SafetensorsError("{" + entry("a", "U8", "2", "0,2") + "," +
                                   entry("a", "U8", "2", "2,4") + "}",
                               4),
              HasSubstr("\"a\" comes twice"));
}

TEST(Safetensors, RefusesHeadersThatAreNoHeaders) {
  const std::string lengths[] = {
      std::string(8, '\xff'),
      std::string("\x00\x00\x00\x00\x01\x00\x00\x00", 8),
      std::string("\xff\x00\x00\x00\x00\x00\x00\x00{}", 10)};
  for (const std::string& file : lengths) {
    EXPECT_TRUE(absl::IsDataLoss(ParseSafetensors(file).status()));
  }
  for (const char* header :
       {"",
        "[]",
        "{",
        "{}x",
        "{\"a\"}",
        "{\"a\":1}",
        "{\"a\":{}}",
        "{a:1}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[1.0],\"data_offsets\":[0,4]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[01],\"data_offsets\":[0,4]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"shape\":[1],"
        "\"data_offsets\":[0,4]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],"
        "\"x\":1}}",
        "{\"__metadata__\":{\"a\":1}}",
        "{\"\\ud800\":{}}",
        "{\"\\u12\":{}}",
        "{\"\\x\":{}}",
        "{\"\xff\":{}}",
        "{\"a\n\":{}}",
        "{\"a"}) {
    SafetensorsError(header, 4);
  }
}

std::string TorchFile(const std::string& pickle) {
  return ToZip({{"archive/data.pkl", pickle},
                {"archive/data/0", std::string(8, '\1')},
                {"archive/version", "3\n"}});
}

// {"w": _rebuild_tensor_v2(storage "0" of float32, offset, shape, strides)}
std::string TensorPickle(const std::string& offset, const std::string& shape,
                         const std::string& strides) {
  return absl::StrCat("\x80\x02}", absl::string_view("X\1\0\0\0w", 6),
                      "ctorch._utils\n_rebuild_tensor_v2\n((",
                      absl::string_view("X\7\0\0\0storage", 12),
                      "ctorch\nFloatStorage\n",
                      absl::string_view("X\1\0\0\0"
                                        "0X\3\0\0\0cpuK\2tQ",
                                        18),
                      offset, shape, strides, "\x89Nt", "Rs.");
}

TEST(TorchFile, TakesNoTensorThatLeavesItsStorage) {
  const std::string zero("K\0", 2);
  const std::string big("\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f", 10);
  const std::string minus("J\xff\xff\xff\xff", 5);
  const auto error = [&](const std::string& offset, const std::string& shape,
                         const std::string& strides) {
    const auto tensors =
        ParseTorchFile(TorchFile(TensorPickle(offset, shape, strides)));
    return std::string(tensors.status().message());
  };
  EXPECT_EQ(error(zero, "K\2\x85", "K\1\x85"), "");
  EXPECT_EQ(error("K\1", "K\1\x85", "K\1\x85"), "");
  EXPECT_EQ(error("K\1", ")", ")"), "") << "a scalar";
  EXPECT_THAT(error(zero, "K\3\x85", "K\1\x85"), HasSubstr("beyond"));
  EXPECT_THAT(error("K\1", "K\2\x85", "K\1\x85"), HasSubstr("beyond"));
  EXPECT_THAT(error("K\2", "K\1\x85", "K\1\x85"), HasSubstr("outside"));
  EXPECT_THAT(error(big, "K\1\x85", "K\1\x85"), HasSubstr("outside"));
  EXPECT_THAT(error(zero, big + "\x85", "K\1\x85"), HasSubstr("beyond"));
  EXPECT_THAT(error(zero, "K\2\x85", big + "\x85"), HasSubstr("beyond"));
  EXPECT_THAT(error(zero, big + big + "\x86", zero + zero + "\x86"),
              HasSubstr("more elements"));
  EXPECT_THAT(error(minus, "K\1\x85", "K\1\x85"), HasSubstr("damaged"));
  EXPECT_THAT(error(zero, minus + "\x85", "K\1\x85"), HasSubstr("no shape"));
  EXPECT_THAT(error(zero, "K\1\x85", ")"), HasSubstr("damaged"));
}

TEST(TorchFile, IsNotFooledByItsArchive) {
  const std::string good = FileBytes("module.pt");
  const std::string pickle = TensorPickle(std::string("K\0", 2), ")", ")");
  const auto error = [](const std::vector<ZipEntry>& entries) {
    return std::string(ParseTorchFile(ToZip(entries)).status().message());
  };
  EXPECT_THAT(error({}), HasSubstr("no data.pkl"));
  EXPECT_THAT(error({{"archive/data.pkl", pickle}}), HasSubstr("data/0"));
  EXPECT_THAT(error({{"archive/data.pkl", pickle},
                     {"archive/data/0", "1234"},
                     {"archive/data/0", "1234"}}),
              HasSubstr("comes twice"));
  EXPECT_THAT(error({{"archive/data.pkl", pickle},
                     {"archive/data/0", "1234"},
                     {"archive/byteorder", "big"}}),
              HasSubstr("byte order"));
  // A directory that claims more entries than it has room for.
  std::string file = ToZip({{"archive/data.pkl", pickle}});
  const size_t end = file.rfind("PK\6\6");
  ASSERT_NE(end, std::string::npos);
  file[end + 32] = '\x7f';
  file[end + 33] = '\x7f';
  EXPECT_THAT(std::string(ParseTorchFile(file).status().message()),
              HasSubstr("directory is damaged"));
  // A compressed entry.
  file = good;
  const size_t entry = file.find("PK\1\2");
  file[entry + 10] = 8;
  EXPECT_THAT(std::string(ParseTorchFile(file).status().message()),
              HasSubstr("compressed"));
}

TEST(Pickle, RunsNothingAndKnowsItsLimits) {
  // os.system("true") stays a call that nobody makes.
  const auto call = Pickle::Parse("cos\nsystem\n(U\1xtR.");
  EXPECT_FALSE(call.ok()) << "'U' belongs to protocols before 2";
  const auto kept =
      Pickle::Parse(std::string("cos\nsystem\nX\1\0\0\0x\x85R.", 21));
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(kept->root().kind, PickleValue::kCall);
  EXPECT_EQ(kept->root().items[0]->text, "os system");
  // A list that holds itself.
  const auto self = Pickle::Parse(std::string("]q\0h\0a.", 7));
  ASSERT_TRUE(self.ok()) << self.status();
  EXPECT_EQ(self->root().items[0], &self->root());
  for (const std::string& bad :
       {std::string(), std::string("N"), std::string("."), std::string("a."),
        std::string("]a."), std::string("(]N"), std::string("t."),
        std::string("h\0.", 3), std::string("X\xff\xff\xff\xff"),
        std::string("}(Nu."), std::string("Ns."), std::string("\x8b\xff"),
        std::string("i"), std::string("(("), std::string("N(0R.")}) {
    EXPECT_TRUE(absl::IsDataLoss(Pickle::Parse(bad).status()));
  }
  const auto negative = Pickle::Parse(std::string("\x8a\1\xfe.", 4));
  EXPECT_EQ(negative->root().integer, -2);
}

TEST(Zip, KnowsItsChecksum) {
  EXPECT_EQ(Crc32("123456789"), 0xCBF43926u);
  EXPECT_EQ(Crc32(""), 0u);
}

TEST(Zip, ReadsTheLongFormOfItsDirectory) {
  std::vector<ZipEntry> entries(70000);
  for (size_t i = 0; i < entries.size(); ++i) {
    entries[i] = {absl::StrCat("m", i), "x"};
  }
  const std::string file = ToZip(entries);
  const auto read = ParseZip(file);
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->size(), entries.size());
  EXPECT_EQ(read->back().name, "m69999");
  EXPECT_EQ(read->back().data, "x");
  EXPECT_EQ((read->back().data.data() - file.data()) % 64, 0);
}

// The end without 64-bit numbers, which other programs write.
TEST(Zip, ReadsTheShortFormOfItsDirectory) {
  std::string file = ToZip({{"a", "x"}, {"b", "yz"}});
  const size_t end64 = file.rfind("PK\6\6");
  const size_t end = file.rfind("PK\5\6");
  const size_t directory = file.find("PK\1\2");
  ASSERT_LT(end, std::string::npos);
  const auto put = [&](size_t at, uint32_t value, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) {
      file[end + at + i] = static_cast<char>(value >> (8 * i));
    }
  };
  const auto size = static_cast<uint32_t>(end64 - directory);
  const auto short_file = [&](uint16_t count) {
    put(10, count, 2);
    put(12, size, 4);
    put(16, static_cast<uint32_t>(directory), 4);
    return file.substr(0, end64) + file.substr(end);
  };
  const std::string two = short_file(2);
  const auto read = ParseZip(two);
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->size(), 2u);
  EXPECT_EQ(read->back().data, "yz");
  // A directory that claims more entries than it has room for.
  EXPECT_TRUE(absl::IsDataLoss(ParseZip(short_file(0x7f7f)).status()));
}

const std::vector<NamedShape> kModel = {{"fc1.weight", {4, 3}},
                                        {"fc1.bias", {4}},
                                        {"bn.num_batches_tracked", {}, false},
                                        {"fc2.weight", {2, 4}}};

std::string MatchError(std::vector<NamedShape> file,
                       const std::vector<std::string>& without = {}) {
  const auto places = MatchWeights(kModel, file, without);
  return std::string(places.status().message());
}

TEST(WeightsFile, APipeIsRefused) {
  const std::string path = ::testing::TempDir() + "/weights_pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  // It waited for a writer for ever.
  const auto read = WeightsFile::Read(path);
  EXPECT_TRUE(absl::IsInvalidArgument(read.status())) << read.status();
  EXPECT_THAT(std::string(read.status().message()),
              HasSubstr(path + " is not a regular file"));
  unlink(path.c_str());
}

TEST(MatchWeights, FindsNamesInAnyOrder) {
  const auto places = MatchWeights(
      kModel,
      {{"fc2.weight", {2, 4}}, {"fc1.bias", {4}}, {"fc1.weight", {4, 3}}}, {});
  ASSERT_TRUE(places.ok()) << places.status();
  EXPECT_EQ((*places)[0], 2u);
  EXPECT_EQ((*places)[1], 1u);
  EXPECT_EQ((*places)[2], std::nullopt) << "old files lack the counter";
  EXPECT_EQ((*places)[3], 0u);
}

TEST(MatchWeights, TakesWhatWrappersPutBeforeNamesAway) {
  EXPECT_EQ(MatchError({{"module._orig_mod.fc2.weight", {2, 4}},
                        {"module._orig_mod.fc1.bias", {4}},
                        {"module._orig_mod.fc1.weight", {4, 3}}}),
            "");
  EXPECT_THAT(MatchError({{"module.fc2.weight", {2, 4}},
                          {"fc1.bias", {4}},
                          {"fc1.weight", {4, 3}}}),
              HasSubstr("module.fc2.weight"));
}

TEST(MatchWeights, ListsWhatDoesNotFit) {
  const std::string error = MatchError({{"fc1.weight", {5, 3}},
                                        {"bn.num_batches_tracked", {}, true},
                                        {"extra", {1}},
                                        {"fc2.weight", {2, 4}}});
  EXPECT_THAT(
      error,
      AllOf(HasSubstr("fc1.weight is [5, 3] in the file and [4, 3] in the "
                      "model"),
            HasSubstr("1 tensor of the model is not in the file (fc1.bias)"),
            HasSubstr("1 tensor of the file is not in the model (extra)"),
            HasSubstr("another kind of numbers (bn.num_batches_tracked)"),
            HasSubstr("--init_weights_without")));
  std::vector<NamedShape> many;
  for (int i = 0; i < 9; ++i) many.push_back({absl::StrCat("x", i), {}});
  EXPECT_THAT(MatchError(many), HasSubstr("x0, x1, x2, x3 and 5 more"));
}

TEST(MatchWeights, LeavesLayersOut) {
  EXPECT_EQ(MatchError({{"fc1.weight", {4, 3}},
                        {"fc1.bias", {4}},
                        {"fc2.weight", {1000, 4}}},
                       {"fc2"}),
            "");
  EXPECT_THAT(
      MatchError(
          {{"fc1.weight", {4, 3}}, {"fc1.bias", {4}}, {"fc2.weight", {2, 4}}},
          {"fc"}),
      HasSubstr("--init_weights_without=fc names no layer"));
}

}  // namespace
}  // namespace millrace::weights
