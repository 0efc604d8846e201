// Text that comes from input, made fit to show; names, globs and suggestions.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

// `text` in backquotes, control characters escaped as \n or \x1b, invalid UTF-8 as \xNN, cut after 256 bytes
// with "..." : what every error message does with a name found in input.
std::string quoted(std::string_view text);
// Exact matches for strings, or argument-dependent lookup would find std::quoted where <iomanip> is included.
inline std::string quoted(const std::string& text) { return quoted(std::string_view(text)); }
inline std::string quoted(const char* text) { return quoted(std::string_view(text)); }
inline std::string quoted(std::string& text) { return quoted(std::string_view(text)); }

// The same without quotes and with a limit of the caller's; newlines are kept as they are.
std::string printable(std::string_view text, size_t max_bytes = 256);

// `text` as one word of a POSIX shell, for commands that a person is told to run: as it is where every character is plain, else
// between quotes. What is not printable stands as an escape between $'...', which bash, zsh and ksh know.
std::string shell_quoted(std::string_view text);

// True if `text` is well-formed UTF-8 (no surrogates, no overlong forms).
bool is_valid_utf8(std::string_view text);

// A string literal of JSON, quotes included; invalid UTF-8 becomes U+FFFD.
std::string json_quoted(std::string_view text);

bool equals_ignoring_case(std::string_view a, std::string_view b);  // ASCII

// Shell-like match of a whole name: * ? [a-z]. ASCII, case-insensitive. Linear in stars; no recursion.
bool glob_match(std::string_view pattern, std::string_view text);

std::string_view trim(std::string_view text);  // ASCII blanks
// Splits at `separator`; blanks around parts are trimmed; empty parts are left out.
std::vector<std::string_view> split(std::string_view text, char separator);

// Decimal or, with suffix k, m, g (powers of 1024), bytes. False if malformed or overflowing.
bool parse_u64(std::string_view text, uint64_t* out);

// The candidate nearest to `name` by edit distance, if near enough to be what was meant; else empty.
std::string_view nearest(std::string_view name, std::span<const std::string_view> candidates);
std::string_view nearest(std::string_view name, std::span<const std::string> candidates);

// "; did you mean `X`?" or empty: to append to a sentence about an unknown name.
std::string did_you_mean(std::string_view name, std::span<const std::string_view> candidates);
std::string did_you_mean(std::string_view name, std::span<const std::string> candidates);

// "a, b, c", at most `max_items`, then "and N more".
std::string join_names(std::span<const std::string> names, size_t max_items = 20);

}  // namespace tenon
