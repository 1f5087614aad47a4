#include "common/output_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "tests/testing/subprocess.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::WriteFile;

// The start of a ZIP archive whose first entry is `name`.
std::string Zip(const std::string& name) {
  std::string start("PK\x03\x04", 4);
  start.resize(26);
  start += static_cast<char>(name.size());
  start.resize(30);
  return start + name + std::string(100, '\0');
}

std::string Lmdb() {
  return std::string(16, '\0') + "\xde\xc0\xef\xbe" + std::string(100, '\0');
}

class OutputFile : public ::testing::Test {
 protected:
  const std::string path_ = testing::NewTempDir() + "/out";
};

TEST_F(OutputFile, OfTheSameKindIsReplaced) {
  const struct {
    OutputKind kind;
    std::vector<std::string> starts;
  } kCases[] = {
      {OutputKind::kJson,
       {"{\n  \"ended\": \"done\"\n}\n", "{}", "[]", " \n[ {\"a\": 1} ] \n",
        "{\"a\": \"" + std::string(10000, 'x') + "\"}"}},
      {OutputKind::kStepLosses,
       {"0 0 2.5\n0 1 nan\n", "0 0 inf\n0 1 1.5e-0", "0 "}},
      {OutputKind::kCheckpoint, {Zip("archive/data/0")}},
      {OutputKind::kTorchWeights,
       {Zip("archive/data.pkl"), Zip("name/data.pkl"), "\x80\x02}q"}},
      {OutputKind::kSafetensors, {std::string("\x10\0\0\0\0\0\0\0{", 9)}},
      {OutputKind::kPng, {"\x89PNG\r\n\x1a\n...."}},
      {OutputKind::kSvg,
       {"<?xml version=\"1.0\"?>\n<svg>", "<svg width=\"1\">"}},
      {OutputKind::kPort, {"65535\n", "7001"}}};
  for (const auto& c : kCases) {
    for (const std::string& start : c.starts) {
      WriteFile(path_, start);
      const absl::Status status = CheckOutputFile("--flag", path_, c.kind);
      EXPECT_TRUE(status.ok()) << status;
    }
  }
}

// --step_losses=photos.lmdb left 30 bytes of a dataset that was served.
TEST_F(OutputFile, OfAnotherKindIsKept) {
  const struct {
    OutputKind kind;
    std::string start;
    const char* is_not;
    const char* but;
  } kCases[] = {
      {OutputKind::kStepLosses, Lmdb(), "\"EPOCH STEP LOSS\" lines",
       "an LMDB database"},
      {OutputKind::kStepLosses, "photo,label\n1.jpg,0\n", "EPOCH STEP LOSS",
       "a text file"},
      {OutputKind::kStepLosses, "0 0 2.5\nnote\n", "EPOCH STEP LOSS",
       "a text file"},
      {OutputKind::kStepLosses, "12 photos", "EPOCH STEP LOSS", "a text file"},
      {OutputKind::kJson, Lmdb(), "is not a JSON file", "an LMDB database"},
      {OutputKind::kJson, "PAR1....", "is not a JSON file", "a Parquet file"},
      {OutputKind::kJson, std::string("ab\0c", 4), "JSON", "a binary file"},
      // Each of these was replaced.
      {OutputKind::kJson, "[project]\nname = \"a\"\n", "JSON", "a text file"},
      {OutputKind::kJson, "[[bin]]\nnames = [\"a\"]", "JSON", "a text file"},
      {OutputKind::kJson, "[1, 2]\n", "JSON", "a text file"},
      {OutputKind::kJson, "{ echo hi; }\n", "JSON", "a text file"},
      {OutputKind::kJson, "{\"a\": 1}\n{\"a\": 2}, x\n", "JSON", "a text file"},
      {OutputKind::kJson, "{", "JSON", "a text file"},
      // Byte 8 is {.
      {OutputKind::kJson, "sources {\n  dataset: 'a'\n}\n", "JSON",
       "a text file"},
      {OutputKind::kSafetensors, "sources {}", "safetensors", "a text file"},
      {OutputKind::kTorchWeights, "\x80\x81text", "weights file",
       "a text file"},
      {OutputKind::kSvg, "<?xml version=\"1.0\"?>\n<project/>", "SVG",
       "a text file"},
      {OutputKind::kCheckpoint, Lmdb(), "is not a checkpoint",
       "an LMDB database"},
      {OutputKind::kCheckpoint, Zip("archive/data.pkl"), "not a checkpoint",
       "a weights file of torch.save"},
      {OutputKind::kCheckpoint, Zip("photos/1.jpg"), "not a checkpoint",
       "a ZIP archive"},
      {OutputKind::kTorchWeights, Zip("archive/data/0"), "not a weights file",
       "a checkpoint"},
      {OutputKind::kSafetensors, "{\n  \"ended\": 1}", "safetensors",
       "a JSON file"},
      {OutputKind::kPort, "7001\n7002\n", "not a port file", "a text file"},
      {OutputKind::kPort, "1234567", "not a port file", "a text file"},
      {OutputKind::kPort, Lmdb(), "not a port file", "an LMDB database"},
      {OutputKind::kPng, "\xff\xd8\xff\xe0", "PNG", "a JPEG picture"},
      {OutputKind::kSvg, "\x89PNG\r\n\x1a\n", "SVG", "a PNG picture"}};
  for (const auto& c : kCases) {
    WriteFile(path_, c.start);
    const absl::Status status = CheckOutputFile("--flag", path_, c.kind);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << c.but;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("--flag=" + path_), HasSubstr(c.is_not),
                      HasSubstr(std::string("appears to be ") + c.but),
                      HasSubstr("name another file")));
    EXPECT_EQ(testing::ReadFile(path_), c.start);
  }
}

TEST_F(OutputFile, MayBeAbsentEmptyOrSpecial) {
  const auto check = [](const std::string& path) {
    return CheckOutputFile("--json", path, OutputKind::kJson);
  };
  EXPECT_TRUE(check("").ok());
  EXPECT_TRUE(check(path_).ok());
  EXPECT_TRUE(check("/dev/null").ok());
  EXPECT_TRUE(check("/dev/stdout").ok());
  EXPECT_TRUE(check("/proc").ok()) << "a folder is another error";
  WriteFile(path_, "");
  EXPECT_TRUE(check(path_).ok());
  const std::string pipe = path_ + ".pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_TRUE(check(pipe).ok());
  // The file that a link leads to would be replaced.
  WriteFile(path_, "notes");
  const std::string link = path_ + ".link";
  ASSERT_EQ(symlink(path_.c_str(), link.c_str()), 0);
  EXPECT_FALSE(check(link).ok());
}

}  // namespace
}  // namespace millrace
