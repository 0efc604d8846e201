// Group G, engines: opening them, communicators, refusals, aborts.
#include "sdk/tools/conform/checks/engines/engines.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include <tenon/cpp/dtype.hpp>

#include "sdk/tools/conform/checks/tables.h"
#include "sdk/tools/conform/fixtures/device/open_queue.h"
#include "sdk/tools/conform/subject/growth.h"
#include "sdk/tools/conform/subject/names.h"
#include "sdk/tools/conform/subject/process_state.h"

namespace tenon::conform {

Outcome open_ranks(Session& s, std::unique_ptr<Ranks>* out, uint32_t count) {
  const tenon_collective_api_t* api = nullptr;
  CONFORM_TRY(find_engine(s, &api));
  *out = std::make_unique<Ranks>(api);
  s.step(fmt::format("opening {} ranks", count));
  return (*out)->open(count);
}

std::vector<Kind> taken_kinds(Ranks& ranks, const Members& group,
                              const std::vector<uint64_t>& parts) {
  std::vector<Kind> out;
  tenon_comm_t* const comm = group.comms[group.here()[0]];
  const auto add = [&](Kind kind) {
    if (takes(ranks.api(), comm, Exchange(group, kind).transfer(kind.peer))) out.push_back(kind);
  };
  for (tenon_dtype_t dtype = TENON_PRED; dtype < elements::kDtypeEnd; ++dtype) {
    if (elements::dtype_bits(dtype) < 8) continue;
    for (const uint64_t part : parts) {
      add({TENON_TRANSFER_ALL_GATHER, TENON_COMBINE_NONE, dtype, part});
      add({TENON_TRANSFER_ALL_TO_ALL, TENON_COMBINE_NONE, dtype, part});
      add({TENON_TRANSFER_BROADCAST, TENON_COMBINE_NONE, dtype, part, group.size() - 1});
      for (const uint32_t combine : {TENON_COMBINE_SUM, TENON_COMBINE_MIN, TENON_COMBINE_MAX}) {
        if (!has_number_type(dtype) || (is_complex(dtype) && combine != TENON_COMBINE_SUM))
          continue;
        add({TENON_TRANSFER_ALL_REDUCE, combine, dtype, part});
        add({TENON_TRANSFER_REDUCE_SCATTER, combine, dtype, part});
      }
    }
  }
  return out;
}

std::vector<Kind> one_of_each(Ranks& ranks, const Members& group, uint64_t part) {
  std::vector<Kind> out;
  for (const Kind& kind : taken_kinds(ranks, group, {part})) {
    const auto other = std::find_if(out.begin(), out.end(), [&](const Kind& k) {
      return k.transfer == kind.transfer && k.combine == kind.combine;
    });
    if (other == out.end())
      out.push_back(kind);
    else if (kind.dtype == TENON_F32)
      *other = kind;
  }
  // The root of a broadcast is the first member, which others may wait for.
  for (Kind& kind : out) kind.peer = 0;
  return out;
}

Outcome all_here(const Ranks& ranks, const Members& group) {
  if (!ranks.all_are_here())
    return skipped("the other ranks are other processes, which the runner does not hold back");
  return group.size() > 1 ? pass() : skipped("there is one rank");
}

namespace {

// "within a second", when the machine has other things to do.
constexpr double kAbortSeconds = 1;

Outcome engine_launched(Session& s) {
  const tenon_collective_api_t* api = nullptr;
  CONFORM_TRY(find_engine(s, &api));
  s.step("asking for the launcher");
  auto first = sized<tenon_launch_t>(), second = first;
  forget_failure();
  const tenon_code_t code = api->launched(api->self, &first);
  if (code != TENON_OK) {
    CONFORM_EXPECT(code == TENON_UNAVAILABLE, "launched fails with {}", code_text(code));
    CONFORM_EXPECT(!trim(heard_failure().text).empty(), "launched fails without a reason");
    return pass();
  }
  CONFORM_EXPECT(api->launched(api->self, &second) == TENON_OK, "launched fails the second time");
  CONFORM_EXPECT(first.is_launched == second.is_launched && first.rank == second.rank &&
                     first.rank_count == second.rank_count &&
                     view(first.launcher) == view(second.launcher) &&
                     view(first.library) == view(second.library),
                 "launched gives something else the second time");
  CONFORM_EXPECT(first.is_launched <= 1, "is_launched is {}", first.is_launched);
  if (first.is_launched == 0) return pass();
  CONFORM_EXPECT(first.rank < first.rank_count, "launched gives rank {} of {}", first.rank,
                 first.rank_count);
  CONFORM_EXPECT(first.local_rank < first.local_rank_count, "launched gives local rank {} of {}",
                 first.local_rank, first.local_rank_count);
  CONFORM_EXPECT(first.launcher.size != 0, "launched gives no name of the launcher");
  return pass();
}

// A command line for some numbers of processes; nothing is started.
Outcome engine_launcher(Session& s) {
  const tenon_collective_api_t* api = nullptr;
  CONFORM_TRY(find_engine(s, &api));
  if (api->launcher == nullptr) return not_offered("launcher");
  for (const uint32_t count : {1u, 2u, 1000u}) {
    std::string words;
    const tenon_sink_t sink = sink_to(&words);
    s.step(fmt::format("asking how {} processes are started", count));
    forget_failure();
    const tenon_code_t code = api->launcher(api->self, count, &sink);
    CONFORM_EXPECT(code == TENON_OK || code == TENON_UNAVAILABLE, "launcher gives {}",
                   code_text(code));
    CONFORM_EXPECT(code == TENON_OK || !trim(heard_failure().text).empty(),
                   "launcher fails without a reason");
    if (code != TENON_OK) continue;
    CONFORM_EXPECT(!words.empty() && words.back() == '\0',
                   "launcher writes no word, or its last one does not end with a zero byte");
    CONFORM_EXPECT(words.front() != '\0' && words.find(std::string(2, '\0')) == std::string::npos,
                   "launcher writes a word without a letter");
  }
  return pass();
}

// The ranks are those of the gather. Seen by what each gets from the others.
Outcome engine_open(Session& s) {
  constexpr int kTimes = 3;
  for (int i = 0; i < kTimes; ++i) {
    std::unique_ptr<Ranks> ranks;
    CONFORM_TRY(open_ranks(s, &ranks));
    const std::vector<Kind> kinds = one_of_each(*ranks, ranks->world(), 3);
    const bool several = ranks->all_are_here() && ranks->world().size() == kRanks;
    for (const Kind& kind : kinds)
      if (kind.transfer == TENON_TRANSFER_ALL_GATHER)
        CONFORM_TRY(run(*ranks, ranks->world(), kind));
    s.step("closing");
    CONFORM_TRY(ranks->close());
    if (!several) break;  // a library of processes may be opened once
  }
  return pass();
}

Outcome engine_open_refuses(Session& s) {
  const tenon_collective_api_t* api = nullptr;
  CONFORM_TRY(find_engine(s, &api));
  auto launch = sized<tenon_launch_t>();
  if (api->launched(api->self, &launch) != TENON_OK || launch.is_launched != 0)
    return skipped("a launcher brings the processes together");
  auto gather = sized<tenon_gather_t>();
  gather.rank = 3;
  gather.rank_count = 3;
  gather.all_gather = [](void*, const void*, uint64_t, void*) -> tenon_code_t {
    return TENON_UNAVAILABLE;
  };
  auto* const mark = reinterpret_cast<tenon_engine_t*>(&gather);
  tenon_engine_t* engine = mark;
  tenon_comm_t* world = reinterpret_cast<tenon_comm_t*>(mark);
  uint32_t flags = 77;
  s.step("opening rank 3 of 3");
  forget_failure();
  const tenon_code_t code = api->open(api->self, &gather, &flags, &engine, &world);
  CONFORM_EXPECT(code != TENON_OK, "open gives an engine for rank 3 of 3");
  CONFORM_EXPECT(!trim(heard_failure().text).empty(), "open fails without a reason");
  CONFORM_EXPECT(engine == mark && world == reinterpret_cast<tenon_comm_t*>(mark) && flags == 77,
                 "open fails and changes its outputs");
  return pass();
}

// ---- Communicators ----

Outcome run_each(Ranks& ranks, const Members& group, uint32_t seed) {
  for (const Kind& kind : one_of_each(ranks, group, 3)) CONFORM_TRY(run(ranks, group, kind, seed));
  return pass();
}

Outcome engine_comms(Session& s) {
  std::unique_ptr<Ranks> ranks;
  CONFORM_TRY(open_ranks(s, &ranks));
  Members& world = ranks->world();
  std::vector<uint32_t> backwards;
  for (uint32_t i = world.size(); i-- > 0;) backwards.push_back(i);
  std::vector<std::vector<uint32_t>> lists = {backwards};
  if (ranks->all_are_here() && world.size() == kRanks)
    lists.insert(lists.end(), {{2, 0}, {1}, {0, 1, 2}, {2, 0}});
  std::vector<Members> made;
  for (const std::vector<uint32_t>& list : lists) {
    s.step(fmt::format("a communicator of {} members", list.size()));
    made.emplace_back();
    CONFORM_TRY(ranks->create(world, list, &made.back()));
    CONFORM_TRY(run_each(*ranks, made.back(), 2));
  }
  Members within;
  s.step("a communicator of members of a communicator");
  if (made[0].size() > 1 && ranks->all_are_here()) {
    CONFORM_TRY(ranks->create(made[0], {1, 0}, &within));
    CONFORM_TRY(run_each(*ranks, within, 3));
    CONFORM_TRY(ranks->release(&within));
  }
  s.step("using all of them once more, and the world");
  for (Members& group : made) CONFORM_TRY(run_each(*ranks, group, 4));
  CONFORM_TRY(run_each(*ranks, world, 5));
  for (Members& group : made) CONFORM_TRY(ranks->release(&group));
  CONFORM_TRY(run_each(*ranks, world, 6));
  return ranks->close();
}

// Rank 0 begins with one communicator, the others with the other one.
Outcome engine_unordered(Session& s) {
  std::unique_ptr<Ranks> ranks;
  CONFORM_TRY(open_ranks(s, &ranks));
  Members& world = ranks->world();
  std::vector<uint32_t> all;
  for (uint32_t i = 0; i < world.size(); ++i) all.push_back(i);
  Members other, third;
  CONFORM_TRY(ranks->create(world, all, &other));
  CONFORM_TRY(ranks->create(world, all, &third));
  s.step("works of three communicators in another order in each rank");
  const Members* groups[] = {&world, &other, &third};
  uint32_t seed = 0;
  for (const Kind& kind : one_of_each(*ranks, world, 5)) {
    std::vector<Exchange> exchanges;
    for (const Members* group : groups) exchanges.emplace_back(*group, kind, ++seed);
    std::vector<Started> works;
    for (const uint32_t place : world.here()) {
      for (uint32_t i = 0; i < 3; ++i) {
        const uint32_t which = (i + place) % 3;
        const tenon_transfer_t transfer = exchanges[which].transfer(place);
        CONFORM_TRY(ranks->begin(*groups[which], place, {&transfer, 1}, &works));
      }
    }
    CONFORM_TRY(ranks->finish(&works));
    for (const Exchange& exchange : exchanges)
      for (const uint32_t place : world.here()) CONFORM_TRY(exchange.check(place));
  }
  CONFORM_TRY(ranks->release(&other));
  CONFORM_TRY(ranks->release(&third));
  return ranks->close();
}

// ---- Refusals ----

tenon_code_t ask(const Ranks& ranks, tenon_comm_t* comm, const tenon_transfer_kind_t& kind) {
  forget_failure();
  return ranks.api().takes(ranks.api().self, comm, &kind);
}

Outcome engine_takes(Session& s) {
  std::unique_ptr<Ranks> ranks;
  CONFORM_TRY(open_ranks(s, &ranks));
  const Members& world = ranks->world();
  auto kind = sized<tenon_transfer_kind_t>();
  size_t taken = 0;
  s.step("asking what it takes");
  for (kind.transfer = 0; kind.transfer <= TENON_TRANSFER_RECEIVE + 2; ++kind.transfer)
    for (kind.combine = 0; kind.combine <= TENON_COMBINE_MAX + 2; ++kind.combine)
      for (kind.dtype = 0; kind.dtype < elements::kDtypeEnd + 4; ++kind.dtype)
        for (const uint64_t elements :
             {uint64_t{0}, uint64_t{7}, uint64_t{1} << 33, ~uint64_t{0}}) {
          kind.elements = elements;
          const std::string what =
              fmt::format("takes of transfer {}, combine {}, element type {}, {} elements",
                          kind.transfer, kind.combine, kind.dtype, elements);
          const tenon_code_t code = ask(*ranks, world.comms[world.here()[0]], kind);
          CONFORM_EXPECT(code == TENON_OK || code == TENON_UNIMPLEMENTED, "{} gives {}", what,
                         code_text(code));
          CONFORM_EXPECT(code == TENON_OK ||
                             (heard_failure().code == code && !trim(heard_failure().text).empty()),
                         "{} gives {} and no reason", what, code_text(code));
          for (const uint32_t place : world.here())
            CONFORM_EXPECT(ask(*ranks, world.comms[place], kind) == code,
                           "{} gives another answer for member {}", what, place);
          const bool is_known =
              kind.transfer >= TENON_TRANSFER_ALL_REDUCE && kind.transfer <= TENON_TRANSFER_RECEIVE;
          CONFORM_EXPECT(code != TENON_OK || is_known, "{}, which does not exist, gives OK", what);
          const bool has_combine =
              kind.combine >= TENON_COMBINE_SUM && kind.combine <= TENON_COMBINE_MAX;
          CONFORM_EXPECT(code != TENON_OK || !combines(kind.transfer) || has_combine,
                         "{}, which says no combination, gives OK", what);
          taken += code == TENON_OK;
        }
  CONFORM_TRY(ranks->close());
  CONFORM_EXPECT(taken != 0, "it takes no transfer at all");
  return pass();
}

// A stream of a kind that it does not name.
Outcome engine_streams(Session& s) {
  std::unique_ptr<Ranks> ranks;
  CONFORM_TRY(open_ranks(s, &ranks, 1));
  const Members& world = ranks->world();
  const uint32_t place = world.here()[0];
  const std::vector<Kind> kinds = one_of_each(*ranks, world, 3);
  if (kinds.empty()) return skipped("it takes no transfer");
  const Exchange exchange(world, kinds[0]);
  const tenon_transfer_t transfer = exchange.transfer(place);
  auto stream = sized<tenon_native_handle_t>();
  stream.kind = {"conform.nonesuch", 16};
  auto info = sized<tenon_work_info_t>();
  info.sequence = 1;
  auto* const mark = reinterpret_cast<tenon_work_t*>(&info);
  tenon_work_t* work = mark;
  s.step("starting on a stream of a kind that it does not name");
  forget_failure();
  const tenon_code_t code = ranks->api().start(ranks->api().self, world.comms[place], &transfer, 1,
                                               &stream, &info, &work);
  CONFORM_EXPECT(code != TENON_OK,
                 "start takes a stream of a kind that stream_kinds does not name");
  CONFORM_EXPECT(!trim(heard_failure().text).empty(), "start fails without a reason");
  CONFORM_EXPECT(work == mark, "start fails and changes its output");
  return ranks->close();
}

// ---- Faults of other members, aborts ----

// Until all have ended or failed, or for a while.
bool ends_soon(Ranks& ranks, std::vector<Started>* works) {
  for (int i = 0; i < 20; ++i) {
    bool all = true;
    for (Started& work : *works) {
      uint32_t done = 0;
      if (work.is_done) continue;
      work.is_done = ranks.api().test(ranks.api().self, work.work, &done) != TENON_OK || done != 0;
      all = all && work.is_done;
    }
    if (all) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

Outcome engine_mismatch(Session& s) {
  std::unique_ptr<Ranks> ranks;
  CONFORM_TRY(open_ranks(s, &ranks));
  Members& world = ranks->world();
  CONFORM_TRY(all_here(*ranks, world));
  const std::vector<Kind> kinds = one_of_each(*ranks, world, 8);
  for (const Kind& one : kinds) {
    for (const Kind& two : kinds) {
      if (one.transfer == two.transfer) continue;
      s.step(fmt::format("{} against {}", text_of(one), text_of(two)));
      Members apart;
      std::vector<uint32_t> all;
      for (uint32_t i = 0; i < world.size(); ++i) all.push_back(i);
      CONFORM_TRY(ranks->create(world, all, &apart));
      const Exchange first(apart, one), second(apart, two);
      std::vector<Started> works;
      for (const uint32_t place : apart.here()) {
        const tenon_transfer_t transfer = (place == 1 ? second : first).transfer(place);
        tenon_work_t* work = nullptr;
        if (ranks->start(apart, place, {&transfer, 1}, &work) == TENON_OK)
          works.push_back({place, work, false});
      }
      const bool ended = ends_soon(*ranks, &works);
      if (!ended && !ranks->has(TENON_COLLECTIVE_ABORT_ENDS)) {
        for (const uint32_t place : apart.here())
          (void)ranks->api().abort(ranks->api().self, apart.comms[place], 3, {"a mismatch", 10});
        CONFORM_EXPECT(ends_soon(*ranks, &works),
                       "works of different transfers do not end by abort");
      } else if (!ended) {
        return skipped("the works go on, and abort would end the process");
      }
      CONFORM_TRY(ranks->release(&works));
      CONFORM_TRY(ranks->release(&apart));
    }
  }
  s.step("the world, after works that did not fit together");
  CONFORM_TRY(run_each(*ranks, world, 1));
  return ranks->close();
}

Outcome expect_aborted(Ranks& ranks, std::vector<Started>& works) {
  const double limit = kAbortSeconds * load_factor();
  const auto begin = std::chrono::steady_clock::now();
  for (Started& work : works) {
    for (;;) {
      uint32_t done = 0;
      forget_failure();
      const tenon_code_t code = ranks.api().test(ranks.api().self, work.work, &done);
      if (code == TENON_ABORTED) break;
      CONFORM_EXPECT(code == TENON_OK && done == 0, "after abort, test gives {}, done {}",
                     code_text(code), done);
      const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
      CONFORM_EXPECT(spent.count() < limit, "a work of member {} goes on after abort", work.place);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    CONFORM_EXPECT(!trim(heard_failure().text).empty(), "test gives ABORTED without a reason");
  }
  return pass();
}

Outcome engine_abort(Session& s) {
  std::unique_ptr<Ranks> ranks;
  CONFORM_TRY(open_ranks(s, &ranks));
  Members& world = ranks->world();
  CONFORM_TRY(all_here(*ranks, world));
  if (ranks->has(TENON_COLLECTIVE_ABORT_ENDS))
    return skipped("abort ends the processes of the job");
  const std::vector<Kind> kinds = one_of_each(*ranks, world, 3);
  for (const uint32_t by : {0u, world.size() - 1}) {
    Members apart;
    std::vector<uint32_t> all;
    for (uint32_t i = 0; i < world.size(); ++i) all.push_back(i);
    CONFORM_TRY(ranks->create(world, all, &apart));
    const Exchange exchange(apart, kinds[0]);
    std::vector<Started> works;
    for (uint32_t place = 0; place + 1 < apart.size(); ++place) {
      const tenon_transfer_t transfer = exchange.transfer(place);
      CONFORM_TRY(ranks->begin(apart, place, {&transfer, 1}, &works));
    }
    s.step(fmt::format("abort by member {}", by));
    CONFORM_EXPECT(
        ranks->api().abort(ranks->api().self, apart.comms[by], 3, {"conform", 7}) == TENON_OK,
        "abort fails");
    CONFORM_TRY(expect_aborted(*ranks, works));
    const uint32_t last = apart.size() - 1;
    const tenon_transfer_t transfer = exchange.transfer(last);
    tenon_work_t* late = nullptr;
    s.step("a work after abort");
    const tenon_code_t code = ranks->start(apart, last, {&transfer, 1}, &late);
    CONFORM_EXPECT(code == TENON_OK || code == TENON_ABORTED, "start after abort gives {}",
                   code_text(code));
    if (code == TENON_OK) {
      std::vector<Started> more = {{last, late, false}};
      CONFORM_TRY(expect_aborted(*ranks, more));
      works.push_back(more[0]);
    }
    CONFORM_TRY(ranks->release(&works));
    CONFORM_TRY(ranks->release(&apart));
  }
  s.step("another communicator after abort");
  CONFORM_TRY(run_each(*ranks, world, 1));
  return ranks->close();
}

// ---- Releases, threads ----

Outcome engine_releases(Session& s) {
  constexpr int kRounds = 32;
  std::unique_ptr<Ranks> ranks;
  CONFORM_TRY(open_ranks(s, &ranks));
  Members& world = ranks->world();
  const std::vector<Kind> kinds = one_of_each(*ranks, world, 64);
  if (kinds.empty()) return skipped("it takes no transfer");
  CONFORM_TRY(leaves_nothing(kRounds, "works were started and released", [&]() -> Outcome {
    for (int i = 0; i < 4; ++i) CONFORM_TRY(run(*ranks, world, kinds[0]));
    return pass();
  }));
  std::vector<uint32_t> all;
  for (uint32_t i = 0; i < world.size(); ++i) all.push_back(i);
  CONFORM_TRY(leaves_nothing(kRounds, "communicators were created and released", [&]() -> Outcome {
    Members made;
    CONFORM_TRY(ranks->create(world, all, &made));
    return ranks->release(&made);
  }));
  const bool again = ranks->all_are_here() && world.size() == kRanks;
  CONFORM_TRY(ranks->close());
  if (!again) return pass();
  return leaves_nothing(kRounds, "engines were opened and closed", [&]() -> Outcome {
    CONFORM_TRY(ranks->open(kRanks));
    return ranks->close();
  });
}

// Each rank on a thread of its own, which neither waits for the others nor lets them wait.
Outcome engine_threads(Session& s) {
  constexpr int kRounds = 200;
  std::unique_ptr<Ranks> ranks;
  CONFORM_TRY(open_ranks(s, &ranks));
  Members& world = ranks->world();
  CONFORM_TRY(all_here(*ranks, world));
  if (!ranks->has(TENON_COLLECTIVE_FREE_THREADED)) return skipped("it is not free-threaded");
  const std::vector<Kind> kinds = one_of_each(*ranks, world, 17);
  std::vector<Exchange> exchanges;
  for (int i = 0; i < kRounds; ++i)
    exchanges.emplace_back(world, kinds[static_cast<size_t>(i) % kinds.size()],
                           static_cast<uint32_t>(i));
  s.step("works of all ranks, each on a thread");
  CONFORM_TRY(ranks->each(world, [&](uint32_t place) -> Outcome {
    for (const Exchange& exchange : exchanges) {
      std::vector<Started> works;
      const tenon_transfer_t transfer = exchange.transfer(place);
      CONFORM_TRY(ranks->begin(world, place, {&transfer, 1}, &works));
      CONFORM_TRY(ranks->finish(&works));
      CONFORM_TRY(exchange.check(place));
    }
    return pass();
  }));
  return ranks->close();
}

constexpr Check kChecks[] = {
    {"R-G39", "engine-launched", engine_launched},
    {"R-G54", "engine-launcher", engine_launcher},
    {"R-G40", "engine-open", engine_open},
    {"R-G40", "engine-open-refuses", engine_open_refuses},
    {"R-G41", "engine-takes", engine_takes},
    {"R-G41", "engine-streams", engine_streams},
    {"R-G49", "engine-comms", engine_comms},
    {"R-G49", "engine-unordered", engine_unordered},
    {"R-G50", "engine-mismatch", engine_mismatch},
    {"R-G51", "engine-abort", engine_abort},
    {"R-G52", "engine-releases", engine_releases},
    {"R-G53", "engine-threads", engine_threads},
};

}  // namespace

std::span<const Check> engine_checks() {
  static const auto* all = new std::vector<Check>(joined({kChecks, engine_transfer_checks()}));
  return *all;
}

}  // namespace tenon::conform
