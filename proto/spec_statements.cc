#include "proto/spec_statements.h"

#include "absl/strings/ascii.h"

namespace millrace {
namespace {

class Scanner {
 public:
  explicit Scanner(absl::string_view text) : text_(text) {}

  // Until the text ends or a closing bracket comes that was opened outside.
  std::vector<SpecStatement> Statements(int depth) {
    std::vector<SpecStatement> found;
    while (true) {
      SkipSpace();
      if (AtEnd() || (depth > 0 && IsClosing(Peek()))) return found;
      if (!IsWord(Peek())) {
        ++at_;  // a stray character
        continue;
      }
      SpecStatement statement;
      statement.begin = at_;
      Word();
      End(statement);
      SkipSpace();
      const bool colon = !AtEnd() && Peek() == ':';
      if (colon) {
        ++at_;
        End(statement);
        SkipSpace();
      }
      if (!AtEnd() && (colon || IsOpening(Peek()))) Value(statement, depth);
      found.push_back(std::move(statement));
    }
  }

 private:
  static bool IsOpening(char c) { return c == '{' || c == '<' || c == '['; }
  static bool IsClosing(char c) { return c == '}' || c == '>' || c == ']'; }
  static bool IsQuote(char c) { return c == '"' || c == '\''; }
  // Of names and numbers.
  static bool IsWord(char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' ||
           c == '.' || c == '-' || c == '+';
  }

  bool AtEnd() const { return at_ >= text_.size(); }
  char Peek() const { return text_[at_]; }
  void End(SpecStatement& statement) const { statement.end = at_; }

  // Separators between statements count as space.
  void SkipSpace() {
    while (!AtEnd()) {
      if (Peek() == '#') {
        while (!AtEnd() && Peek() != '\n') ++at_;
      } else if (absl::ascii_isspace(static_cast<unsigned char>(Peek())) ||
                 Peek() == ',' || Peek() == ';') {
        ++at_;
      } else {
        return;
      }
    }
  }

  void Word() {
    while (!AtEnd() && IsWord(Peek())) ++at_;
  }

  void Quoted() {
    const char quote = Peek();
    ++at_;
    while (!AtEnd() && Peek() != quote && Peek() != '\n') {
      at_ += Peek() == '\\' ? 2 : 1;
    }
    if (!AtEnd() && Peek() == quote) ++at_;
    if (at_ > text_.size()) at_ = text_.size();
  }

  void Value(SpecStatement& statement, int depth) {
    if (IsQuote(Peek())) {
      while (!AtEnd() && IsQuote(Peek())) {  // several make one string
        Quoted();
        End(statement);
        SkipSpace();
      }
    } else if (Peek() == '[') {
      ++at_;
      while (true) {
        SkipSpace();
        if (AtEnd()) break;
        if (IsClosing(Peek())) {
          if (Peek() == ']') ++at_;
          break;
        }
        Element(statement, depth);
      }
      End(statement);
    } else if (IsOpening(Peek())) {
      Element(statement, depth);
      End(statement);
    } else if (IsWord(Peek())) {
      const size_t begin = at_;
      Word();
      const size_t end = at_;
      SkipSpace();
      // The value is missing and this is the next name.
      const bool name = !AtEnd() && (Peek() == ':' || Peek() == '{');
      at_ = name ? begin : end;
      if (!name) End(statement);
    }
  }

  // A message, or anything else in a list.
  void Element(SpecStatement& statement, int depth) {
    if (IsQuote(Peek())) return Quoted();
    if (IsWord(Peek())) return Word();
    const bool message = IsOpening(Peek()) && depth < kMaxStatementDepth;
    ++at_;
    if (!message) return;
    for (SpecStatement& inner : Statements(depth + 1)) {
      statement.inner.push_back(std::move(inner));
    }
    if (!AtEnd() && IsClosing(Peek())) ++at_;
  }

  const absl::string_view text_;
  size_t at_ = 0;
};

}  // namespace

std::vector<SpecStatement> FindStatements(absl::string_view text) {
  return Scanner(text).Statements(0);
}

const SpecStatement* InnermostAt(const std::vector<SpecStatement>& statements,
                                 size_t offset) {
  for (const SpecStatement& statement : statements) {
    if (offset < statement.begin || offset >= statement.end) continue;
    const SpecStatement* inner = InnermostAt(statement.inner, offset);
    return inner == nullptr ? &statement : inner;
  }
  return nullptr;
}

const SpecStatement* LastBefore(const std::vector<SpecStatement>& statements,
                                size_t offset) {
  const SpecStatement* last = nullptr;
  for (const SpecStatement& statement : statements) {
    if (statement.begin >= offset) break;
    if (statement.end <= offset) last = &statement;
    const SpecStatement* inner = LastBefore(statement.inner, offset);
    // Within a statement that is over, the whole counts.
    if (inner != nullptr && statement.end > offset) last = inner;
  }
  return last;
}

}  // namespace millrace
