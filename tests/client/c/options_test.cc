// Every option by its name: where it goes, what it refuses, and what it
// contradicts.

#include "client/c/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"

namespace millrace::c {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class OptionsTest : public ::testing::Test {
 protected:
  OptionsTest() {
    Set("endpoint", "a:1");
    Set("dataset", "photos");
    Set("preset", "mnist");
    Set("batch_size", "64");
  }
  void Set(absl::string_view name, absl::string_view value) {
    const absl::Status status = values_.Set(name, value);
    EXPECT_TRUE(status.ok()) << status;
  }
  void ExpectRefused(absl::string_view name, absl::string_view value,
                     const std::string& words) {
    const absl::Status status = values_.Set(name, value);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << name << "=" << value;
    EXPECT_THAT(std::string(status.message()), HasSubstr(words));
  }
  LoadRequest Make() {
    const absl::StatusOr<LoadRequest> request = MakeLoadRequest(values_);
    EXPECT_TRUE(request.ok()) << request.status();
    EXPECT_EQ(Validate(), "");
    return request.ok() ? *request : LoadRequest();
  }
  void ExpectNotMade(const std::string& words) {
    const absl::Status status = MakeLoadRequest(values_).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(words));
    EXPECT_EQ(Validate(), "INVALID_ARGUMENT: " + std::string(status.message()));
  }
  // What millrace_options_validate() says; "" when all is well.
  std::string Validate() const {
    const millrace_options options{values_};
    millrace_error* error = nullptr;
    const millrace_status status = millrace_options_validate(&options, &error);
    EXPECT_EQ(status == MILLRACE_STATUS_OK, error == nullptr);
    if (error == nullptr) return "";
    EXPECT_EQ(millrace_error_status(error), status);
    const std::string text = absl::StrCat(millrace_status_name(status), ": ",
                                          millrace_error_message(error));
    millrace_error_free(error);
    return text;
  }

  OptionValues values_;
};

TEST_F(OptionsTest, TheHeaderListsEveryOptionAndNoOther) {
  std::ifstream file("client/c/millrace.h");
  std::stringstream text;
  text << file.rdbuf();
  const std::string header = text.str();
  const size_t begin = header.find("What to load:\n");
  const size_t end = header.find("typedef struct millrace_options");
  ASSERT_NE(begin, header.npos);
  ASSERT_NE(end, header.npos);
  std::set<std::string> listed;
  std::istringstream lines(header.substr(begin, end - begin));
  for (std::string line; std::getline(lines, line);) {
    // " *   name   what it is"
    if (line.rfind(" *   ", 0) != 0 || line[5] == ' ') continue;
    std::istringstream words(line.substr(5));
    std::string name;
    words >> name;
    listed.insert(name);
  }
  std::set<std::string> known;
  for (size_t i = 0; i < millrace_option_count(); ++i) {
    known.insert(millrace_option_name(i));
  }
  EXPECT_EQ(known.size(), millrace_option_count());
  EXPECT_EQ(listed, known);
  EXPECT_EQ(millrace_option_name(millrace_option_count()), nullptr);
}

TEST_F(OptionsTest, SetsWhatTheNamesSay) {
  Set("rank", "1");
  Set("world_size", "2");
  Set("start_epoch", "3");
  Set("start_step", "4");
  Set("epochs", "0");
  Set("window", "8");
  Set("window_bytes", "1GiB");
  Set("same_host", "auto");
  Set("verify_payload", "false");
  Set("open_timeout", "1s");
  Set("next_timeout", "300ms");
  Set("step_timeout", "2.5");
  Set("hedge_share", "0.25");
  Set("hedge_floor", "0");
  Set("expected_plan_hash", "00fF");
  Set("expected_fingerprint", "content");
  Set("read_only", "true");
  const HostLoaderOptions options = Make().options;
  EXPECT_EQ(options.endpoint, "a:1");
  EXPECT_EQ(options.rank, 1);
  EXPECT_EQ(options.world_size, 2);
  EXPECT_EQ(options.start, (Position{3, 4}));
  EXPECT_EQ(options.epochs, 0);
  EXPECT_EQ(options.window, 8);
  EXPECT_EQ(options.window_bytes, uint64_t{1} << 30);
  EXPECT_EQ(options.same_host, SameHost::kAuto);
  EXPECT_FALSE(options.verify_payload);
  EXPECT_EQ(options.open_timeout, absl::Seconds(1));
  EXPECT_EQ(options.next_timeout, absl::Milliseconds(300));
  EXPECT_EQ(options.step_timeout, absl::Milliseconds(2500));
  EXPECT_EQ(options.hedge_share, 0.25);
  EXPECT_EQ(options.hedge_floor, absl::ZeroDuration());
  EXPECT_EQ(options.expected_plan_hash, std::string("\0\xff", 2));
  EXPECT_EQ(options.expected_fingerprint, "content");
  EXPECT_TRUE(options.read_only_payload);
  EXPECT_EQ(options.offered, nullptr);
  Set("window", "0");
  Set("initial_window", "5");
  EXPECT_EQ(Make().options.initial_window, 5);
}

TEST_F(OptionsTest, MakesTheSpecOfAPreset) {
  Set("outputs", "image,label");
  Set("seed", "18446744073709551615");
  Set("shuffle", "sequential");
  Set("last_batch", "pad");
  Set("compression", "zstd");
  const LoadRequest request = Make();
  EXPECT_EQ(request.preset_of, "");
  EXPECT_EQ(request.options.spec.ShortDebugString(),
            "preset: \"mnist\" sources { dataset: \"photos\" } seed: "
            "18446744073709551615 shuffle { mode: SEQUENTIAL } batch_size: 64 "
            "last_batch: LAST_BATCH_PAD outputs { field: \"image\" } outputs { "
            "field: \"label\" } compression: COMPRESSION_ZSTD");
}

TEST_F(OptionsTest, WithoutAPresetTheDatasetHasItsOwn) {
  Set("preset", "");
  EXPECT_EQ(Make().preset_of, "photos");
}

TEST_F(OptionsTest, ReplacesPartsOfAPipeline) {
  Set("preset", "");
  Set("batch_size", "");
  Set("dataset", "");
  Set("pipeline",
      "sources { dataset: \"a\" } batch_size: 8 seed: 5 shuffle { mode: BLOCK "
      "block_size: 4 }");
  const LoadRequest request = Make();
  EXPECT_EQ(request.preset_of, "");
  EXPECT_EQ(request.options.spec.batch_size(), 8);
  EXPECT_EQ(request.options.spec.shuffle().block_size(), 4);
  Set("dataset", "b");
  Set("batch_size", "16");
  Set("seed", "0");
  Set("shuffle", "global");
  EXPECT_EQ(Make().options.spec.ShortDebugString(),
            "sources { dataset: \"b\" } shuffle { } batch_size: 16");
}

TEST_F(OptionsTest, NamesTheNearestOption) {
  ExpectRefused("batchsize", "1",
                "there is no option \"batchsize\"; did you mean batch_size?");
  ExpectRefused("", "1", "there is no option \"\"; millrace.h lists");
  ExpectRefused("a\xff", "1", "\\377");
}

TEST_F(OptionsTest, RefusesAValueAndKeepsTheOneBefore) {
  ExpectRefused("batch_size", "many", "option batch_size=many: expected a");
  ExpectRefused("batch_size", "-1", "expected a whole number from 0");
  ExpectRefused("rank", "4294967296", "at most 4294967295");
  ExpectRefused("rank", "", "expected a whole number");
  ExpectRefused("verify_payload", "maybe", "expected true or false");
  ExpectRefused("open_timeout", "0", "expected a time above 0");
  ExpectRefused("hedge_share", "nan", "expected a number");
  ExpectRefused("window_bytes", "0", "expected a size above 0");
  ExpectRefused("shuffle", "", "expected global or sequential");
  ExpectRefused("last_batch", "keep", "expected drop, pad or partial");
  ExpectRefused("memory", "mine", "expected own or offered");
  ExpectRefused("same_host", "yes", "expected off, auto or require");
  ExpectRefused("expected_plan_hash", "xyz", "hexadecimal");
  ExpectRefused("dataset", "a\xff", "not UTF-8");
  const HostLoaderOptions options = Make().options;
  EXPECT_EQ(options.spec.batch_size(), 64);
  EXPECT_EQ(options.rank, 0);
  EXPECT_TRUE(options.verify_payload);
}

TEST_F(OptionsTest, RefusesWhatIsMissingOrContradicts) {
  values_.loader.endpoint = "";
  ExpectNotMade("endpoint is missing");
  Set("endpoint", "a");
  ExpectNotMade("endpoint `a`");
  Set("endpoint", "a:1");
  Set("rank", "2");
  ExpectNotMade("rank=2 is outside the limits");
  Set("rank", "0");
  Set("initial_window", "1");
  ExpectNotMade("initial_window=1 is outside the limits: give 2 to 256");
  Set("initial_window", "0");
  Set("rank", "2");
  Set("world_size", "3");
  ExpectNotMade("cannot be shared equally by 3 ranks");
  Set("world_size", "4");
  Set("batch_size", "0");
  ExpectNotMade("option batch_size is missing or 0");
  Set("batch_size", "64");
  Set("outputs", "image,image");
  ExpectNotMade("image");
  Set("outputs", "");
  Set("pipeline", "batch_size: 1");
  ExpectNotMade("preset and pipeline cannot be used together");
  Set("preset", "");
  Set("pipeline_name", "my.textproto");
  Set("pipeline", "batch_sise: 1");
  ExpectNotMade("my.textproto:1:");
  Set("pipeline", "sources { dataset: \"a\" } sources { dataset: \"b\" }");
  ExpectNotMade("cannot replace the 2 sources of my.textproto");
  Set("pipeline", "seed: 1");
  Set("dataset", "");
  ExpectNotMade("option dataset is missing");
  Set("dataset", "photos");
  Set("memory", "offered");
  Set("read_only", "true");
  ExpectNotMade("memory=offered and read_only=true cannot be used");
  Set("read_only", "false");
  EXPECT_NE(Make().options.offered, nullptr);
}

}  // namespace
}  // namespace millrace::c
