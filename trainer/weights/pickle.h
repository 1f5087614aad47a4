// Parses Python's pickle format into a tree of values. Nothing in it runs:
// names of classes and functions stay names, and calls stay values (a function
// and its arguments), so a file cannot do harm.
//
// Supports the instructions of protocols 2 to 5 for what torch.save writes:
// None, booleans, whole and floating-point numbers, texts, bytes, tuples,
// lists, dictionaries, globals, calls and persistent references. An OrderedDict
// is a dictionary. State that is set on an object after its call is dropped.
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

namespace millrace::weights {

// Values may be shared, and a list may contain itself.
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
    kCall,        // items: the function, and its arguments
    kPersistent,  // items: the reference
    kOther,       // a number of more than 64 bits
  };
  Kind kind = kNone;
  int64_t integer = 0;
  double number = 0;
  std::string text;
  std::vector<const PickleValue*> items;
};

class Pickle {
 public:
  // DataLoss: truncated, no pickle, or one with other instructions.
  static absl::StatusOr<Pickle> Parse(absl::string_view bytes);

  // Valid while this object lives, also after a move.
  const PickleValue& root() const { return *root_; }

 private:
  friend class PickleMachine;
  Pickle() = default;

  std::deque<PickleValue> values_;
  const PickleValue* root_ = nullptr;
};

}  // namespace millrace::weights

#endif  // MILLRACE_TRAINER_WEIGHTS_PICKLE_H_
