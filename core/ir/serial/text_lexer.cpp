#include "core/ir/serial/text_lexer.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/str.h"

namespace tenon::ir {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_alpha(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

int hex_digit(char c) {
  return is_digit(c)            ? c - '0'
         : c >= 'a' && c <= 'f' ? c - 'a' + 10
         : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                : -1;
}

}  // namespace

void Lexer::skip_blanks() {
  while (cursor_ < text_.size()) {
    const char c = text_[cursor_];
    if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      ++cursor_;
    } else if (c == '/' && cursor_ + 1 < text_.size() && text_[cursor_ + 1] == '/') {
      const size_t end = text_.find('\n', cursor_);
      cursor_ = end == std::string_view::npos ? text_.size() : end;
    } else {
      return;
    }
  }
}

// At '"'. False if the string does not end or has an unknown escape.
bool Lexer::read_string(std::string* out, size_t* end) {
  size_t i = *end + 1;
  while (i < text_.size() && text_[i] != '"' && text_[i] != '\n') {
    if (text_[i] != '\\') {
      *out += text_[i++];
      continue;
    }
    if (i + 1 >= text_.size()) return false;
    const char c = text_[i + 1];
    i += 2;
    if (c == 'n') {
      *out += '\n';
    } else if (c == 't') {
      *out += '\t';
    } else if (c == '"' || c == '\\') {
      *out += c;
    } else if (c == 'x' && i + 1 < text_.size() && hex_digit(text_[i]) >= 0 &&
               hex_digit(text_[i + 1]) >= 0) {
      *out += static_cast<char>(hex_digit(text_[i]) << 4 | hex_digit(text_[i + 1]));
      i += 2;
    } else {
      return false;
    }
  }
  if (i >= text_.size() || text_[i] != '"') return false;
  *end = i + 1;
  return true;
}

void Lexer::next() {
  skip_blanks();
  Token t;
  t.at = t.end = cursor_;
  if (cursor_ >= text_.size()) {
    token_ = std::move(t);
    return;
  }
  const char c = text_[cursor_];
  auto run = [this](size_t from, auto accept) {
    while (from < text_.size() && accept(text_[from])) ++from;
    return from;
  };
  if (is_alpha(c)) {
    t.kind = Tok::kWord;
    t.end = run(cursor_, [](char x) { return is_alpha(x) || is_digit(x) || x == '.'; });
  } else if (is_digit(c)) {
    t.kind = Tok::kNumber;
    t.end = run(cursor_, is_digit);
    if (t.end < text_.size() && text_[t.end] == '.') t.end = run(t.end + 1, is_digit);
    if (t.end < text_.size() && (text_[t.end] == 'e' || text_[t.end] == 'E')) {
      size_t e = t.end + 1;
      if (e < text_.size() && (text_[e] == '+' || text_[e] == '-')) ++e;
      const size_t end = run(e, is_digit);
      if (end > e) t.end = end;
    }
  } else if (c == '"') {
    t.kind = read_string(&t.name, &t.end) ? Tok::kString : Tok::kBad;
  } else if (c == '%' || c == '@') {
    t.kind = c == '%' ? Tok::kValue : Tok::kGraphName;
    size_t end = cursor_ + 1;
    if (end < text_.size() && text_[end] == '"') {
      t.quoted = true;
      if (!read_string(&t.name, &end)) t.kind = Tok::kBad;
    } else {
      end = run(end, [](char x) { return is_alpha(x) || is_digit(x) || x == '.' || x == '/'; });
      t.name = text_.substr(cursor_ + 1, end - cursor_ - 1);
      // A bare % is the sign of divisibility.
      if (t.name.empty()) t.kind = Tok::kPunct;
    }
    if (t.kind == Tok::kValue && end < text_.size() && text_[end] == '#') {
      size_t e = run(end + 1, is_digit);
      if (e == end + 1 || e - end > 9)
        t.kind = Tok::kBad;
      else
        t.duplicate =
            static_cast<uint32_t>(std::stoul(std::string(text_.substr(end + 1, e - end - 1))));
      end = e;
    }
    t.end = std::max(end, cursor_ + 1);
  } else {
    static constexpr std::string_view kTwo[] = {"->", "==", "<=", ">="};
    static constexpr std::string_view kOne = "()[]{}<>,:;=+-*_";
    const std::string_view two = text_.substr(cursor_, 2);
    t.kind = kOne.find(c) == std::string_view::npos ? Tok::kBad : Tok::kPunct;
    t.end = cursor_ + 1;
    if (std::find(std::begin(kTwo), std::end(kTwo), two) != std::end(kTwo)) {
      t.kind = Tok::kPunct;
      t.end = cursor_ + 2;
    }
  }
  if (t.kind == Tok::kBad) t.end = std::max(t.end, cursor_ + 1);
  t.text = text_.substr(cursor_, t.end - cursor_);
  cursor_ = t.end;
  token_ = std::move(t);
}

uint32_t Lexer::line_of(size_t at) {
  if (at < line_at_) {
    line_at_ = 0;
    line_ = 1;
  }
  line_ += static_cast<uint32_t>(std::count(text_.begin() + static_cast<ptrdiff_t>(line_at_),
                                            text_.begin() + static_cast<ptrdiff_t>(at), '\n'));
  line_at_ = at;
  return line_;
}

Status Lexer::error_at(size_t at, std::string_view code, std::string message, tenon_code_t kind) {
  at = std::min(at, text_.size());
  const size_t before = at == 0 ? std::string_view::npos : text_.rfind('\n', at - 1);
  const size_t begin = before == std::string_view::npos ? 0 : before + 1;
  const size_t end = std::min(text_.find('\n', at), text_.size());
  const size_t column = at - begin;
  // Long lines are cut to the part around the place.
  constexpr size_t kBefore = 70, kAfter = 50;
  const size_t from = column > kBefore ? at - kBefore : begin;
  std::string_view shown = text_.substr(from, std::min(end, at + kAfter) - from);
  std::string line, caret;
  for (size_t i = 0; i < shown.size(); ++i) {
    const unsigned char u = static_cast<unsigned char>(shown[i]);
    line += u < 0x20 || u >= 0x7f ? '?' : shown[i];
    if (from + i < at) caret += ' ';
  }
  const uint32_t number = line_of(at);
  Status s(kind, code,
           fmt::format("{}:{}:{}: {}\n  {}\n  {}^", printable(file_), number, column + 1, message,
                       line, caret));
  s.add("file", file_);
  s.add("line", std::to_string(number));
  s.add("column", std::to_string(column + 1));
  return s;
}

Status Lexer::expected(std::string_view what) {
  const std::string found =
      token_.kind == Tok::kEnd ? "the end of the text" : quoted(token_.text.substr(0, 64));
  return error_at(token_.at, "T0201", fmt::format("expected {}, found {}", what, found));
}

}  // namespace tenon::ir
