#include "core/base/errors/error_codes.h"

#include "core/base/str.h"

namespace tenon {
namespace {
constexpr ErrorEntry kEntries[] = {
#define TENON_ERROR(id, title, explanation, what_to_do) {#id, title, explanation, what_to_do},
#include "core/base/errors/error_codes.def"
#undef TENON_ERROR
};
}  // namespace

std::span<const ErrorEntry> error_entries() {
  return kEntries;
}

const ErrorEntry* find_error_entry(std::string_view id) {
  for (const ErrorEntry& entry : kEntries) {
    if (equals_ignoring_case(entry.id, id)) return &entry;
  }
  return nullptr;
}

}  // namespace tenon
