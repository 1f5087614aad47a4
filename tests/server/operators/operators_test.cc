#include "server/operators/operators.h"

#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/operators/operator_ref.h"
#include "server/operators/operator_result.h"
#include "tests/testing/subprocess.h"

namespace millrace::operators {
namespace {

using ::testing::HasSubstr;
using testing::ProgramPath;

std::string Library(const std::string& name) {
  return ProgramPath("tests/testing/operators/" + name + ".so");
}

TEST(Operators, ListsWhatALibraryHas) {
  const auto operators = Operators::Load({Library("good")});
  ASSERT_TRUE(operators.ok()) << operators.status();
  const Operators::Transform* paint = (*operators)->FindTransform("paint");
  ASSERT_NE(paint, nullptr);
  EXPECT_EQ(paint->ref.name(), "paint");
  EXPECT_EQ(paint->ref.version(), "1.0");
  EXPECT_EQ(paint->ref.library_hash().size(), 32);
  EXPECT_EQ(paint->file, Library("good"));
  EXPECT_NE((*operators)->FindDecoder("odd"), nullptr);
  EXPECT_NE((*operators)->FindSource("count"), nullptr);
  EXPECT_EQ((*operators)->FindSource("paint"), nullptr);
  EXPECT_EQ((*operators)->FindTransform("none"), nullptr);
  std::string list;
  for (const Operators::Entry& entry : (*operators)->List()) {
    absl::StrAppend(&list, entry.kind, " ", entry.ref.name(), ";");
  }
  EXPECT_EQ(list,
            "decoder odd;source count;transform paint;transform rescale;");
}

TEST(Operators, TheHashIsThatOfTheFile) {
  const auto first = Operators::Load({Library("good")});
  const auto again = Operators::Load({Library("good")});
  const auto rebuilt = Operators::Load({Library("good_rebuilt")});
  ASSERT_TRUE(first.ok() && again.ok() && rebuilt.ok());
  const auto hash = [](const auto& operators) {
    return (*operators)->FindTransform("paint")->ref.library_hash();
  };
  EXPECT_EQ(hash(first), hash(again));
  EXPECT_NE(hash(first), hash(rebuilt));
}

TEST(Operators, NoLibraryHasNoOperator) {
  const auto operators = Operators::Load({});
  ASSERT_TRUE(operators.ok());
  EXPECT_TRUE((*operators)->List().empty());
}

TEST(Operators, TwoLibrariesMayNotShareAName) {
  const auto operators =
      Operators::Load({Library("good"), Library("good_newer")});
  EXPECT_EQ(operators.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(operators.status().message(), HasSubstr("transform paint"));
  EXPECT_THAT(operators.status().message(), HasSubstr(Library("good")));
  EXPECT_THAT(operators.status().message(), HasSubstr(Library("good_newer")));
}

struct Bad {
  const char* library;
  const char* says;
};
class BadLibrary : public ::testing::TestWithParam<Bad> {};

TEST_P(BadLibrary, IsRefused) {
  const std::string file = Library(std::string("bad_") + GetParam().library);
  const auto operators = Operators::Load({file});
  EXPECT_EQ(operators.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(operators.status().message(), HasSubstr(file));
  EXPECT_THAT(operators.status().message(), HasSubstr(GetParam().says));
}

INSTANTIATE_TEST_SUITE_P(
    Every, BadLibrary,
    ::testing::Values(
        Bad{"wrong_abi",
            "version 99 of the operator interface, but this server has version "
            "1"},
        Bad{"no_symbol", "does not export millrace_operators()"},
        Bad{"null_library", "refuses to run with Millrace"},
        Bad{"short_library", "millrace_library with struct_size 8"},
        Bad{"short_transform", "transform 0 with struct_size"},
        Bad{"empty", "lists no operator"},
        Bad{"null_list", "says that it has 1 transforms and lists none"},
        Bad{"null_entry", "has no transform 1"},
        Bad{"no_name", "transform 0 whose name is invalid"},
        Bad{"odd_name", "transform 0 whose name is invalid"},
        Bad{"no_version", "transform 0 whose version is invalid"},
        Bad{"no_apply", "transform bad without apply()"},
        Bad{"no_decode", "decoder bad without decode()"},
        Bad{"no_read", "source bad without read()"},
        Bad{"odd_kind", "transform bad with works_on 7"},
        Bad{"reserved_source",
            "source lmdb, which is the name of a built-in format"},
        Bad{"unresolved", "a_function_that_nobody_defines"}),
    [](const auto& info) { return std::string(info.param.library); });

TEST(Operators, FilesThatAreNoLibraries) {
  const std::string folder = testing::NewTempDir();
  const auto missing = Operators::Load({folder + "/none.so"});
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(missing.status().message(), HasSubstr(folder + "/none.so"));
  EXPECT_THAT(missing.status().message(), HasSubstr("No such file"));

  const auto directory = Operators::Load({folder});
  EXPECT_EQ(directory.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(directory.status().message(), HasSubstr("directory"));

  // The server waited for a writer for ever.
  const std::string pipe = folder + "/pipe.so";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const auto fifo = Operators::Load({pipe});
  EXPECT_EQ(fifo.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(fifo.status().message(), HasSubstr(pipe + ": it is a FIFO"));

  testing::WriteFile(folder + "/text.so", "no library");
  const auto text = Operators::Load({folder + "/text.so"});
  EXPECT_EQ(text.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(text.status().message(), HasSubstr("cannot be loaded"));

  // Not looked for in the system's folders.
  const auto bare = Operators::Load({"libm.so.6"});
  EXPECT_EQ(bare.status().code(), absl::StatusCode::kNotFound);
}

OperatorRef Ref(const std::string& version, const std::string& hash) {
  OperatorRef ref;
  ref.set_name("gamma");
  ref.set_version(version);
  ref.set_library_hash(hash);
  return ref;
}

TEST(OperatorRef, SaysWhatDiffers) {
  const OperatorRef have = Ref("1.0", "aa");
  EXPECT_TRUE(CheckSameOperator("transform", have, have).ok());
  EXPECT_TRUE(CheckSameOperator("transform", Ref("", ""), have).ok());
  EXPECT_TRUE(CheckSameOperator("transform", Ref("1.0", ""), have).ok());
  const absl::Status version =
      CheckSameOperator("transform", Ref("1.1", "bb"), have);
  EXPECT_EQ(version.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(version.message(), HasSubstr("the pipeline names version 1.1"));
  EXPECT_THAT(version.message(), HasSubstr("this server has version 1.0"));
  const absl::Status library =
      CheckSameOperator("transform", Ref("1.0", "bb"), have);
  EXPECT_EQ(library.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(library.message(), HasSubstr("library file bb"));
  EXPECT_THAT(library.message(), HasSubstr("this server has loaded aa"));
}

TEST(OperatorResult, BecomesAStatus) {
  const auto status = [](millrace_result code, const char* text) {
    OperatorResult result;
    result = millrace_fail(code, result.error(), text);
    return result.ToStatus("operator x", absl::StatusCode::kDataLoss);
  };
  EXPECT_TRUE(status(MILLRACE_OK, "ignored").ok());
  EXPECT_EQ(status(MILLRACE_INVALID, "why"),
            absl::DataLossError("operator x: why"));
  EXPECT_EQ(status(MILLRACE_NOT_FOUND, "why"),
            absl::NotFoundError("operator x: why"));
  EXPECT_EQ(status(MILLRACE_UNAVAILABLE, "why"),
            absl::UnavailableError("operator x: why"));
  EXPECT_EQ(status(MILLRACE_NO_MEMORY, "why"),
            absl::ResourceExhaustedError("operator x: why"));
  EXPECT_EQ(status(77, "why").code(), absl::StatusCode::kInternal);
  EXPECT_THAT(status(MILLRACE_INVALID, "").message(),
              HasSubstr("without a reason"));
}

TEST(OperatorResult, TakesSentencesThatAreTooLongOrUnended) {
  OperatorResult result;
  std::memset(result.error(), 'x', MILLRACE_ERROR_BYTES);
  result = MILLRACE_INVALID;
  const absl::Status status = result.ToStatus("o", absl::StatusCode::kDataLoss);
  EXPECT_EQ(status.message(), "o: " + std::string(MILLRACE_ERROR_BYTES, 'x'));
}

TEST(Printable, KeepsTextsAndEscapesTheRest) {
  EXPECT_EQ(Printable("größer 漢字 😀"), "größer 漢字 😀");
  EXPECT_EQ(Printable("a\nb\x1b[1m\x7f"), "a\\nb\\033[1m\\177");
  EXPECT_EQ(Printable("cut \xe6\xbc"), "cut \\346\\274");
  EXPECT_EQ(Printable("\xc0\xaf"), "\\300\\257");
}

}  // namespace
}  // namespace millrace::operators
