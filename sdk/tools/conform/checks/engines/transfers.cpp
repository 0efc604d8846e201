// Group G, engines: what transfers move and combine.
#include <cmath>
#include <thread>

#include <tenon/cpp/dtype.hpp>

#include "sdk/tools/conform/checks/engines/engines.h"
#include "sdk/tools/conform/checks/tables.h"
#include "sdk/tools/conform/fixtures/device/open_queue.h"
#include "sdk/tools/conform/fixtures/device/rows.h"

namespace tenon::conform {
namespace {

constexpr uint64_t kLarge = 100'003;
// Calls of `test` while a member is missing.
constexpr int kLooks = 200;

Outcome in_worlds(Session& s, const std::function<Outcome(Ranks& ranks)>& what) {
  for (const uint32_t count : {3u, 1u, 2u}) {
    std::unique_ptr<Ranks> ranks;
    CONFORM_TRY(open_ranks(s, &ranks, count));
    CONFORM_TRY(what(*ranks));
    CONFORM_TRY(ranks->close());
    if (!ranks->all_are_here() || ranks->world().size() != count) break;  // it opens once
  }
  return pass();
}

Outcome run_all(Session& s, Ranks& ranks, bool combined) {
  size_t count = 0;
  for (const Kind& kind : taken_kinds(ranks, ranks.world(), {7, 0, 1})) {
    if (combines(kind.transfer) != combined) continue;
    s.step(fmt::format("{} among {}", text_of(kind), ranks.world().size()));
    CONFORM_TRY(run(ranks, ranks.world(), kind));
    ++count;
  }
  for (Kind kind : one_of_each(ranks, ranks.world(), kLarge)) {
    if (combines(kind.transfer) != combined) continue;
    s.step(fmt::format("{} among {}", text_of(kind), ranks.world().size()));
    CONFORM_TRY(run(ranks, ranks.world(), kind, 1));
  }
  return count == 0 ? skipped("it takes no such transfer") : pass();
}

Outcome engine_moves(Session& s) {
  return in_worlds(s, [&](Ranks& ranks) { return run_all(s, ranks, false); });
}
Outcome engine_combines(Session& s) {
  return in_worlds(s, [&](Ranks& ranks) { return run_all(s, ranks, true); });
}

// A NaN of one member, and infinities.
Outcome engine_nan(Session& s) {
  std::unique_ptr<Ranks> ranks;
  CONFORM_TRY(open_ranks(s, &ranks));
  Members& world = ranks->world();
  bool is_taken = false;
  for (const Kind& kind : taken_kinds(*ranks, world, {7})) {
    if (!combines(kind.transfer) || !elements::dtype_is_float(kind.dtype)) continue;
    is_taken = true;
    s.step(text_of(kind));
    Exchange exchange(world, kind);
    const uint32_t width = dtype_bytes(kind.dtype);
    store_double(kind.dtype, exchange.input(0).data() + width, NAN);
    store_double(kind.dtype, exchange.input(world.size() - 1).data() + 2 * width, NAN);
    if (kind.dtype != TENON_F8E4M3FN)
      store_double(kind.dtype, exchange.input(0).data() + 3 * width, INFINITY);
    exchange.fill();
    std::vector<Started> works;
    for (const uint32_t place : world.here()) {
      const tenon_transfer_t transfer = exchange.transfer(place);
      CONFORM_TRY(ranks->begin(world, place, {&transfer, 1}, &works));
    }
    CONFORM_TRY(ranks->finish(&works));
    for (const uint32_t place : world.here()) CONFORM_TRY(exchange.check(place));
  }
  CONFORM_TRY(ranks->close());
  return is_taken ? pass() : skipped("it combines no floats");
}

// ---- Sends and receives ----

struct Letter {
  uint32_t from, to, tag;
  uint64_t elements;
  Memory given, got;
  Letter(uint32_t from, uint32_t to, uint32_t tag, uint64_t elements, uint32_t seed)
      : from(from), to(to), tag(tag), elements(elements), given(elements * 4), got(elements * 4) {
    given.set(pattern_bytes(elements * 4, seed));
  }
  tenon_transfer_t send() const {
    tenon_transfer_t made = transfer_record(TENON_TRANSFER_SEND, TENON_COMBINE_NONE, TENON_I32);
    made.peer = to;
    made.tag = tag;
    set_from(&made, given, elements);
    return made;
  }
  tenon_transfer_t receive() const {
    tenon_transfer_t made = transfer_record(TENON_TRANSFER_RECEIVE, TENON_COMBINE_NONE, TENON_I32);
    made.peer = from;
    made.tag = tag;
    set_to(&made, got, elements);
    return made;
  }
  Outcome check() const {
    CONFORM_EXPECT(given.guards_hold() && got.guards_hold(),
                   "memory outside of a send or a receive was written");
    CONFORM_EXPECT(got.get() == given.get(), "member {} has not what {} sent with the tag {}", to,
                   from, tag);
    return pass();
  }
};

bool takes_letters(Ranks& ranks, const Members& group) {
  const Letter letter(0, 0, 0, 7, 0);
  tenon_comm_t* const comm = group.comms[group.here()[0]];
  return takes(ranks.api(), comm, letter.send()) && takes(ranks.api(), comm, letter.receive());
}

// Each member sends to the next one and receives from the one before, in one work.
Outcome pass_around(Ranks& ranks, const Members& group) {
  std::vector<Letter> letters;
  for (uint32_t place = 0; place < group.size(); ++place)
    for (const uint64_t elements : {7u, 0u, 1u})
      letters.emplace_back(place, (place + 1) % group.size(),
                           32767 - static_cast<uint32_t>(elements), elements, place + 1);
  std::vector<Started> works;
  for (const uint32_t place : group.here()) {
    std::vector<tenon_transfer_t> list;
    for (const Letter& letter : letters) {
      if (letter.from == place) list.push_back(letter.send());
      if (letter.to == place) list.push_back(letter.receive());
    }
    CONFORM_TRY(ranks.begin(group, place, list, &works));
  }
  CONFORM_TRY(ranks.finish(&works));
  for (const Letter& letter : letters)
    if (group.comms[letter.to] != nullptr && group.comms[letter.from] != nullptr)
      CONFORM_TRY(letter.check());
  return pass();
}

// The receiver asks for tags in another order than they were sent in; those of one tag stay in
// order.
Outcome match_tags(Ranks& ranks, const Members& group) {
  std::vector<Letter> letters;
  for (uint32_t i = 0; i < 4; ++i) letters.emplace_back(0, 1, i % 2, 5, 30 + i);
  std::vector<Started> works;
  if (group.comms[0] != nullptr) {
    for (const Letter& letter : letters) {
      const tenon_transfer_t send = letter.send();
      CONFORM_TRY(ranks.begin(group, 0, {&send, 1}, &works));
    }
  }
  if (group.comms[1] != nullptr) {
    for (const size_t i : {1u, 0u, 2u, 3u}) {
      const tenon_transfer_t receive = letters[i].receive();
      CONFORM_TRY(ranks.begin(group, 1, {&receive, 1}, &works));
    }
  }
  CONFORM_TRY(ranks.finish(&works));
  if (group.comms[1] == nullptr) return pass();
  for (const Letter& letter : letters) CONFORM_TRY(letter.check());
  return pass();
}

Outcome engine_letters(Session& s) {
  std::unique_ptr<Ranks> ranks;
  CONFORM_TRY(open_ranks(s, &ranks));
  const Members& world = ranks->world();
  if (!takes_letters(*ranks, world)) return skipped("it takes no sends and receives");
  s.step("a send and a receive in one work");
  if (world.size() > 1) CONFORM_TRY(pass_around(*ranks, world));
  s.step("sends with several tags");
  if (world.size() > 1) CONFORM_TRY(match_tags(*ranks, world));
  CONFORM_TRY(ranks->close());
  return world.size() > 1 ? pass() : skipped("there is one rank");
}

// ---- Works ----

// Several transfers of one work, as records that are longer than the header's.
Outcome engine_lists(Session& s) {
  std::unique_ptr<Ranks> ranks;
  CONFORM_TRY(open_ranks(s, &ranks));
  const Members& world = ranks->world();
  std::vector<Exchange> exchanges;
  uint32_t seed = 0;
  for (const Kind& kind : one_of_each(*ranks, world, 7))
    exchanges.emplace_back(world, kind, ++seed);
  struct Longer {
    tenon_transfer_t transfer;
    uint64_t later[3];
  };
  std::vector<Started> works;
  for (const uint32_t place : world.here()) {
    std::vector<Longer> list;
    for (const Exchange& exchange : exchanges) {
      list.push_back({exchange.transfer(place), {~0ull, ~0ull, ~0ull}});
      list.back().transfer.size_bytes = sizeof(Longer);
    }
    auto info = sized<tenon_work_info_t>();
    info.sequence = 1;
    tenon_work_t* work = nullptr;
    s.step("starting several transfers as one work");
    const tenon_collective_api_t& api = ranks->api();
    const tenon_code_t code = api.start(api.self, world.comms[place], &list[0].transfer,
                                        static_cast<uint32_t>(list.size()), nullptr, &info, &work);
    CONFORM_EXPECT(code == TENON_OK, "start of {} transfers fails with {}", list.size(),
                   code_text(code));
    works.push_back({place, work, false});
  }
  CONFORM_TRY(ranks->finish(&works));
  for (const Exchange& exchange : exchanges)
    for (const uint32_t place : world.here()) CONFORM_TRY(exchange.check(place));
  return ranks->close();
}

// While one member has not started, the others go on: no call waits, and no work is done.
Outcome hold_back(Ranks& ranks, const Members& group, const Kind& kind, uint32_t missing) {
  const Exchange exchange(group, kind);
  std::vector<Started> works;
  const auto begin = [&](uint32_t place) {
    const tenon_transfer_t transfer = exchange.transfer(place);
    return ranks.begin(group, place, {&transfer, 1}, &works);
  };
  for (const uint32_t place : group.here())
    if (place != missing) CONFORM_TRY(begin(place));
  for (int i = 0; i < kLooks; ++i) {
    if (i == kLooks / 2) pause_a_while(std::chrono::milliseconds(1));
    for (Started& work : works) {
      CONFORM_TRY(ranks.look(&work));
      CONFORM_EXPECT(!work.is_done, "{}: the work of member {} is done before member {} has begun",
                     text_of(kind), work.place, missing);
    }
  }
  CONFORM_TRY(begin(missing));
  CONFORM_TRY(ranks.finish(&works));
  for (const uint32_t place : group.here()) CONFORM_TRY(exchange.check(place));
  return pass();
}

Outcome engine_waits(Session& s) {
  std::unique_ptr<Ranks> ranks;
  CONFORM_TRY(open_ranks(s, &ranks));
  const Members& world = ranks->world();
  CONFORM_TRY(all_here(*ranks, world));
  for (Kind kind : one_of_each(*ranks, world, 7)) {
    for (uint32_t missing = 0; missing < world.size(); ++missing) {
      // A root and members that are there need not wait for another one.
      if (kind.transfer == TENON_TRANSFER_BROADCAST && missing != 0) break;
      s.step(fmt::format("{}: waiting for member {}", text_of(kind), missing));
      CONFORM_TRY(hold_back(*ranks, world, kind, missing));
    }
  }
  return ranks->close();
}

// Once a work is done its memory is the caller's again, whatever the others do.
Outcome engine_memory(Session& s) {
  std::unique_ptr<Ranks> ranks;
  CONFORM_TRY(open_ranks(s, &ranks));
  const Members& world = ranks->world();
  for (const uint64_t part : {uint64_t{7}, kLarge}) {
    for (const Kind& kind : one_of_each(*ranks, world, part)) {
      s.step(text_of(kind) + ": changing memory once a work is done");
      Exchange exchange(world, kind);
      std::vector<Started> works;
      for (const uint32_t place : world.here()) {
        const tenon_transfer_t transfer = exchange.transfer(place);
        CONFORM_TRY(ranks->begin(world, place, {&transfer, 1}, &works));
      }
      CONFORM_TRY(ranks->finish(&works, [&](uint32_t place) { exchange.take_back(place); }));
      for (const uint32_t place : world.here()) {
        CONFORM_TRY(exchange.check_taken_back(place));
        CONFORM_TRY(exchange.check(place));
      }
    }
  }
  return ranks->close();
}

// Several works on their way.
Outcome engine_flights(Session& s) {
  std::unique_ptr<Ranks> ranks;
  CONFORM_TRY(open_ranks(s, &ranks));
  const Members& world = ranks->world();
  std::vector<Exchange> exchanges;
  uint32_t seed = 0;
  for (int round = 0; round < 3; ++round)
    for (const Kind& kind : one_of_each(*ranks, world, 5))
      exchanges.emplace_back(world, kind, ++seed);
  std::vector<Started> works;
  s.step("starting several works of each member");
  for (const uint32_t place : world.here()) {
    for (const Exchange& exchange : exchanges) {
      const tenon_transfer_t transfer = exchange.transfer(place);
      CONFORM_TRY(ranks->begin(world, place, {&transfer, 1}, &works));
    }
  }
  // The last is asked about first.
  std::reverse(works.begin(), works.end());
  CONFORM_TRY(ranks->finish(&works));
  for (const Exchange& exchange : exchanges)
    for (const uint32_t place : world.here()) CONFORM_TRY(exchange.check(place));
  return ranks->close();
}

constexpr Check kChecks[] = {
    {"R-G42", "engine-moves", engine_moves},   {"R-G43", "engine-combines", engine_combines},
    {"R-G43", "engine-nan", engine_nan},       {"R-G44", "engine-letters", engine_letters},
    {"R-G45", "engine-lists", engine_lists},   {"R-G46", "engine-waits", engine_waits},
    {"R-G47", "engine-memory", engine_memory}, {"R-G48", "engine-flights", engine_flights},
};

}  // namespace

std::span<const Check> engine_transfer_checks() {
  return kChecks;
}

}  // namespace tenon::conform
