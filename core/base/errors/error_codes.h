// The table of stable error codes: what `tenon explain T0123` prints. The texts are in
// error_codes.def.
#pragma once
#include <span>
#include <string_view>

namespace tenon {

struct ErrorEntry {
  std::string_view id;           // "T0123"
  std::string_view title;        // a few words
  std::string_view explanation;  // what it means
  std::string_view what_to_do;   // one sentence
};

// All entries, in the order of error_codes.def. Threads: safe.
std::span<const ErrorEntry> error_entries();

// The entry of `id`, case-insensitive; null if there is none.
const ErrorEntry* find_error_entry(std::string_view id);

}  // namespace tenon
