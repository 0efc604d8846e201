// Shared by the checks of engines.
#pragma once
#include <vector>

#include "sdk/tools/conform/fixtures/engine/exchange.h"

namespace tenon::conform {

// How many ranks a check brings together in this process.
inline constexpr uint32_t kRanks = 3;

// An engine that is open, with kRanks ranks where it lets this process have several.
Outcome open_ranks(Session& s, std::unique_ptr<Ranks>* out, uint32_t count = kRanks);

// Every transfer of all members, of every element type, that the engine takes, with so many
// elements.
std::vector<Kind> taken_kinds(Ranks& ranks, const Members& group,
                              const std::vector<uint64_t>& parts);
// One of each transfer, of f32 where that is taken.
std::vector<Kind> one_of_each(Ranks& ranks, const Members& group, uint64_t part);
// Skips where the other members are other processes, which a check cannot hold back.
Outcome all_here(const Ranks& ranks, const Members& group);

}  // namespace tenon::conform
