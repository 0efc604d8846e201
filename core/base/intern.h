// Process-wide names as integers: tenon_sym_t. Equal texts have equal symbols, in every thread and
// plugin.
#pragma once
#include <string_view>

#include <tenon/abi/base.h>

namespace tenon {

// The symbol of `text`; 0 for the empty text. Threads: safe; a known name is found without a lock.
tenon_sym_t intern(std::string_view text);

// The symbol of `text` if it has been interned before, else 0. Adds nothing.
tenon_sym_t find_interned(std::string_view text);

// The text of a symbol, valid for the life of the process; empty for 0 and for a number that does
// not stand for a symbol. Threads: safe, lock-free.
std::string_view sym_text(tenon_sym_t symbol);

}  // namespace tenon
