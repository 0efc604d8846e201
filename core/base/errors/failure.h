// The bridge between Status and the ABI's way of failing: a code is returned, and details lie in a
// record of the calling thread until the host takes them. Everything that implements an ABI table
// uses these two.
#pragma once
#include <span>
#include <string_view>

#include "core/base/errors/status.h"

namespace tenon {

// Stores the details of a failure in this thread's record, replacing what is there. `text` may
// begin with its stable code ("P0305: ..."), which is then split off. This is what
// tenon_host_t::fail does. Texts are cut at 16 KB, details at 256 and 4096 bytes and 64 of them; of
// a text that says it has 1 GB or more no byte is read. Without memory for them there are no
// details: it is called where exceptions end, and throws none.
void record_failure(tenon_code_t code, std::string_view text,
                    std::span<const tenon_key_value_t> evidence) noexcept;

// Stores a failed status in the record and returns its code: the last line of a function called
// through the ABI. Returns TENON_OK for an OK status and leaves the record alone.
tenon_code_t to_abi(const Status& status);
tenon_code_t to_abi(Status&& status);

// T0111 as a code, for where a std::bad_alloc ends. The words may not fit in memory either; the
// code always does.
tenon_code_t out_of_memory(std::string_view text) noexcept;

// Turns the code that a plugin's function returned into a Status, taking the record. `who` names
// the plugin and function, for when there are no details: "plugin `null`: open". Clears the record
// in any case.
Status from_abi(tenon_code_t code, std::string_view who);

// This thread's record, OK if there is none. Good until the thread's next call of any function
// here.
const Status& last_failure();

// Forgets this thread's record. Called before a call whose details matter.
void clear_failure();

// As text in a Status: borrowed views of std strings and back.
inline tenon_str_t to_abi_str(std::string_view text) {
  return {text.data(), text.size()};
}
inline std::string_view from_abi_str(tenon_str_t text) {
  return text.data == nullptr ? std::string_view() : std::string_view(text.data, text.size);
}

}  // namespace tenon
