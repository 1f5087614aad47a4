// Where the statements of a text in protobuf's text format begin and end, found
// without knowing the message: `name: value`, `name { ... }`, lists. Made for
// texts with mistakes: where the form is broken, a statement ends at the next
// word or bracket, and the scan continues.
//
// It says nothing about what is right. Pure functions; linear in the text but
// for nesting, of which more than kMaxStatementDepth is not looked into.
//
//   const SpecStatement* s = InnermostAt(FindStatements(text), offset);

#ifndef MILLRACE_PROTO_SPEC_STATEMENTS_H_
#define MILLRACE_PROTO_SPEC_STATEMENTS_H_

#include <cstddef>
#include <vector>

#include "absl/strings/string_view.h"

namespace millrace {

inline constexpr int kMaxStatementDepth = 100;

struct SpecStatement {
  size_t begin = 0;  // of its name
  size_t end = 0;    // behind its last character
  std::vector<SpecStatement> inner;
};

// Of the top level, in their order. Empty: nothing but space and comments.
std::vector<SpecStatement> FindStatements(absl::string_view text);

// The innermost statement that holds the character at `offset`; null: none.
const SpecStatement* InnermostAt(const std::vector<SpecStatement>& statements,
                                 size_t offset);

// The statement that ends last at or before `offset`; null: none.
const SpecStatement* LastBefore(const std::vector<SpecStatement>& statements,
                                size_t offset);

}  // namespace millrace

#endif  // MILLRACE_PROTO_SPEC_STATEMENTS_H_
