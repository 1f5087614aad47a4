#include "trainer/weights/pickle.h"

#include <bit>
#include <cstddef>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status_macros.h"

namespace millrace::weights {

// The stack machine that a pickle is a program for. It runs no code of the
// file.
class PickleMachine {
 public:
  explicit PickleMachine(absl::string_view bytes) : bytes_(bytes) {}

  absl::StatusOr<Pickle> Run() {
    while (true) {
      MR_ASSIGN_OR_RETURN(const uint64_t code, Number(1));
      if (code == '.') break;
      MR_RETURN_IF_ERROR(Step(static_cast<uint8_t>(code)));
    }
    MR_ASSIGN_OR_RETURN(PickleValue * root, Pop());
    pickle_.root_ = root;
    return std::move(pickle_);
  }

 private:
  using Value = PickleValue;

  absl::Status Bad(absl::string_view what) const {
    return absl::DataLossError(
        absl::StrCat("its pickle is damaged at byte ", at_, ": ", what));
  }

  absl::StatusOr<absl::string_view> Take(uint64_t count) {
    if (count > bytes_.size() - at_) return Bad("it is truncated");
    const absl::string_view taken = bytes_.substr(at_, count);
    at_ += count;
    return taken;
  }

  // Little-endian.
  absl::StatusOr<uint64_t> Number(size_t bytes) {
    MR_ASSIGN_OR_RETURN(const absl::string_view taken, Take(bytes));
    uint64_t value = 0;
    for (size_t i = taken.size(); i > 0; --i) {
      value = value << 8 | static_cast<uint8_t>(taken[i - 1]);
    }
    return value;
  }

  absl::StatusOr<absl::string_view> Line() {
    const size_t end = bytes_.find('\n', at_);
    if (end == absl::string_view::npos) return Bad("it is truncated");
    const absl::string_view line = bytes_.substr(at_, end - at_);
    at_ = end + 1;
    return line;
  }

  Value& New(Value::Kind kind) {
    pickle_.values_.emplace_back();
    pickle_.values_.back().kind = kind;
    return pickle_.values_.back();
  }
  Value& Push(Value::Kind kind) {
    Value& value = New(kind);
    stack_.push_back(&value);
    return value;
  }
  absl::Status PushInt(Value::Kind kind, int64_t integer) {
    Push(kind).integer = integer;
    return absl::OkStatus();
  }
  absl::Status PushText(Value::Kind kind, size_t length_bytes) {
    MR_ASSIGN_OR_RETURN(const uint64_t length, Number(length_bytes));
    MR_ASSIGN_OR_RETURN(const absl::string_view text, Take(length));
    Push(kind).text = std::string(text);
    return absl::OkStatus();
  }

  size_t Floor() const { return marks_.empty() ? 0 : marks_.back(); }

  absl::StatusOr<Value*> Pop() {
    if (stack_.size() <= Floor()) return Bad("it pops from an empty stack");
    Value* value = stack_.back();
    stack_.pop_back();
    return value;
  }

  absl::StatusOr<Value*> Top() {
    if (stack_.size() <= Floor()) return Bad("it pops from an empty stack");
    return stack_.back();
  }

  // Removes and returns the values above the last mark.
  absl::StatusOr<std::vector<const Value*>> PopMark() {
    if (marks_.empty()) return Bad("a mark is missing");
    const auto first = stack_.begin() + static_cast<ptrdiff_t>(marks_.back());
    std::vector<const Value*> items(first, stack_.end());
    stack_.erase(first, stack_.end());
    marks_.pop_back();
    return items;
  }

  absl::Status Tuple(size_t count) {
    std::vector<const Value*> items(count);
    for (size_t i = count; i > 0; --i) {
      MR_ASSIGN_OR_RETURN(items[i - 1], Pop());
    }
    Push(Value::kTuple).items = std::move(items);
    return absl::OkStatus();
  }

  absl::Status Extend(Value::Kind kind, std::vector<const Value*> items) {
    MR_ASSIGN_OR_RETURN(Value * into, Top());
    // Arguments that an unknown call receives later are ignored.
    if (into->kind == Value::kCall) return absl::OkStatus();
    if (into->kind != kind)
      return Bad("it adds to a value that is no collection");
    if (kind == Value::kDict && items.size() % 2 != 0) {
      return Bad("a key without a value");
    }
    into->items.insert(into->items.end(), items.begin(), items.end());
    return absl::OkStatus();
  }

  absl::Status Memoize(uint64_t index) {
    MR_ASSIGN_OR_RETURN(Value * value, Top());
    memo_[index] = value;
    return absl::OkStatus();
  }

  absl::Status Recall(uint64_t index) {
    const auto known = memo_.find(index);
    if (known == memo_.end())
      return Bad("it reads a memo that it has not written");
    stack_.push_back(known->second);
    return absl::OkStatus();
  }

  // A call of a class or a function: its name and arguments.
  absl::Status Call() {
    MR_ASSIGN_OR_RETURN(const Value* arguments, Pop());
    MR_ASSIGN_OR_RETURN(const Value* function, Pop());
    if (function->kind == Value::kGlobal &&
        function->text == "collections OrderedDict" &&
        arguments->kind == Value::kTuple && arguments->items.empty()) {
      Push(Value::kDict);
      return absl::OkStatus();
    }
    Push(Value::kCall).items = {function, arguments};
    return absl::OkStatus();
  }

  absl::Status LongInteger(size_t length_bytes) {
    MR_ASSIGN_OR_RETURN(const uint64_t length, Number(length_bytes));
    if (length > 8) {
      Push(Value::kOther);
      return Take(length).status();
    }
    MR_ASSIGN_OR_RETURN(uint64_t value, Number(length));
    // Two's complement.
    if (length > 0 && length < 8 && (value >> (8 * length - 1)) != 0) {
      value |= ~uint64_t{0} << (8 * length);
    }
    return PushInt(Value::kInt, static_cast<int64_t>(value));
  }

  absl::Status Step(uint8_t code) {
    switch (code) {
      case 0x80:  // PROTO
        return Number(1).status();
      case 0x95:  // FRAME
        return Number(8).status();
      case '(':
        marks_.push_back(stack_.size());
        return absl::OkStatus();
      case '0':  // POP
        if (!marks_.empty() && stack_.size() == marks_.back()) {
          marks_.pop_back();
          return absl::OkStatus();
        }
        return Pop().status();
      case '1':  // POP_MARK
        return PopMark().status();
      case 'N':
        Push(Value::kNone);
        return absl::OkStatus();
      case 0x88:
        return PushInt(Value::kBool, 1);
      case 0x89:
        return PushInt(Value::kBool, 0);
      case 'J': {
        MR_ASSIGN_OR_RETURN(const uint64_t value, Number(4));
        return PushInt(Value::kInt,
                       static_cast<int32_t>(static_cast<uint32_t>(value)));
      }
      case 'K':
      case 'M': {
        MR_ASSIGN_OR_RETURN(const uint64_t value, Number(code == 'K' ? 1 : 2));
        return PushInt(Value::kInt, static_cast<int64_t>(value));
      }
      case 0x8A:
        return LongInteger(1);
      case 0x8B:
        return LongInteger(4);
      case 'G': {
        MR_ASSIGN_OR_RETURN(const absl::string_view bytes, Take(8));
        uint64_t bits = 0;  // big-endian, unlike all other numbers
        for (const char c : bytes) bits = bits << 8 | static_cast<uint8_t>(c);
        Push(Value::kFloat).number = std::bit_cast<double>(bits);
        return absl::OkStatus();
      }
      case 'X':
        return PushText(Value::kText, 4);
      case 0x8C:
        return PushText(Value::kText, 1);
      case 0x8D:
        return PushText(Value::kText, 8);
      case 'C':
        return PushText(Value::kBytes, 1);
      case 'B':
        return PushText(Value::kBytes, 4);
      case 0x8E:
      case 0x96:  // a bytearray
        return PushText(Value::kBytes, 8);
      case ')':
        Push(Value::kTuple);
        return absl::OkStatus();
      case 0x85:
      case 0x86:
      case 0x87:
        return Tuple(code - 0x84u);
      case 't':
      case 'l':
      case 'd': {
        MR_ASSIGN_OR_RETURN(std::vector<const Value*> items, PopMark());
        if (code == 'd' && items.size() % 2 != 0) {
          return Bad("a key without a value");
        }
        Push(code == 't'   ? Value::kTuple
             : code == 'l' ? Value::kList
                           : Value::kDict)
            .items = std::move(items);
        return absl::OkStatus();
      }
      case ']':
        Push(Value::kList);
        return absl::OkStatus();
      case '}':
        Push(Value::kDict);
        return absl::OkStatus();
      case 0x8F:  // an empty set
        Push(Value::kList);
        return absl::OkStatus();
      case 'a': {
        MR_ASSIGN_OR_RETURN(const Value* item, Pop());
        return Extend(Value::kList, {item});
      }
      case 'e':
      case 0x90: {
        MR_ASSIGN_OR_RETURN(std::vector<const Value*> items, PopMark());
        return Extend(Value::kList, std::move(items));
      }
      case 's': {
        MR_ASSIGN_OR_RETURN(const Value* value, Pop());
        MR_ASSIGN_OR_RETURN(const Value* key, Pop());
        return Extend(Value::kDict, {key, value});
      }
      case 'u': {
        MR_ASSIGN_OR_RETURN(std::vector<const Value*> items, PopMark());
        return Extend(Value::kDict, std::move(items));
      }
      case 'c': {
        MR_ASSIGN_OR_RETURN(const absl::string_view module, Line());
        MR_ASSIGN_OR_RETURN(const absl::string_view name, Line());
        Push(Value::kGlobal).text = absl::StrCat(module, " ", name);
        return absl::OkStatus();
      }
      case 0x93: {
        MR_ASSIGN_OR_RETURN(const Value* name, Pop());
        MR_ASSIGN_OR_RETURN(const Value* module, Pop());
        Push(Value::kGlobal).text = absl::StrCat(module->text, " ", name->text);
        return absl::OkStatus();
      }
      case 'R':
      case 0x81:  // a class called through __new__
        return Call();
      case 'b':  // the state of an object
        MR_RETURN_IF_ERROR(Pop().status());
        return Top().status();
      case 'Q': {
        MR_ASSIGN_OR_RETURN(const Value* reference, Pop());
        Push(Value::kPersistent).items = {reference};
        return absl::OkStatus();
      }
      case 'q':
      case 'r': {
        MR_ASSIGN_OR_RETURN(const uint64_t index, Number(code == 'q' ? 1 : 4));
        return Memoize(index);
      }
      case 0x94:
        return Memoize(memo_.size());
      case 'h':
      case 'j': {
        MR_ASSIGN_OR_RETURN(const uint64_t index, Number(code == 'h' ? 1 : 4));
        return Recall(index);
      }
      default:
        return Bad(
            absl::StrFormat("the instruction 0x%02x is not known", code));
    }
  }

  const absl::string_view bytes_;
  size_t at_ = 0;
  Pickle pickle_;
  std::vector<Value*> stack_;
  std::vector<size_t> marks_;  // heights of the stack
  absl::flat_hash_map<uint64_t, Value*> memo_;
};

absl::StatusOr<Pickle> Pickle::Parse(absl::string_view bytes) {
  return PickleMachine(bytes).Run();
}

}  // namespace millrace::weights
