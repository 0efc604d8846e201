// Converts between Status and the ABI's way of failing: a function returns a code, and leaves the
// details in a record of the calling thread until the host takes them. Everything that implements
// an ABI table fails through these functions.
#pragma once
#include <span>
#include <string_view>

#include "core/base/errors/status.h"

namespace tenon {

// Stores the details of a failure in this thread's record, replacing what is there. `text` may
// begin with its stable code ("P0305: ..."), which is then split off. This is what
// tenon_host_t::fail does. Texts are cut at 16 KB, evidence keys and values at 256 and 4096 bytes,
// and evidence at 64 pairs. A text that claims 1 GB or more is not read at all. If memory runs out
// the details are dropped: this runs where exceptions end, so it must not throw.
void record_failure(tenon_code_t code, std::string_view text,
                    std::span<const tenon_key_value_t> evidence) noexcept;

// Stores a failed status in the record and returns its code: the last line of a function called
// through the ABI. Returns TENON_OK for an OK status and leaves the record alone.
tenon_code_t to_abi(const Status& status);
tenon_code_t to_abi(Status&& status);

// T0111 as a code, for a handler of std::bad_alloc. The text is dropped if there is no memory for
// it; the code never is.
tenon_code_t out_of_memory(std::string_view text) noexcept;

// Turns the code that a plugin's function returned into a Status, and takes the details from the
// record. `who` names the plugin and function, for a failure without details: "plugin `null`:
// open". Always clears the record.
Status from_abi(tenon_code_t code, std::string_view who);

// This thread's record, OK if there is none. Valid until the thread next calls any function here.
const Status& last_failure();

// Clears this thread's record. Call it before a call whose details matter.
void clear_failure();

// Borrowed views: std strings to ABI strings, and back.
inline tenon_str_t to_abi_str(std::string_view text) {
  return {text.data(), text.size()};
}
inline std::string_view from_abi_str(tenon_str_t text) {
  return text.data == nullptr ? std::string_view() : std::string_view(text.data, text.size);
}

}  // namespace tenon
