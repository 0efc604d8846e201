// Tokens of .tir text. Any bytes are accepted; bytes that form no token give one of kind kBad.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/errors/status.h"

namespace tenon::ir {

enum class Tok : uint8_t { kEnd, kWord, kNumber, kString, kValue, kGraphName, kPunct, kBad };

struct Token {
  Tok kind = Tok::kEnd;
  std::string_view text;   // as written; for kPunct: "(", "->", "<="
  std::string name;        // kString, kValue, kGraphName: unescaped
  uint32_t duplicate = 0;  // kValue: the number after '#'
  bool quoted = false;     // kValue: the name was written as a string
  size_t at = 0, end = 0;
};

class Lexer {
 public:
  Lexer(std::string_view text, std::string_view file) : text_(text), file_(file) { next(); }

  const Token& peek() const { return token_; }
  Token take() {
    Token t = std::move(token_);
    next();
    return t;
  }
  bool at_punct(std::string_view p) const { return token_.kind == Tok::kPunct && token_.text == p; }
  bool at_word(std::string_view w) const { return token_.kind == Tok::kWord && token_.text == w; }
  bool skip_punct(std::string_view p) { return at_punct(p) && (next(), true); }
  bool skip_word(std::string_view w) { return at_word(w) && (next(), true); }
  // Moves back or forward to the token that begins at `at`.
  void seek(size_t at) {
    cursor_ = at;
    next();
  }
  uint32_t line_of(size_t at);

  // "FILE:LINE:COLUMN: message" with the line and a caret beneath it.
  Status error_at(size_t at, std::string_view code, std::string message,
                  tenon_code_t kind = TENON_INVALID_ARGUMENT);
  Status expected(std::string_view what);

 private:
  void next();
  void skip_blanks();
  bool read_string(std::string* out, size_t* end);

  std::string_view text_, file_;
  size_t cursor_ = 0;
  Token token_;
  size_t line_at_ = 0;  // where line counting stopped
  uint32_t line_ = 1;
};

}  // namespace tenon::ir
