#include "server/storage/cache_folder.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <optional>
#include <string>

namespace millrace::storage {
namespace {

// An environment variable for the length of a test.
class Setting {
 public:
  Setting(const char* name, const char* value) : name_(name) {
    if (const char* old = getenv(name)) old_ = old;
    if (value == nullptr) {
      unsetenv(name);
    } else {
      setenv(name, value, 1);
    }
  }
  ~Setting() {
    if (old_.has_value()) {
      setenv(name_, old_->c_str(), 1);
    } else {
      unsetenv(name_);
    }
  }

 private:
  const char* const name_;
  std::optional<std::string> old_;
};

TEST(CacheFolderTest, TheDefault) {
  EXPECT_EQ(CacheFolder("off"), "");
  EXPECT_EQ(CacheFolder("/var/cache/m"), "/var/cache/m");
  const Setting home("HOME", "/home/ada");
  {
    const Setting xdg("XDG_CACHE_HOME", "/big/cache");
    EXPECT_EQ(CacheFolder(""), "/big/cache/millrace");
  }
  {
    const Setting xdg("XDG_CACHE_HOME", "relative");
    EXPECT_EQ(CacheFolder(""), "/home/ada/.cache/millrace");
  }
  const Setting xdg("XDG_CACHE_HOME", nullptr);
  EXPECT_EQ(CacheFolder(""), "/home/ada/.cache/millrace");
  const Setting none("HOME", nullptr);
  EXPECT_EQ(CacheFolder(""), "");
}

}  // namespace
}  // namespace millrace::storage
