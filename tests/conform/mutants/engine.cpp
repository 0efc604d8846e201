// A good engine, whose ranks are all in this process, and, with CONFORM_MUTANT=NAME, one that does
// one thing wrong. engine.list has each name with the check that must catch it.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <tenon/abi/collective.h>
#include <tenon/cpp/dtype.hpp>
#include <tenon/cpp/plugin.hpp>
#include <tenon/cpp/record.hpp>

namespace {

using namespace tenon;

bool is(const char* name) {
  static const char* mutant = std::getenv("CONFORM_MUTANT");
  return mutant != nullptr && std::strcmp(mutant, name) == 0;
}

struct Meeting {
  std::vector<std::optional<tenon_transfer_t>> sides;
  uint32_t arrived = 0, copied = 0;
};
struct Letter {
  tenon_transfer_t side;
  bool copied = false;
};
using Route = std::tuple<uint32_t, uint32_t, uint32_t>;  // from, to, tag
// What the members of a communicator share.
struct Shared {
  std::mutex mutex;
  uint32_t size = 0;
  bool aborted = false;
  std::map<uint64_t, std::shared_ptr<Meeting>> meetings;
  std::map<Route, std::deque<std::shared_ptr<Letter>>> letters;
  // Communicators of some members, by the list and how often it was made.
  std::map<std::pair<std::vector<uint32_t>, uint64_t>, std::pair<std::shared_ptr<Shared>, size_t>>
      made;
};

// Does not lock for the mutant that is not for threads.
class Lock {
 public:
  explicit Lock(std::mutex& mutex) : mutex_(is("not_for_threads") ? nullptr : &mutex) {
    if (mutex_ != nullptr) mutex_->lock();
  }
  ~Lock() {
    if (mutex_ != nullptr) mutex_->unlock();
  }

 private:
  std::mutex* mutex_;
};

}  // namespace

struct tenon_comm_t {
  std::shared_ptr<Shared> shared;
  uint32_t place = 0;
  uint64_t met = 0;
  std::map<std::vector<uint32_t>, uint64_t> made;
  bool aborted_here = false;
  tenon_comm_t* parent = nullptr;
};
struct tenon_work_t {
  struct Part {
    tenon_transfer_t side;
    std::shared_ptr<Meeting> meeting;
    std::shared_ptr<Letter> letter;
    uint64_t number = 0;
    bool copied = false, done = false;
  };
  tenon_comm_t* comm = nullptr;
  std::vector<Part> parts;
  bool written_again = false;
};
struct tenon_engine_t {
  tenon_comm_t world;
};

namespace {

unsigned char* address(const tenon_native_memory_t& memory) {
  return reinterpret_cast<unsigned char*>(static_cast<uintptr_t>(memory.handle)) +
         (is("ignores_offset") ? 0 : memory.offset_bytes);
}

Status launched(void*, tenon_launch_t* out) {
  static int calls;
  auto made = sized<tenon_launch_t>();
  if (is("launched_changes") && calls++ % 2 == 1) made.launcher = str("mutant");
  if (is("launched_rank")) made = {sizeof made, 1, 5, 3, 0, 1, str("mutant"), str("")};
  if (is("launched_nameless")) made = {sizeof made, 1, 0, 1, 0, 1, str(""), str("")};
  if (is("launched_fails")) return fail(TENON_INTERNAL, "mutant: no launcher");
  return give_record(out, made);
}

std::shared_ptr<Shared>* shared_by(const tenon_gather_t& gather, uint64_t* out_own) {
  auto own = gather.rank == 0
                 ? std::make_unique<std::shared_ptr<Shared>>(std::make_shared<Shared>())
                 : nullptr;
  *out_own = reinterpret_cast<uintptr_t>(own.release());
  std::vector<uint64_t> all(gather.rank_count);
  if (gather.all_gather(gather.self, out_own, sizeof *out_own, all.data()) != TENON_OK)
    return nullptr;
  return reinterpret_cast<std::shared_ptr<Shared>*>(all[0]);
}

// Rank 0 makes what all share, and tells the others its address.
Status open(void*, const tenon_gather_t* gather, uint32_t* out_flags, tenon_engine_t** out,
            tenon_comm_t** out_world) {
  if (is("open_writes")) *out_flags = 0;
  if (gather == nullptr) return fail(TENON_FAILED_PRECONDITION, "mutant: open needs a gather");
  if (gather->rank >= gather->rank_count) {
    if (is("open_any_rank")) return *out = new tenon_engine_t, TENON_OK;
    if (is("open_silent")) return TENON_INVALID_ARGUMENT;
    return fail(TENON_INVALID_ARGUMENT, "mutant: there are fewer ranks");
  }
  uint64_t own = 0;
  const auto* shared = shared_by(*gather, &own);
  if (shared == nullptr) return fail(TENON_UNAVAILABLE, "mutant: the ranks do not meet");
  auto engine = std::make_unique<tenon_engine_t>();
  engine->world.shared = *shared;
  engine->world.shared->size = gather->rank_count;
  engine->world.place =
      is("open_wrong_rank") ? gather->rank_count - 1 - gather->rank : gather->rank;
  // It stays until all have it.
  std::vector<uint64_t> all(gather->rank_count);
  (void)gather->all_gather(gather->self, &own, sizeof own, all.data());
  delete reinterpret_cast<std::shared_ptr<Shared>*>(own);
  *out_flags = TENON_COLLECTIVE_FREE_THREADED;
  *out_world = &engine->world;
  *out = engine.release();
  return {};
}

Status close(void*, tenon_engine_t* engine) {
  if (!is("leaks_engines")) delete engine;
  return {};
}

Status comm_create(void*, tenon_comm_t* comm, const uint32_t* members, uint32_t count,
                   tenon_comm_t** out) {
  std::vector<uint32_t> list(members, members + count);
  if (is("comm_sorts_members")) std::sort(list.begin(), list.end());
  auto made = std::make_unique<tenon_comm_t>();
  const auto own = std::find(list.begin(), list.end(), comm->place);
  if (own == list.end()) return fail(TENON_INVALID_ARGUMENT, "mutant: this rank is not a member");
  made->place = static_cast<uint32_t>(own - list.begin());
  made->parent = comm;
  Shared& shared = *comm->shared;
  const Lock lock(shared.mutex);
  const uint64_t time = is("comms_share") ? 0 : comm->made[list]++;
  auto& [child, takers] = shared.made[{list, time}];
  if (child == nullptr) child = std::make_shared<Shared>();
  child->size = count;
  made->shared = child;
  if (is("comm_is_world")) made->shared = comm->shared, made->place = comm->place;
  if (++takers == count && !is("leaks_comms") && !is("comms_share"))
    shared.made.erase({list, time});
  if (is("comm_null")) return *out = nullptr, TENON_OK;
  *out = made.release();
  return {};
}

Status comm_release(void*, tenon_comm_t* comm) {
  if (is("comm_release_ends_world")) comm->parent->shared->aborted = true;
  delete comm;
  return {};
}

bool combines(uint32_t transfer) {
  return transfer == TENON_TRANSFER_ALL_REDUCE || transfer == TENON_TRANSFER_REDUCE_SCATTER;
}

Status takes(void*, tenon_comm_t* comm, const tenon_transfer_kind_t* kind) {
  if (is("takes_everything")) return {};
  if (is("takes_by_rank") && comm->place == 1 && kind->dtype == TENON_F64) {
    return fail(TENON_UNIMPLEMENTED, "mutant: not in this rank");
  }
  const bool is_known =
      kind->transfer >= TENON_TRANSFER_ALL_REDUCE && kind->transfer <= TENON_TRANSFER_RECEIVE;
  const bool has_combine = kind->combine >= TENON_COMBINE_SUM && kind->combine <= TENON_COMBINE_MAX;
  const bool is_number = is_in(kind->dtype, dtype_bit(TENON_F32) | dtype_bit(TENON_F64) |
                                                dtype_bit(TENON_F16) | dtype_bit(TENON_I32));
  const bool lies =
      is("takes_lies") && kind->dtype == TENON_C64 && kind->combine == TENON_COMBINE_SUM;
  if (is_known && dtype_bytes(kind->dtype) != 0 &&
      (!combines(kind->transfer) || (has_combine && (is_number || lies)) ||
       (is("takes_no_combine") && kind->combine == TENON_COMBINE_NONE)))
    return {};
  if (is("takes_silent")) return TENON_UNIMPLEMENTED;
  if (is("takes_other_code")) return fail(TENON_INVALID_ARGUMENT, "mutant: it does not do this");
  return fail(TENON_UNIMPLEMENTED, "mutant: it does not do this");
}

// Under the lock of what the members share.
tenon_work_t::Part join(tenon_comm_t& comm, const tenon_transfer_t& side) {
  tenon_work_t::Part part;
  part.side = side;
  Shared& shared = *comm.shared;
  const uint32_t tag = is("tags_ignored") ? 0 : side.tag;
  if (side.transfer == TENON_TRANSFER_SEND) {
    part.letter = std::make_shared<Letter>(Letter{side, false});
    auto& waiting = shared.letters[{comm.place, side.peer, tag}];
    if (is("last_letter_first"))
      waiting.push_front(part.letter);
    else
      waiting.push_back(part.letter);
  } else if (side.transfer != TENON_TRANSFER_RECEIVE) {
    part.number = is("mixes_flights") ? comm.met++ / 2 * 2 : comm.met++;
    auto& meeting = shared.meetings[part.number];
    if (meeting == nullptr) {
      meeting = std::make_shared<Meeting>();
      meeting->sides.resize(shared.size);
    }
    meeting->arrived += !meeting->sides[comm.place];
    meeting->sides[comm.place] = side;
    part.meeting = meeting;
  }
  return part;
}

Status start(void*, tenon_comm_t* comm, const tenon_transfer_t* transfers, uint32_t count,
             const tenon_native_handle_t* stream, const tenon_work_info_t*, tenon_work_t** out) {
  if (stream != nullptr && !is("takes_any_stream"))
    return fail(TENON_UNIMPLEMENTED, "mutant: it takes no streams");
  if (is("start_refuses_u8") && transfers->dtype == TENON_U8)
    return fail(TENON_UNIMPLEMENTED, "mutant: it takes no u8");
  if (is("start_null")) return *out = nullptr, TENON_OK;
  auto work = std::make_unique<tenon_work_t>();
  {
    const Lock lock(comm->shared->mutex);
    if (comm->shared->aborted && !is("abort_ignored"))
      return fail(TENON_ABORTED, "mutant: the communicator was aborted");
    work->comm = comm;
    for (uint32_t i = 0; i < (is("first_of_list_only") ? 1 : count); ++i) {
      const uint32_t step = is("lists_by_sizeof") ? sizeof *transfers : transfers->size_bytes;
      work->parts.push_back(
          join(*comm, *static_cast<const tenon_transfer_t*>(tenon_record_at(transfers, i, step))));
    }
  }
  while (is("start_waits") && work->parts[0].meeting != nullptr &&
         work->parts[0].meeting->arrived < comm->shared->size)
    ::usleep(1000);
  *out = work.release();
  return {};
}

double pick(uint32_t combine, double a, double b) {
  if (combine == TENON_COMBINE_SUM) return a + b;
  if (!is("min_ignores_nan") && (std::isnan(a) || std::isnan(b))) return NAN;
  const bool least = combine == TENON_COMBINE_MIN || is("max_is_min");
  return least ? std::fmin(a, b) : std::fmax(a, b);
}

void combine(const Meeting& meeting, uint32_t place, uint64_t first, const tenon_transfer_t& own) {
  const uint32_t width = dtype_bytes(own.dtype);
  for (uint64_t i = 0; i < own.to_elements; ++i) {
    double all = load_double(own.dtype, address(meeting.sides[0]->from) + (first + i) * width);
    for (uint32_t m = 1; m < meeting.sides.size(); ++m) {
      if (is("sum_misses_last") && m > 1) continue;
      if (is("sum_twice_own") && m == place)
        all =
            pick(own.combine, all, load_double(own.dtype, address(own.from) + (first + i) * width));
      all = pick(own.combine, all,
                 load_double(own.dtype, address(meeting.sides[m]->from) + (first + i) * width));
    }
    store_double(own.dtype, address(own.to) + i * width, all);
    if (is("sum_in_place")) store_double(own.dtype, address(own.from) + i * width, all);
  }
}

void copy_parts(const Meeting& meeting, uint32_t place, const tenon_transfer_t& own) {
  const uint64_t count = meeting.sides.size();
  const uint64_t part = own.to_elements / count * dtype_bytes(own.dtype);
  const bool parted = own.transfer == TENON_TRANSFER_ALL_TO_ALL;
  for (uint64_t i = 0; i < count; ++i) {
    if (is("gather_skips_own") && i == place) continue;
    const uint64_t from = is("gather_order") ? count - 1 - i : i;
    const uint64_t index = is("all_to_all_first_part") ? 0 : place;
    std::memcpy(address(own.to) + i * part,
                address(meeting.sides[from]->from) + (parted ? index * part : 0), part);
  }
}

Status move(const Meeting& meeting, uint32_t place) {
  const tenon_transfer_t& own = *meeting.sides[place];
  for (const auto& side : meeting.sides) {
    if (side->transfer == own.transfer && side->dtype == own.dtype) continue;
    if (is("mismatch_crashes")) std::abort();
    return fail(TENON_INVALID_ARGUMENT, "mutant: members start different transfers");
  }
  if (own.to_elements == 0) return {};
  const uint64_t bytes = own.to_elements * dtype_bytes(own.dtype);
  const uint32_t part = is("scatter_next_part") ? (place + 1) % meeting.sides.size() : place;
  if (own.transfer == TENON_TRANSFER_ALL_REDUCE)
    combine(meeting, place, 0, own);
  else if (own.transfer == TENON_TRANSFER_REDUCE_SCATTER)
    combine(meeting, place, part * own.to_elements, own);
  else if (own.transfer != TENON_TRANSFER_BROADCAST)
    copy_parts(meeting, place, own);
  else if (!is("broadcast_leaves_root") || place != own.peer)
    std::memcpy(address(own.to), address(meeting.sides[own.peer]->from), bytes);
  if (is("writes_more")) address(own.to)[bytes] = 0;
  if (is("loses_last_byte") && bytes > 100'000) address(own.to)[bytes - 1] ^= 1;
  return {};
}

// The memory of a member stays as it is until all have copied.
Status meet(tenon_work_t::Part& part, Shared& shared, uint32_t place) {
  Meeting& meeting = *part.meeting;
  if (is("done_at_once")) part.done = true;
  if (meeting.arrived < (is("done_without_last") ? shared.size - 1 : shared.size)) return {};
  if (meeting.arrived < shared.size) return part.done = true, Status();
  if (!part.copied) {
    part.copied = true;
    ++meeting.copied;
    if (const Status status = move(meeting, place); !status.ok()) {
      if (is("mismatch_ends_all")) ::_exit(3);
      return status;
    }
  }
  if (is("empty_never_ends") && part.side.to_elements == 0) return {};
  part.done = meeting.copied == meeting.sides.size() || is("done_before_others_copied");
  if (meeting.copied == meeting.sides.size()) shared.meetings.erase(part.number);
  return {};
}

void receive(tenon_work_t::Part& part, Shared& shared, uint32_t place) {
  const uint32_t tag = is("tags_ignored") ? 0 : part.side.tag;
  auto& waiting = shared.letters[{part.side.peer, place, tag}];
  if (waiting.empty()) return;
  const std::shared_ptr<Letter> letter = waiting.front();
  waiting.pop_front();
  part.done = letter->copied = true;
  if (part.side.to_elements != 0)
    std::memcpy(address(part.side.to), address(letter->side.from),
                part.side.to_elements * dtype_bytes(part.side.dtype));
}

// For the mutant that writes once more when another work is asked about.
void write_again(tenon_work_t& work) {
  static std::vector<std::pair<unsigned char*, unsigned char>> done;
  for (auto& [at, byte] : done) *at = byte;
  done.clear();
  for (const auto& part : work.parts)
    if (part.done && part.side.to_elements != 0) done.push_back({address(part.side.to), 0});
}

Status test(void*, tenon_work_t* work, uint32_t* out_done) {
  Shared& shared = *work->comm->shared;
  while (is("test_waits") && work->parts[0].meeting != nullptr &&
         work->parts[0].meeting->arrived < shared.size)
    ::usleep(1000);
  const Lock lock(shared.mutex);
  if (is("abort_only_own") ? work->comm->aborted_here : shared.aborted && !is("abort_ignored")) {
    if (is("abort_is_done")) return *out_done = 1, TENON_OK;
    if (is("abort_other_code")) return fail(TENON_CANCELLED, "mutant: it was aborted");
    if (is("abort_silent")) return TENON_ABORTED;
    return fail(TENON_ABORTED, "mutant: the communicator was aborted");
  }
  *out_done = is("done_two") ? 2 : 1;
  for (tenon_work_t::Part& part : work->parts) {
    if (part.done) continue;
    if (part.letter != nullptr)
      part.done = part.letter->copied;
    else if (part.meeting != nullptr)
      TENON_TRY(meet(part, shared, work->comm->place));
    else
      receive(part, shared, work->comm->place);
    if (!part.done) *out_done = 0;
  }
  if (is("writes_after_done")) write_again(*work);
  return {};
}

Status work_release(void*, tenon_work_t* work) {
  if (!is("leaks_works")) delete work;
  return {};
}

Status abort(void*, tenon_comm_t* comm, uint32_t, tenon_str_t) {
  comm->aborted_here = true;
  const Lock lock(comm->shared->mutex);
  comm->shared->aborted = true;
  if (is("abort_ends_the_world")) comm->parent->shared->aborted = true;
  return {};
}

Status launcher(void*, uint32_t count, const tenon_sink_t* words) {
  if (is("launcher_silent")) return TENON_UNAVAILABLE;
  if (is("launcher_other_code")) return fail(TENON_NOT_FOUND, "mutant: there is nothing to start");
  if (is("launcher_nothing")) return {};
  const std::string number = std::to_string(count);
  for (const std::string& word : {std::string("mutantrun"), std::string("-n"), number})
    TENON_TRY(words->write(words->self, word.data(),
                           word.size() + (is("launcher_no_zero") && word == number ? 0 : 1)));
  if (is("launcher_empty_word")) return words->write(words->self, "", 1);
  return {};
}

constexpr tenon_collective_api_t make_table() {
  tenon_collective_api_t table = {};
  table.size_bytes = sizeof table;
  table.name = str("mutant");
  table.memory_kinds = str("host");
  table.launched = entry<launched>;
  table.open = entry<open>;
  table.close = entry<close>;
  table.comm_create = entry<comm_create>;
  table.comm_release = entry<comm_release>;
  table.takes = entry<takes>;
  table.start = entry<start>;
  table.test = entry<test>;
  table.work_release = entry<work_release>;
  table.abort = entry<abort>;
  table.launcher = entry<launcher>;
  return table;
}
constexpr tenon_collective_api_t kTable = make_table();
constexpr tenon_interface_t kInterfaces[] = {offer(TENON_COLLECTIVE_ID, kTable)};

}  // namespace

TENON_PLUGIN("mutant_engine", "0.1.0", kInterfaces)
