// Values as JSON writes them: text, numbers, lists, and objects on one line.
//
// It is not a parser, and it holds no tree of values: each function returns
// JSON text. An object keeps the order in which its fields are added. 64-bit
// integers are JSON numbers; a number that is not finite is null.
//
// Pure functions and plain data, one thread at a time.
//
//   const std::string json = JsonObject()
//                                .Add("name", "photos")
//                                .Add("shares", std::vector<double>{0.5, 1})
//                                .Json();
//   // {"name": "photos", "shares": [0.5, 1]}

#ifndef MILLRACE_COMMON_JSON_TEXT_H_
#define MILLRACE_COMMON_JSON_TEXT_H_

#include <string>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"

namespace millrace {

inline constexpr int kJsonDigits = 6;  // of a floating-point number

// A JSON string, with its quotes. Bytes above 127 stay as they are when the
// text is UTF-8 and become U+FFFD when it is not.
std::string JsonText(absl::string_view text);

// Null when the value is not finite, for which JSON has no number.
std::string JsonNumber(double value, int digits = kJsonDigits);

// The list of `each(element)`, which is JSON text.
template <typename List, typename Each>
std::string JsonList(const List& list, const Each& each) {
  return absl::StrCat(
      "[",
      absl::StrJoin(list, ", ",
                    [&each](std::string* out, const auto& element) {
                      out->append(each(element));
                    }),
      "]");
}

// Of a boolean, a number, text, an optional (null without a value), or a list
// of these.
template <typename T>
std::string JsonOf(const T& value, int digits = kJsonDigits) {
  if constexpr (std::is_same_v<T, bool>) {
    return value ? "true" : "false";
  } else if constexpr (std::is_integral_v<T>) {
    return absl::StrCat(value);
  } else if constexpr (std::is_floating_point_v<T>) {
    return JsonNumber(value, digits);
  } else if constexpr (std::is_convertible_v<const T&, absl::string_view>) {
    return JsonText(value);
  } else if constexpr (requires { value.has_value(); }) {
    return value.has_value() ? JsonOf(*value, digits) : "null";
  } else {
    return JsonList(value, [digits](const auto& element) {
      return JsonOf(element, digits);
    });
  }
}

class JsonObject {
 public:
  template <typename T>
  JsonObject& Add(absl::string_view key, const T& value) {
    return AddJson(key, JsonOf(value));
  }
  // `json` is JSON text.
  JsonObject& AddJson(absl::string_view key, absl::string_view json) {
    absl::StrAppend(&fields_, fields_.empty() ? "" : ", ", JsonText(key), ": ",
                    json);
    return *this;
  }

  std::string Json() const { return absl::StrCat("{", fields_, "}"); }

 private:
  std::string fields_;
};

}  // namespace millrace

#endif  // MILLRACE_COMMON_JSON_TEXT_H_
