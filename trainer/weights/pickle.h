// Python's pickle format as data: a tree of what the file says, of which
// nothing is run. Names of classes and functions stay names, calls of them stay
// calls (a function and its arguments), so a file can do no harm.
//
// Knows the instructions that protocols 2 to 5 use for what torch.save writes:
// None, booleans, whole and floating-point numbers, texts, bytes, tuples,
// lists, dictionaries, globals, calls and persistent references. An OrderedDict
// is a dictionary. States that calls are given afterwards are left out.
// See the comments in CPython's Lib/pickletools.py.
//
//   MR_ASSIGN_OR_RETURN(Pickle pickle, Pickle::Parse(bytes));
//   pickle.root().kind == PickleValue::kDict

#ifndef MILLRACE_TRAINER_WEIGHTS_PICKLE_H_
#define MILLRACE_TRAINER_WEIGHTS_PICKLE_H_

#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace millrace {

// Values may be shared, and a list may even hold itself.
struct PickleValue {
  enum Kind {
    kNone,
    kBool,        // integer: 0 or 1
    kInt,         // integer
    kFloat,       // number
    kText,        // text, UTF-8 or not
    kBytes,       // text
    kTuple,       // items
    kList,        // items
    kDict,        // items: key, value, key, value ...
    kGlobal,      // text: "module name"
    kCall,        // items: what is called, and its arguments
    kPersistent,  // items: the reference
    kOther,       // a number that 64 bits do not hold
  };
  Kind kind = kNone;
  int64_t integer = 0;
  double number = 0;
  std::string text;
  std::vector<const PickleValue*> items;
};

class Pickle {
 public:
  // DataLoss: cut, no pickle, or one that uses instructions beyond the above.
  static absl::StatusOr<Pickle> Parse(absl::string_view bytes);

  // Lives as long as this object, wherever that is moved.
  const PickleValue& root() const { return *root_; }

 private:
  friend class PickleMachine;
  Pickle() = default;

  std::deque<PickleValue> values_;
  const PickleValue* root_ = nullptr;
};

}  // namespace millrace

#endif  // MILLRACE_TRAINER_WEIGHTS_PICKLE_H_
