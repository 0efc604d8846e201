// Fills a record whose caller may be older or newer than this host: the rule of
// sdk/tenon/abi/base.h.
//
// Threads: safe for different records.
#pragma once
#include <tenon/abi/record.h>

#include "core/base/errors/status.h"

namespace tenon {

// Fills as much of the caller's record as it has room for, and records how much that was.
// INVALID_ARGUMENT, with the record unchanged, if the caller did not set size_bytes.
template <typename T>
Status give_record(T* out, const T& from) {
  if (tenon_record_give(out, &from, sizeof(T)) == TENON_OK) return {};
  return error(TENON_INVALID_ARGUMENT, "T0616",
               "a record to be filled claims {} bytes; set its size_bytes to sizeof",
               out->size_bytes);
}

// The same for a record that is read first: fill(&full) gets a full-size copy.
template <typename T, typename Fill>
Status fill_record(T* out, Fill fill) {
  T full;
  if (tenon_record_take(&full, sizeof(T), out) != TENON_OK)
    return give_record(out, full);  // which refuses it
  TENON_RETURN_IF_ERROR(fill(&full));
  return give_record(out, full);
}

}  // namespace tenon
