#include "plugins/sim/collective/engine.h"

#include <algorithm>
#include <utility>

#include "plugins/sim/collective/exchange.h"
#include "tenon/cpp/dtype.hpp"
#include "tenon/cpp/record.hpp"

// What one rank has of a communicator.
struct tenon_comm_t {
  std::shared_ptr<tenon::sim::Shared> shared;
  uint32_t place = 0;
  uint64_t met = 0;  // transfers of all members so far
  // Communicators that this rank has made of it, by members: the others make as many.
  std::map<std::vector<uint32_t>, uint64_t> made;
};

struct tenon_work_t {
  struct Part {
    tenon_transfer_t side;
    std::shared_ptr<tenon::sim::Meeting> meeting;
    std::shared_ptr<tenon::sim::Letter> letter;
    uint64_t number = 0;  // of the meeting
    bool copied = false, done = false;
  };
  tenon_comm_t* comm = nullptr;
  std::vector<Part> parts;
};

struct tenon_engine_t {
  tenon_comm_t world;
};

namespace tenon::sim {
namespace {

// Communicators by the one that they come from, their members, and how often they were made. The
// world of N ranks comes from none.
using Origin = std::tuple<const Shared*, std::vector<uint32_t>, uint64_t>;

std::shared_ptr<Shared> shared_of(const Origin& origin) {
  static std::mutex mutex;
  static auto* known = new std::map<Origin, std::weak_ptr<Shared>>;
  const std::lock_guard lock(mutex);
  std::shared_ptr<Shared> shared = (*known)[origin].lock();
  if (shared == nullptr) {
    shared = std::shared_ptr<Shared>(new Shared, [origin](Shared* last) {
      delete last;
      const std::lock_guard gone(mutex);
      const auto at = known->find(origin);
      if (at != known->end() && at->second.expired()) known->erase(at);
    });
    shared->members = std::get<1>(origin);
    (*known)[origin] = shared;
  }
  return shared;
}

Status launched(void*, tenon_launch_t* out) {
  return give_record(out, sized<tenon_launch_t>());
}

Status open(void*, const tenon_gather_t* gather, uint32_t* out_flags, tenon_engine_t** out,
            tenon_comm_t** out_world) {
  if (gather == nullptr || gather->rank >= gather->rank_count) {
    return fail(TENON_FAILED_PRECONDITION,
                "T0902: sim: the ranks of this engine are in one process: set TENON_MESH_SIMULATE");
  }
  auto engine = std::make_unique<tenon_engine_t>();
  std::vector<uint32_t> all;
  for (uint32_t i = 0; i < gather->rank_count; ++i) all.push_back(i);
  engine->world.shared = shared_of({nullptr, all, 0});
  engine->world.place = gather->rank;
  *out_flags = TENON_COLLECTIVE_FREE_THREADED;
  *out_world = &engine->world;
  *out = engine.release();
  return {};
}

Status close(void*, tenon_engine_t* engine) {
  delete engine;
  return {};
}

Status comm_create(void*, tenon_comm_t* comm, const uint32_t* members, uint32_t count,
                   tenon_comm_t** out) {
  const std::vector<uint32_t> list(members, members + count);
  const auto own = std::find(list.begin(), list.end(), comm->place);
  if (own == list.end()) return fail(TENON_INVALID_ARGUMENT, "sim: this rank is not a member");
  auto made = std::make_unique<tenon_comm_t>();
  made->shared = shared_of({comm->shared.get(), list, comm->made[list]++});
  made->place = static_cast<uint32_t>(own - list.begin());
  *out = made.release();
  return {};
}

Status comm_release(void*, tenon_comm_t* comm) {
  delete comm;
  return {};
}

Status takes(void*, tenon_comm_t*, const tenon_transfer_kind_t* kind) {
  if (kind->transfer < TENON_TRANSFER_ALL_REDUCE || kind->transfer > TENON_TRANSFER_RECEIVE)
    return fail(TENON_UNIMPLEMENTED, cat("sim has no transfer ", kind->transfer));
  if (dtype_bytes(kind->dtype) == 0)
    return fail(TENON_UNIMPLEMENTED, "sim moves elements of whole bytes");
  const bool combines = kind->transfer == TENON_TRANSFER_ALL_REDUCE ||
                        kind->transfer == TENON_TRANSFER_REDUCE_SCATTER;
  if (!combines || (kind->dtype == TENON_F32 && kind->combine == TENON_COMBINE_SUM)) return {};
  return fail(TENON_UNIMPLEMENTED, "sim combines sums of f32 only");
}

uint64_t bytes_of(const tenon_transfer_t& side) {
  return std::max(side.from_elements, side.to_elements) * dtype_bytes(side.dtype);
}

// Under the lock of what the members share.
tenon_work_t::Part join(tenon_comm_t& comm, const tenon_transfer_t& side) {
  tenon_work_t::Part part;
  part.side = side;
  Shared& shared = *comm.shared;
  const uint64_t arrival = arrival_ns(steady_ns(), bytes_of(side));
  if (side.transfer == TENON_TRANSFER_SEND) {
    part.letter = std::make_shared<Letter>(Letter{side, arrival, false});
    Mail& mail = shared.mail[{comm.place, side.peer, side.tag}];
    mail.letters[mail.sent++] = part.letter;
  } else if (side.transfer == TENON_TRANSFER_RECEIVE) {
    part.number = shared.mail[{side.peer, comm.place, side.tag}].asked++;
  } else {
    part.number = comm.met++;
    auto& meeting = shared.meetings[part.number];
    if (meeting == nullptr) {
      meeting = std::make_shared<Meeting>();
      meeting->sides.resize(shared.members.size());
    }
    meeting->sides[comm.place] = side;
    meeting->ready_ns = std::max(meeting->ready_ns, arrival);
    ++meeting->arrived;
    part.meeting = meeting;
  }
  return part;
}

Status start(void*, tenon_comm_t* comm, const tenon_transfer_t* transfers, uint32_t count,
             const tenon_native_handle_t* stream, const tenon_work_info_t*, tenon_work_t** out) {
  if (stream != nullptr) return fail(TENON_UNIMPLEMENTED, "sim takes no streams");
  const std::lock_guard lock(comm->shared->mutex);
  if (comm->shared->aborted) return fail(TENON_ABORTED, "T0906: sim: the communicator was aborted");
  auto work = std::make_unique<tenon_work_t>();
  work->comm = comm;
  for (uint32_t i = 0; i < count; ++i) {
    const auto* side =
        static_cast<const tenon_transfer_t*>(tenon_record_at(transfers, i, transfers->size_bytes));
    work->parts.push_back(join(*comm, *side));
  }
  *out = work.release();
  return {};
}

// Until all members have copied, their memory must stay as it is.
Status meet(tenon_work_t::Part& part, Shared& shared, uint32_t place) {
  Meeting& meeting = *part.meeting;
  if (meeting.arrived < meeting.sides.size() || steady_ns() < meeting.ready_ns) return {};
  if (!part.copied) {
    part.copied = true;
    ++meeting.copied;
    TENON_TRY(copy_for(meeting, place));
  }
  part.done = meeting.copied == meeting.sides.size();
  if (part.done) shared.meetings.erase(part.number);
  return {};
}

Status receive(tenon_work_t::Part& part, Shared& shared, uint32_t place) {
  auto& letters = shared.mail[{part.side.peer, place, part.side.tag}].letters;
  const auto own = letters.find(part.number);
  if (own == letters.end() || steady_ns() < own->second->ready_ns) return {};
  const std::shared_ptr<Letter> letter = own->second;
  letters.erase(own);
  part.done = letter->copied = true;
  return copy_letter(*letter, part.side);
}

Status test(void*, tenon_work_t* work, uint32_t* out_done) {
  Shared& shared = *work->comm->shared;
  const std::lock_guard lock(shared.mutex);
  if (shared.aborted) return fail(TENON_ABORTED, "T0906: sim: the communicator was aborted");
  *out_done = 1;
  for (tenon_work_t::Part& part : work->parts) {
    if (part.done) continue;
    if (part.letter != nullptr)
      part.done = part.letter->copied;
    else if (part.meeting != nullptr)
      TENON_TRY(meet(part, shared, work->comm->place));
    else
      TENON_TRY(receive(part, shared, work->comm->place));
    if (!part.done) *out_done = 0;
  }
  return {};
}

Status work_release(void*, tenon_work_t* work) {
  delete work;
  return {};
}

Status abort(void*, tenon_comm_t* comm, uint32_t, tenon_str_t) {
  const std::lock_guard lock(comm->shared->mutex);
  comm->shared->aborted = true;
  return {};
}

constexpr tenon_collective_api_t make_table() {
  tenon_collective_api_t table = {};
  table.size_bytes = sizeof table;
  table.name = str("sim");
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

}  // namespace

const tenon_collective_api_t kCollectiveTable = make_table();

}  // namespace tenon::sim
