#include "ranks.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "said.h"
#include "tenon/abi/host.h"
#include "tenon/cpp/engines.hpp"
#include "tenon/cpp/record.hpp"
#include "transfer.h"

namespace tenon::mesh {
namespace {

constexpr uint32_t kRanksHereMax = 64;
// Groups have numbers from 1, and their agreements numbers above this.
constexpr uint32_t kControlNumbers = 1u << 16;
// Groups of the program above this: they may differ between processes.
constexpr uint32_t kGivenNumbers = 1u << 20;

const tenon_host_registry_t& registry() {
  static const auto* table = context().query<tenon_host_registry_t>(TENON_HOST_REGISTRY_ID, 1);
  return *table;
}

tenon_code_t no_gather(void*, const void*, uint64_t, void*) {
  return fail(TENON_UNIMPLEMENTED, "T0902: the ranks are in one process and exchange nothing here")
      .code();
}

// Processes of one machine share its processors. Those that the launcher has bound to some of them
// do not.
void share_threads(uint32_t processes) {
  const auto* threads = context().query<tenon_host_threads_t>(TENON_HOST_THREADS_ID, 1);
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  const bool is_bound = ::sched_getaffinity(0, sizeof allowed, &allowed) != 0 ||
                        CPU_COUNT(&allowed) < ::sysconf(_SC_NPROCESSORS_ONLN);
  if (threads == nullptr || processes < 2 || is_bound || !setting("TENON_NUM_THREADS").empty())
    return;
  const uint32_t count = std::max(1u, threads->count(threads->self) / processes);
  if (threads->set_count(threads->self, count) == TENON_OK)
    log("mesh", TENON_LOG_INFO, processes, " processes share this machine: ", count,
        " threads for each");
}

class Agreement : public Job {
 public:
  Agreement(Ranks& ranks, Members& members, std::string_view text, std::string_view shown)
      : members_(members),
        all_(std::make_unique<std::vector<Said>>(static_cast<size_t>(members.count()) + 1)),
        transfer_(ranks, members, shown) {
    all_->back() = said(text, shown);
  }
  ~Agreement() override {
    if (transfer_.is_started()) (void)all_.release();  // the engine may still use it
  }

  Status advance(bool* out_done) override {
    if (!transfer_.is_started()) {
      const tenon_transfer_t gather =
          transfer_of(TENON_TRANSFER_ALL_GATHER, TENON_U8, &all_->back(), kSaidBytes, all_->data(),
                      static_cast<uint64_t>(members_.count()) * kSaidBytes);
      may_start_ = false;
      TENON_TRY(transfer_.start("agreement", {&gather, 1}));
    }
    TENON_TRY(transfer_.test(out_done));
    return *out_done ? compare() : Status();
  }
  bool may_start() const override { return may_start_; }
  std::vector<Range> reads() const override { return {}; }
  std::vector<Range> writes() const override { return {}; }

 private:
  // All processes compare with the first one, so they all fail together.
  Status compare() const {
    for (size_t i = 1; i < members_.ranks.size(); ++i) {
      if (mesh::agree((*all_)[i], (*all_)[0])) continue;
      return fail(TENON_FAILED_PRECONDITION,
                  cat("T0905: the processes disagree: rank ", members_.ranks[0], " is at ",
                      shown_of((*all_)[0]), ", and rank ", members_.ranks[i], " at ",
                      shown_of((*all_)[i])));
    }
    return {};
  }

  const Members& members_;
  std::unique_ptr<std::vector<Said>> all_;  // of all members, then what this process says
  Transfer transfer_;
  bool may_start_ = true;
};

// The group that the program has made, if the mesh is one: null if not.
Status given(const Mesh& mesh, std::unique_ptr<Members>* out) {
  if (mesh.axes().size() != 1) return {};
  const Mesh::Axis& axis = mesh.axes()[0];
  for (const std::string& name : engines::names(registry())) {
    const tenon_collective_api_t* api = engines::find(registry(), name);
    if (api == nullptr || api->group == nullptr) continue;
    auto made = std::make_unique<Members>();
    uint32_t place = 0, count = 0;
    const tenon_code_t code = api->group(api->self, str(axis.name), &made->comm, &place, &count);
    if (code == TENON_NOT_FOUND) continue;
    if (code != TENON_OK) return Status(code);
    if (count != axis.size) {
      return fail(TENON_FAILED_PRECONDITION,
                  cat("T0901: the program is for ", axis.size, " processes of the group ",
                      quoted(axis.name), ", which has ", count));
    }
    made->api = api;
    made->is_given = true;
    made->position = place;
    for (uint32_t i = 0; i < count; ++i) made->ranks.push_back(i);
    *out = std::move(made);
    return {};
  }
  return {};
}

// TENON_MESH_SIMULATE, or 0.
uint32_t simulated() {
  static const uint32_t count = [] {
    const std::string_view text = setting("TENON_MESH_SIMULATE");
    uint32_t value = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool fits = code == std::errc() && end == text.data() + text.size() && value >= 1 &&
                      value <= kRanksHereMax;
    if (!text.empty() && !fits) {
      log("mesh", TENON_LOG_WARN, "TENON_MESH_SIMULATE=", quoted(text),
          " is not a number from 1 to ", kRanksHereMax, "; nothing is simulated");
    }
    return fits ? value : 0;
  }();
  return count;
}

}  // namespace

uint32_t simulated_ranks() {
  return std::max(simulated(), 1u);
}

// Every process says that it ends before it waits for the others, so all of them come to an end: a
// process that waits for data of this one fails as soon as it hears of it.
Status Ranks::begin_end() {
  if (gave_up_) return {};
  const std::lock_guard lock(mutex_);
  if (engine_ == nullptr || process_ != ::getpid()) return {};
  // The message fails if the program has already ended the communication library itself.
  if (!news_.tell_end(line_).ok()) gave_up_ = true;
  return {};
}

Status Ranks::end(bool* out_ended) {
  const std::lock_guard lock(mutex_);
  *out_ended = gave_up_ || engine_ == nullptr || process_ != ::getpid();
  if (*out_ended) return {};
  TENON_TRY(news_.are_over(line_, out_ended));
  if (!*out_ended) return {};
  for (const auto& [name, group] : groups_) {
    if (group == nullptr || group->comm == nullptr || group->is_given) continue;
    (void)api_->comm_release(api_->self, group->comm);
    if (group->control->comm != nullptr) (void)api_->comm_release(api_->self, group->control->comm);
  }
  recorder_.close();
  return api_->close(api_->self, std::exchange(engine_, nullptr));
}

Ranks::~Ranks() {
  bool ended = !begin_end().ok();
  for (Patience patience; !ended; patience.pause()) {
    if (!end(&ended).ok()) return;
  }
}

Status Ranks::open() {
  const std::lock_guard lock(mutex_);
  if (!opened_) {
    opened_ = true;
    const Status status = choose();
    if (!status.ok()) failed_ = Fault::last(status.code());
  }
  return failed_.report();
}

// The engine that TENON_ENGINE names, or the first whose launcher has started this process.
Status Ranks::choose() {
  const std::string_view chosen = setting("TENON_ENGINE");
  const bool is_simulated = simulated() != 0;
  std::vector<std::string> names;
  if (!chosen.empty() || is_simulated)
    names.emplace_back(chosen.empty() ? std::string_view("sim") : chosen);
  else
    names = engines::names(registry());
  std::string reasons;
  for (const std::string& name : names) {
    const tenon_collective_api_t* api = engines::find(registry(), name);
    auto launch = sized<tenon_launch_t>();
    if (api == nullptr) {
      reasons += cat("; ", name, ": ", Fault::last(TENON_NOT_FOUND).message);
      continue;
    }
    const tenon_code_t code = api->launched(api->self, &launch);
    if (code != TENON_OK) reasons += cat("; ", name, ": ", Fault::last(code).message);
    if (code == TENON_OK && (launch.is_launched != 0 || is_simulated)) return connect(*api, launch);
    if (code == TENON_OK)
      reasons += cat("; ", name, ": no launcher of it has started this process");
  }
  return fail(TENON_UNAVAILABLE,
              cat("T0902: no engine connects this process with others", reasons));
}

Status Ranks::connect(const tenon_collective_api_t& api, const tenon_launch_t& launch) {
  if (view(api.memory_kinds).find("host") == std::string_view::npos) {
    return fail(TENON_UNIMPLEMENTED,
                cat("T0902: the engine ", view(api.name), " does not take memory of the host"));
  }
  world_.api = api_ = &api;
  auto gather = sized<tenon_gather_t>();
  gather.rank = ordinal_;
  gather.rank_count = simulated_ranks();
  gather.all_gather = no_gather;
  const bool is_simulated = simulated() != 0;
  rank_ = is_simulated ? ordinal_ : launch.rank;
  count_ = is_simulated ? simulated_ranks() : launch.rank_count;
  TENON_TRY(api.open(api.self, is_simulated ? &gather : nullptr, &flags_, &engine_, &world_.comm));
  process_ = ::getpid();
  for (uint32_t i = 0; i < count_; ++i) world_.ranks.push_back(i);
  world_.position = rank_;
  recorder_.open(rank_, count_, view(api.name));
  TENON_TRY(news_.open(api, world_.comm, rank_, count_));
  share_threads(launch.local_rank_count);
  log("mesh", TENON_LOG_INFO, "rank ", rank_, " of ", count_, " by the engine ", view(api.name),
      ", started by ", view(launch.launcher), ", ", view(launch.library));
  return {};
}

// Whether the processes of a job fit the mesh.
Status Ranks::connected(const Mesh& mesh, std::string_view mesh_text) {
  if (mesh.rank_count() != 1 || simulated_ranks() != 1) {
    if (const Status status = open(); status.code() == TENON_UNAVAILABLE) {
      return fail(TENON_UNAVAILABLE,
                  cat(failed_.message, ". The program is for the ", mesh.rank_count(),
                      " processes of the mesh ", quoted(mesh_text),
                      ": start it with `tenon launch -n ", mesh.rank_count(), " -- ...`"));
    } else if (!status.ok()) {
      return status;
    }
  }
  if (mesh.rank_count() != count_) {
    return fail(TENON_FAILED_PRECONDITION,
                cat("T0901: the program is for the ", mesh.rank_count(), " processes of the mesh ",
                    quoted(mesh_text), ", and ", count_,
                    count_ == 1 ? " process runs it" : " processes run it"));
  }
  return {};
}

Status Ranks::members(std::string_view mesh_text, std::string_view axes_text, Members** out) {
  Mesh mesh;
  std::vector<size_t> axes;
  std::string why = Mesh::parse(mesh_text, &mesh);
  if (why.empty()) why = mesh.find(axes_text, &axes);
  if (!why.empty()) return fail(TENON_INVALID_ARGUMENT, cat("T0901: the mesh is refused: ", why));
  std::unique_ptr<Members> own;
  TENON_TRY(given(mesh, &own));
  if (own == nullptr) TENON_TRY(connected(mesh, mesh_text));
  const std::lock_guard lock(mutex_);
  auto& group = groups_[{std::string(mesh_text), std::string(axes_text)}];
  if (group != nullptr && own != nullptr) {
    // The program may have made the group again, with other places.
    const std::lock_guard line_lock(line_.mutex());
    group->position = own->position;
    (void)own->api->comm_release(own->api->self, own->comm);
  } else if (own != nullptr) {
    own->number = kGivenNumbers + ++given_count_;
    group = std::move(own);
  } else if (group == nullptr) {
    auto made = std::make_unique<Members>();
    made->ranks = mesh.members(axes, rank_);
    made->position = mesh.position(axes, rank_);
    made->number = static_cast<uint32_t>(groups_.size()) - given_count_;
    if (made->count() > 1) {
      TENON_TRY(agree(cat("the group of the axes ", axes_text, " of the mesh ", mesh_text)));
      TENON_TRY(create(made.get()));
    }
    group = std::move(made);
  }
  *out = group.get();
  return {};
}

// All processes have agreed that they make communicators now, so none waits for long.
Status Ranks::create(Members* members) {
  members->api = api_;
  members->control = std::make_unique<Members>();
  members->control->api = api_;
  members->control->ranks = members->ranks;
  members->control->position = members->position;
  members->control->number = members->number + kControlNumbers;
  TENON_TRY(create(*members, &members->comm));
  return create(*members, &members->control->comm);
}
Status Ranks::create(const Members& members, tenon_comm_t** out) {
  const std::vector<uint32_t> ranks(members.ranks.begin(), members.ranks.end());
  const std::lock_guard lock(line_.mutex());
  return api_->comm_create(api_->self, world_.comm, ranks.data(),
                           static_cast<uint32_t>(ranks.size()), out);
}

std::unique_ptr<Job> Ranks::agreement(Members& members, std::string_view text,
                                      std::string_view shown) {
  return std::make_unique<Agreement>(*this, *members.control, text, shown);
}

Status Ranks::agree(std::string_view text) {
  Agreement job(*this, world_, text, text);
  return line_.run(job);
}

}  // namespace tenon::mesh
