// Libraries that are opened when they are needed: where they are looked for,
// and what is said of those that are missing, broken or of another version.

#include "common/plug_in.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gnu/libc-version.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/testing/subprocess.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

PlugIn Wanted() {
  return {.file = "libmillrace_thing.so",
          .function = "millrace_thing_v3",
          .user = "things",
          .where_missing = "build it",
          .where_broken = "install its package"};
}

TEST(PlugIn, IsLookedForBesideTheProgramAndBesideItsFolder) {
  const std::filesystem::path folder =
      std::filesystem::read_symlink("/proc/self/exe").parent_path();
  EXPECT_THAT(PlugInPaths("libx.so"),
              ElementsAre((folder / "lib/libx.so").string(),
                          (folder.parent_path() / "lib/libx.so").string()));
}

TEST(PlugIn, NamesTheFilesThatAreMissing) {
  const auto function =
      OpenPlugIn(Wanted(), {"/no/such/one.so", "/no/such/two.so"});
  EXPECT_EQ(function.status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(function.status().message(),
            "things need libmillrace_thing.so, which is not found: there is no "
            "/no/such/one.so and no /no/such/two.so; build it");
}

TEST(PlugIn, RefusesWhatDoesNotLoad) {
  const std::string path = testing::NewTempDir() + "/libmillrace_thing.so";
  testing::WriteFile(path, "no ELF");
  const auto function = OpenPlugIn(Wanted(), {"/no/such/one.so", path});
  EXPECT_EQ(function.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(function.status().message()),
              AllOf(HasSubstr(path + " does not load: "),
                    HasSubstr("; install its package")));
}

TEST(PlugIn, RefusesALibraryOfAnotherVersion) {
  // The C library, by a function of which no sanitizer has a copy.
  Dl_info c_library;
  ASSERT_NE(dladdr(reinterpret_cast<void*>(&gnu_get_libc_version), &c_library),
            0);
  const auto function = OpenPlugIn(Wanted(), {c_library.dli_fname});
  EXPECT_EQ(function.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(function.status().message()),
              AllOf(HasSubstr("has no millrace_thing_v3"),
                    HasSubstr("copy both from the same build")));
  PlugIn there = Wanted();
  there.function = "gnu_get_libc_version";
  const auto found = OpenPlugIn(there, {c_library.dli_fname});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(*found, reinterpret_cast<void*>(&gnu_get_libc_version));
}

}  // namespace
}  // namespace millrace
