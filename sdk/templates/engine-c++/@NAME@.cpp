// The engine `@NAME@`: moves data between ranks that are all in this process. Each rank leaves the
// addresses of its memory, and copies from the others once all are there. An engine for a library
// calls the library instead: `start` its nonblocking functions, and `test` its test.
#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>
#include <vector>

#include <tenon/abi/collective.h>
#include <tenon/cpp/dtype.hpp>
#include <tenon/cpp/plugin.hpp>
#include <tenon/cpp/record.hpp>

namespace {

using namespace tenon;

// One transfer of all members.
struct Meeting {
  std::vector<std::optional<tenon_transfer_t>> sides;  // by place
  size_t arrived = 0, copied = 0;
};
struct Letter {
  tenon_transfer_t side;
  bool copied = false;
};

// What the members of a communicator share.
struct Shared {
  std::mutex mutex;  // of all below
  size_t size = 0;
  bool aborted = false;
  std::map<uint64_t, std::shared_ptr<Meeting>> meetings;  // by number
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, std::deque<std::shared_ptr<Letter>>> letters;
};

// The communicator of these members that came from `parent` as number `number`: the same object for
// each of them. Ranks that are open at the same time are one job.
std::shared_ptr<Shared> shared_of(const Shared* parent, const std::vector<uint32_t>& members,
                                  uint64_t number) {
  static std::mutex mutex;
  static auto* all = new std::map<std::tuple<const Shared*, std::vector<uint32_t>, uint64_t>,
                                  std::weak_ptr<Shared>>;
  const std::lock_guard lock(mutex);
  std::erase_if(*all, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<Shared>& known = (*all)[{parent, members, number}];
  std::shared_ptr<Shared> shared = known.lock();
  if (shared == nullptr) known = shared = std::make_shared<Shared>();
  shared->size = members.size();
  return shared;
}

std::byte* address(const tenon_native_memory_t& memory) {
  return reinterpret_cast<std::byte*>(static_cast<uintptr_t>(memory.handle)) + memory.offset_bytes;
}

}  // namespace

struct tenon_comm_t {
  std::shared_ptr<Shared> shared;
  uint32_t place = 0;
  uint64_t met = 0;  // transfers of all members so far
  std::map<std::vector<uint32_t>, uint64_t> made;
};
struct tenon_engine_t {
  tenon_comm_t world;
};
struct tenon_work_t {
  struct Part {
    tenon_transfer_t side;
    uint64_t number;
    std::shared_ptr<Meeting> meeting;
    std::shared_ptr<Letter> letter;
    bool copied = false, done = false;
  };
  tenon_comm_t* comm;
  std::vector<Part> parts;
};

namespace {

// An engine for a library reads here what the library's launcher says in the environment.
Status launched(void*, tenon_launch_t* out) {
  return give_record(out, sized<tenon_launch_t>());
}

Status open(void*, const tenon_gather_t* gather, uint32_t* out_flags, tenon_engine_t** out,
            tenon_comm_t** out_world) {
  if (gather == nullptr || gather->rank >= gather->rank_count)
    return fail(TENON_FAILED_PRECONDITION,
                "@NAME@: its ranks are in one process: set TENON_MESH_SIMULATE");
  std::vector<uint32_t> all;
  while (all.size() < gather->rank_count) all.push_back(static_cast<uint32_t>(all.size()));
  auto engine = std::make_unique<tenon_engine_t>();
  engine->world.shared = shared_of(nullptr, all, 0);
  engine->world.place = gather->rank;
  *out_flags = TENON_COLLECTIVE_FREE_THREADED;
  *out_world = &engine->world;
  *out = engine.release();
  return {};
}
Status close(void*, tenon_engine_t* engine) {
  return delete engine, Status();
}

Status comm_create(void*, tenon_comm_t* comm, const uint32_t* members, uint32_t count,
                   tenon_comm_t** out) {
  const std::vector<uint32_t> list(members, members + count);
  const auto own = std::find(list.begin(), list.end(), comm->place);
  if (own == list.end()) return fail(TENON_INVALID_ARGUMENT, "@NAME@: this rank is not a member");
  *out = new tenon_comm_t{shared_of(comm->shared.get(), list, comm->made[list]++),
                          static_cast<uint32_t>(own - list.begin()),
                          0,
                          {}};
  return {};
}
Status comm_release(void*, tenon_comm_t* comm) {
  return delete comm, Status();
}

bool combines(uint32_t transfer) {
  return transfer == TENON_TRANSFER_ALL_REDUCE || transfer == TENON_TRANSFER_REDUCE_SCATTER;
}
// The device `mesh` composes what is refused here from other transfers.
Status takes(void*, tenon_comm_t*, const tenon_transfer_kind_t* kind) {
  if (kind->transfer < TENON_TRANSFER_ALL_REDUCE || kind->transfer > TENON_TRANSFER_RECEIVE)
    return fail(TENON_UNIMPLEMENTED, "@NAME@ does not know this transfer");
  if (dtype_bytes(kind->dtype) == 0) return fail(TENON_UNIMPLEMENTED, "@NAME@ moves whole bytes");
  if (combines(kind->transfer) && (kind->dtype != TENON_F32 || kind->combine != TENON_COMBINE_SUM))
    return fail(TENON_UNIMPLEMENTED, "@NAME@ combines sums of f32 only");
  return {};
}

// Under the lock of what the members share, as all below.
tenon_work_t::Part join(tenon_comm_t& comm, const tenon_transfer_t& side) {
  tenon_work_t::Part part = {side, 0, nullptr, nullptr};
  if (side.transfer == TENON_TRANSFER_SEND) {
    part.letter = std::make_shared<Letter>(Letter{side});
    comm.shared->letters[{comm.place, side.peer, side.tag}].push_back(part.letter);
  } else if (side.transfer != TENON_TRANSFER_RECEIVE) {
    part.number = comm.met++;
    auto& meeting = comm.shared->meetings[part.number];
    if (meeting == nullptr) meeting = std::make_shared<Meeting>();
    meeting->sides.resize(comm.shared->size);
    meeting->sides[comm.place] = side;
    ++meeting->arrived;
    part.meeting = meeting;
  }
  return part;
}

Status start(void*, tenon_comm_t* comm, const tenon_transfer_t* transfers, uint32_t count,
             const tenon_native_handle_t* stream, const tenon_work_info_t*, tenon_work_t** out) {
  if (stream != nullptr) return fail(TENON_UNIMPLEMENTED, "@NAME@ takes no streams");
  const std::lock_guard lock(comm->shared->mutex);
  if (comm->shared->aborted) return fail(TENON_ABORTED, "@NAME@: the communicator was aborted");
  auto work = std::make_unique<tenon_work_t>(tenon_work_t{comm, {}});
  for (uint32_t i = 0; i < count; ++i) {
    work->parts.push_back(join(*comm, *static_cast<const tenon_transfer_t*>(
                                          tenon_record_at(transfers, i, transfers->size_bytes))));
  }
  *out = work.release();
  return {};
}

void add(const Meeting& meeting, uint64_t first, const tenon_transfer_t& own) {
  auto* to = reinterpret_cast<float*>(address(own.to));
  std::fill_n(to, own.to_elements, 0.0f);
  for (const auto& side : meeting.sides) {
    const auto* from = reinterpret_cast<const float*>(address(side->from)) + first;
    for (uint64_t i = 0; i < own.to_elements; ++i) to[i] += from[i];
  }
}

Status copy_for(const Meeting& meeting, uint32_t place) {
  const tenon_transfer_t& own = *meeting.sides[place];
  for (const auto& side : meeting.sides) {
    if (side->transfer != own.transfer || side->dtype != own.dtype ||
        side->to_elements != own.to_elements)
      return fail(TENON_INVALID_ARGUMENT, "@NAME@: the members start different transfers");
  }
  if (own.to_elements == 0) return {};
  if (combines(own.transfer)) {
    const uint64_t first = own.transfer == TENON_TRANSFER_ALL_REDUCE ? 0 : place * own.to_elements;
    add(meeting, first, own);
    return {};
  }
  const bool is_broadcast = own.transfer == TENON_TRANSFER_BROADCAST;
  const uint64_t count = is_broadcast ? 1 : meeting.sides.size();
  const uint64_t bytes = own.to_elements / count * dtype_bytes(own.dtype);
  const uint64_t skipped = own.transfer == TENON_TRANSFER_ALL_TO_ALL ? place * bytes : 0;
  for (uint64_t i = 0; i < count; ++i)
    std::memcpy(address(own.to) + i * bytes,
                address(meeting.sides[is_broadcast ? own.peer : i]->from) + skipped, bytes);
  return {};
}

// The memory of each member stays as it is until all have copied.
Status meet(tenon_work_t::Part& part, tenon_comm_t& comm) {
  Meeting& meeting = *part.meeting;
  if (meeting.arrived < meeting.sides.size()) return {};
  if (!part.copied) {
    part.copied = true;
    ++meeting.copied;
    TENON_TRY(copy_for(meeting, comm.place));
  }
  part.done = meeting.copied == meeting.sides.size();
  if (part.done) comm.shared->meetings.erase(part.number);
  return {};
}

Status receive(tenon_work_t::Part& part, tenon_comm_t& comm) {
  auto& waiting = comm.shared->letters[{part.side.peer, comm.place, part.side.tag}];
  if (waiting.empty()) return {};
  const std::shared_ptr<Letter> letter = waiting.front();
  waiting.pop_front();
  part.done = letter->copied = true;
  if (letter->side.from_elements != part.side.to_elements)
    return fail(TENON_INVALID_ARGUMENT, "@NAME@: a send and its receive differ in their sizes");
  if (part.side.to_elements != 0)
    std::memcpy(address(part.side.to), address(letter->side.from),
                part.side.to_elements * dtype_bytes(part.side.dtype));
  return {};
}

Status test(void*, tenon_work_t* work, uint32_t* out_done) {
  const std::lock_guard lock(work->comm->shared->mutex);
  if (work->comm->shared->aborted)
    return fail(TENON_ABORTED, "@NAME@: the communicator was aborted");
  *out_done = 1;
  for (tenon_work_t::Part& part : work->parts) {
    if (!part.done && part.letter != nullptr) part.done = part.letter->copied;
    if (!part.done && part.meeting != nullptr) TENON_TRY(meet(part, *work->comm));
    if (!part.done && part.side.transfer == TENON_TRANSFER_RECEIVE)
      TENON_TRY(receive(part, *work->comm));
    if (!part.done) *out_done = 0;
  }
  return {};
}
Status work_release(void*, tenon_work_t* work) {
  return delete work, Status();
}

Status abort(void*, tenon_comm_t* comm, uint32_t, tenon_str_t) {
  const std::lock_guard lock(comm->shared->mutex);
  comm->shared->aborted = true;
  return {};
}

constexpr tenon_collective_api_t make_table() {
  tenon_collective_api_t table = {};
  table.size_bytes = sizeof table;
  table.name = str("@NAME@");
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
  return table;
}
constexpr tenon_collective_api_t kTable = make_table();
constexpr tenon_interface_t kInterfaces[] = {offer(TENON_COLLECTIVE_ID, kTable)};

}  // namespace

TENON_PLUGIN("@NAME@", "0.1.0", kInterfaces)
