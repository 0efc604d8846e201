// Escaping of text from input; names, globs and suggestions. The core and the tools show text in
// this way; plugins have quoted() of status.hpp. The namespace tenon::text keeps the two apart.
#ifndef TENON_CPP_TEXT_HPP_
#define TENON_CPP_TEXT_HPP_

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::text {

namespace detail {

inline constexpr size_t kNameShownMax = 256;
inline constexpr size_t kSuggestNameMax = 128;  // edit distance is quadratic

inline char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
}

// Length of the well-formed UTF-8 sequence at `i`, 0 if malformed. Table 3-7 of the Unicode
// standard.
inline size_t utf8_length(std::string_view s, size_t i) {
  auto byte = [&](size_t k) -> unsigned {
    return k < s.size() ? static_cast<unsigned char>(s[k]) : 0u;
  };
  auto tail = [&](size_t k) { return (byte(k) & 0xC0u) == 0x80u; };
  unsigned b = byte(i);
  if (b < 0x80) return 1;
  if (b >= 0xC2 && b <= 0xDF) return tail(i + 1) ? 2 : 0;
  if (b >= 0xE0 && b <= 0xEF) {
    unsigned low = b == 0xE0 ? 0xA0 : 0x80, high = b == 0xED ? 0x9F : 0xBF;
    return byte(i + 1) >= low && byte(i + 1) <= high && tail(i + 2) ? 3 : 0;
  }
  if (b >= 0xF0 && b <= 0xF4) {
    unsigned low = b == 0xF0 ? 0x90 : 0x80, high = b == 0xF4 ? 0x8F : 0xBF;
    return byte(i + 1) >= low && byte(i + 1) <= high && tail(i + 2) && tail(i + 3) ? 4 : 0;
  }
  return 0;
}

inline void append_hex(std::string& out, unsigned value, int digits) {
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) {
    out += "0123456789abcdef"[value >> shift & 15u];
  }
}

inline void append_escaped(std::string& out, std::string_view text, size_t max_bytes,
                           bool keep_newlines) {
  for (size_t i = 0; i < text.size();) {
    size_t length = utf8_length(text, i);
    unsigned char c = static_cast<unsigned char>(text[i]);
    if (i + std::max<size_t>(length, 1) > max_bytes) {
      out += "...";
      return;
    }
    bool c1_control = length == 2 && c == 0xC2 && static_cast<unsigned char>(text[i + 1]) < 0xA0;
    if (c == '\n' && !keep_newlines) {
      out += "\\n";
    } else if (c == '\n') {
      out += '\n';
    } else if (length == 0 || c < 0x20 || c == 0x7F) {
      out += "\\x";
      append_hex(out, c, 2);
      length = 1;
    } else if (c1_control) {
      out += "\\u";
      append_hex(out, static_cast<unsigned char>(text[i + 1]), 4);
    } else {
      out.append(text.substr(i, length));
    }
    i += std::max<size_t>(length, 1);
  }
}

template <typename S>
std::string_view nearest_of(std::string_view name, std::span<const S> candidates) {
  if (name.empty() || name.size() > kSuggestNameMax) return {};
  std::string_view best;
  size_t best_distance = std::max<size_t>(name.size() / 3, 1) + 1;
  std::vector<size_t> row;
  for (std::string_view candidate : candidates) {
    if (candidate.size() > kSuggestNameMax) continue;
    row.resize(candidate.size() + 1);
    for (size_t j = 0; j < row.size(); ++j) row[j] = j;
    for (size_t i = 0; i < name.size(); ++i) {
      size_t diagonal = row[0];
      row[0] = i + 1;
      for (size_t j = 0; j < candidate.size(); ++j) {
        size_t change = diagonal + (lower(name[i]) != lower(candidate[j]));
        diagonal = row[j + 1];
        row[j + 1] = std::min({change, row[j] + 1, row[j + 1] + 1});
      }
    }
    if (row.back() < best_distance) {
      best_distance = row.back();
      best = candidate;
    }
  }
  return best;
}

// Matches the pattern element at p against c; advances p past it.
inline bool match_one(std::string_view pattern, size_t& p, char c) {
  if (pattern[p] != '[')
    return lower(pattern[p]) == lower(c) || pattern[p] == '?' ? (++p, true) : false;
  size_t end = pattern.find(']', p + 2);
  if (end == std::string_view::npos) return lower(c) == '[' ? (++p, true) : false;
  bool negated = pattern[p + 1] == '!' || pattern[p + 1] == '^', found = false;
  for (size_t i = p + 1 + negated; i < end; ++i) {
    if (i + 2 < end && pattern[i + 1] == '-') {
      found |= lower(c) >= lower(pattern[i]) && lower(c) <= lower(pattern[i + 2]);
      i += 2;
    } else {
      found |= lower(c) == lower(pattern[i]);
    }
  }
  if (found != negated) p = end + 1;
  return found != negated;
}

}  // namespace detail

// `text` in backquotes, control characters escaped as
//  or \x1b, invalid UTF-8 as \xNN, cut after 256 bytes with "...". Every error message shows names
//  from input in this form.
inline std::string quoted(std::string_view text) {
  std::string out = "`";
  detail::append_escaped(out, text, detail::kNameShownMax, false);
  return out += '`';
}
// Exact matches for strings. Otherwise argument-dependent lookup would find std::quoted where
// <iomanip> is included.
inline std::string quoted(const std::string& text) {
  return quoted(std::string_view(text));
}
inline std::string quoted(const char* text) {
  return quoted(std::string_view(text));
}
inline std::string quoted(std::string& text) {
  return quoted(std::string_view(text));
}

// The same without quotes and with the caller's limit; newlines are kept.
inline std::string printable(std::string_view text, size_t max_bytes = 256) {
  std::string out;
  detail::append_escaped(out, text, max_bytes, true);
  return out;
}

// `text` as one word of a POSIX shell, for commands that the user should run: unchanged if every
// character is plain, else in quotes. Unprintable text is escaped in $'...', which bash, zsh and
// ksh understand.
inline std::string shell_quoted(std::string_view text) {
  auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_-./:=@%+,").find(c) != std::string_view::npos;
  };
  if (!text.empty() && std::all_of(text.begin(), text.end(), plain)) return std::string(text);
  std::string words = "'", escaped = "$'";
  bool printable_text = true;
  for (size_t i = 0; i < text.size();) {
    const size_t length = detail::utf8_length(text, i);
    const auto c = static_cast<unsigned char>(text[i]);
    const bool c1_control =
        length == 2 && c == 0xC2 && static_cast<unsigned char>(text[i + 1]) < 0xA0;
    const std::string_view character = text.substr(i, std::max<size_t>(length, 1));
    if (length == 0 || c < 0x20 || c == 0x7F || c1_control) {
      printable_text = false;
      for (char byte : character) {
        escaped += "\\x";
        detail::append_hex(escaped, static_cast<unsigned char>(byte), 2);
      }
    } else {
      if (c == '\'' || c == '\\') escaped += '\\';
      escaped += character;
      words += c == '\'' ? std::string_view("'\\''") : character;
    }
    i += character.size();
  }
  return printable_text ? words + "'" : escaped + "'";
}

// True if `text` is well-formed UTF-8 (no surrogates, no overlong forms).
inline bool is_valid_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    size_t length = detail::utf8_length(text, i);
    if (length == 0) return false;
    i += length;
  }
  return true;
}

// A string literal of JSON, quotes included; invalid UTF-8 becomes U+FFFD.
inline std::string json_quoted(std::string_view text) {
  std::string out = "\"";
  for (size_t i = 0; i < text.size();) {
    size_t length = detail::utf8_length(text, i);
    unsigned char c = static_cast<unsigned char>(text[i]);
    if (length == 0) {
      out += "\xEF\xBF\xBD";
      length = 1;
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c < 0x20 || c == 0x7F) {
      out += "\\u";
      detail::append_hex(out, c, 4);
    } else {
      out.append(text.substr(i, length));
    }
    i += length;
  }
  return out += '"';
}

// An array of JSON. text: of one value, as JSON.
template <class Values, class Text>
std::string json_list(const Values& values, Text text) {
  std::string out;
  for (const auto& value : values) out += (out.empty() ? "" : ",") + text(value);
  return "[" + out + "]";
}

// ASCII
inline bool equals_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return detail::lower(x) == detail::lower(y); });
}

// Shell-like match of a whole name: * ? [a-z]. ASCII, case-insensitive. Linear in stars; no
// recursion.
inline bool glob_match(std::string_view pattern, std::string_view text) {
  size_t p = 0, t = 0, star = std::string_view::npos, star_text = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_text = t;
    } else if (p < pattern.size() && detail::match_one(pattern, p, text[t])) {
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++star_text;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

// ASCII blanks
inline std::string_view trim(std::string_view text) {
  size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}
// Splits at `separator`; trims blanks around parts; omits empty parts.
inline std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    size_t end = text.find(separator);
    std::string_view part = trim(text.substr(0, end));
    if (!part.empty()) parts.push_back(part);
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return parts;
}

// Decimal or, with suffix k, m, g (powers of 1024), bytes. False if malformed or overflowing.
inline bool parse_u64(std::string_view text, uint64_t* out) {
  text = trim(text);
  unsigned shift = 0;
  if (!text.empty()) {
    char last = detail::lower(text.back());
    shift = last == 'k' ? 10 : last == 'm' ? 20 : last == 'g' ? 30 : 0;
    if (shift != 0) text.remove_suffix(1);
  }
  uint64_t value = 0;
  auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || problem != std::errc() || end != text.data() + text.size()) return false;
  if (shift != 0 && value > (UINT64_MAX >> shift)) return false;
  *out = value << shift;
  return true;
}

// The candidate nearest to `name` by edit distance, if it is plausible; else empty.
inline std::string_view nearest(std::string_view name,
                                std::span<const std::string_view> candidates) {
  return detail::nearest_of(name, candidates);
}
inline std::string_view nearest(std::string_view name, std::span<const std::string> candidates) {
  return detail::nearest_of(name, candidates);
}

// "; did you mean `X`?" or empty: to append to a sentence about an unknown name.
inline std::string did_you_mean(std::string_view name,
                                std::span<const std::string_view> candidates) {
  std::string_view best = nearest(name, candidates);
  return best.empty() ? std::string() : "; did you mean " + quoted(best) + "?";
}
inline std::string did_you_mean(std::string_view name, std::span<const std::string> candidates) {
  std::string_view best = nearest(name, candidates);
  return best.empty() ? std::string() : "; did you mean " + quoted(best) + "?";
}

// "a, b, c", at most `max_items`, then "and N more".
inline std::string join_names(std::span<const std::string> names, size_t max_items = 20) {
  std::string out;
  for (size_t i = 0; i < names.size() && i < max_items; ++i) {
    if (i != 0) out += ", ";
    out += printable(names[i]);
  }
  if (names.size() > max_items) out += " and " + std::to_string(names.size() - max_items) + " more";
  return out;
}

}  // namespace tenon::text

#endif
