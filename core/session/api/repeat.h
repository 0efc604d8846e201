// A call whose records are those of the call before, but for addresses: docs/adr/0059.
//
// Threads: safe, as calls are.
#pragma once
#include <optional>

#include <tenon/abi/call.h>

#include "core/session/compile/variants.h"

namespace tenon::session {

// The call, if it is like the last one that this thread's runner of the program made: arrays and
// tensors of the same types, none of them donated. Nothing, and nothing is done, for all others;
// whether they are right is for others to say. The record itself was checked, with the numbers of
// inputs and outputs.
std::optional<Status> call_again(const AnyProgram& program, const tenon_program_call_t& call);

}  // namespace tenon::session
