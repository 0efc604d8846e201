#include "core/base/process/thread_pool.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdio>

#include "core/base/errors/failure.h"
#include "core/base/process/environment.h"
#include "core/base/process/float_state.h"
#include "core/base/process/log.h"
#include "core/base/process/operation.h"
#include "core/base/process/signal_mask.h"
#include "core/base/str.h"

namespace tenon {
namespace {

constexpr uint32_t kSlotCount = 8;  // regions that run at once; further ones run inline
constexpr int64_t kChunksPerThread =
    16;  // many, so that a thread that lost its core, or took the last chunk, delays little
constexpr int64_t kSpinNs = 50'000;  // longer than the gap between two kernels of a plan
constexpr int64_t kPreemptedGapNs =
    30'000;  // a spinning thread that sees such a gap had lost its core
constexpr int64_t kNoSpinNs = 10'000'000;  // after that no thread spins for this long
constexpr size_t kStackBytes = size_t{2} << 20;

// A region's state is one word, so that a worker joins and claims, or finds nothing and leaves,
// with a single transfer of one cache line. Low half: kOpen | kWaiting | number of workers inside.
// High half: tickets left. If chunks are few, latency matters and a ticket is a chunk; else a
// ticket admits one worker, and the chunks are divided into shares.
constexpr uint64_t kOpen = 1u << 31, kWaiting = 1u << 30, kMemberMask = kWaiting - 1;
constexpr uint64_t kOneTicket = uint64_t{1} << 32;
constexpr uint64_t tickets_left(uint64_t state) {
  return state >> 32;
}
constexpr uint32_t kFewChunksPerThread = 2;

thread_local bool tls_in_region = false;
thread_local uint32_t tls_limit = 0;
thread_local FloatControl tls_region_control = kFloatDefault;

int64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * int64_t{1000000000} + t.tv_nsec;
}

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  __asm__ volatile("yield");
#endif
}

// `word` is the low half of a 64-bit word, or a 32-bit one.
void futex_wait(void* word, uint32_t expected) {
  ::syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}
void futex_wake(void* word, uint32_t count) {
  ::syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
}
static_assert(std::endian::native == std::endian::little, "the futex of a state is its low half");

// What has been taken of one worker's share of a region. `word` is region number | taken from the
// back | taken from the front. If it holds another region's number, nothing has been taken, so that
// opening a region need not write to every share.
struct alignas(64) Share {
  std::atomic<uint64_t> word{0};
};
constexpr uint64_t kTakenFront = 1, kTakenBack = 1 << 8, kOneRegion = 1 << 16;
static_assert(kChunksPerThread + 1 < 256, "what is taken of a share fits in 8 bits");

// One region. A slot is reused forever, so a late worker finds it closed, or joins the region that
// is there now. Both are correct, since everything is read after joining.
struct alignas(64) Slot {
  std::atomic<uint64_t> state{0};
  tenon_range_fn_t fn = nullptr;
  void* context = nullptr;
  int64_t n = 0, chunk = 0;
  Operation* operation = nullptr;
  uint32_t chunks = 0;
  bool in_shares = false;  // see kOneTicket
  FloatControl control = 0;
  std::atomic<uint32_t> code{TENON_OK};
  // For regions in shares: a multiple of kOneRegion that does not recur for years.
  alignas(64) uint64_t region = 0;
  uint32_t thread_total = 0;
  Share* shares = nullptr;  // one per thread; lives as long as the pool
  alignas(64) std::atomic<bool> taken{false};
  Status failure;  // set by the first thread to set `code`, read once all have left
};

struct Pool {
  explicit Pool(uint32_t threads, bool may_spin_) : thread_total(threads), may_spin(may_spin_) {
    for (Slot& slot : slots) {
      slot.thread_total = threads;
      slot.shares = new Share[threads];
    }
  }
  const uint32_t thread_total;  // the caller included
  const bool may_spin;
  std::atomic<bool> stop{false};
  alignas(64) std::atomic<uint32_t> epoch{0};  // grows with every region; idle workers wait on it
  alignas(64) std::atomic<uint32_t> sleepers{0};
  std::atomic<int64_t> no_spin_until{0};
  Slot slots[kSlotCount];
  Pool* retired_before = nullptr;
};

std::atomic<Pool*> g_pool{nullptr};
std::atomic<bool> g_making{false};
std::atomic<uint32_t> g_requested{0};
std::atomic<const tenon_team_t*> g_team{nullptr};
std::atomic<const tenon_team_t*> g_lent{nullptr};  // also while a stated number has the pool
std::atomic<bool> g_team_busy{false};
// Pools are not freed: a region or a worker may still be using one. There are few, one for each
// change of size.
std::atomic<Pool*> g_retired{nullptr};
void retire(Pool* pool) {
  pool->retired_before = g_retired.load();
  while (!g_retired.compare_exchange_weak(pool->retired_before, pool)) {
  }
}

// Spins until `done` is true, but not for long, and not while cores are contended. Returns done's
// last result.
template <typename Done>
bool spin_until(Pool& pool, Done done) {
  if (done()) return true;
  if (!pool.may_spin) return false;
  int64_t begin = now_ns(), last = begin;
  if (begin < pool.no_spin_until.load(std::memory_order_relaxed)) return false;
  for (;;) {
    for (int i = 0; i < 16; ++i) {
      if (done()) return true;
      pause_briefly();
    }
    int64_t now = now_ns();
    if (now - last > kPreemptedGapNs) {
      pool.no_spin_until.store(now + kNoSpinNs, std::memory_order_relaxed);
      return done();
    }
    if (now - begin > kSpinNs) return done();
    last = now;
  }
}

// Runs a claimed chunk. False if no further chunk may start.
bool run_chunk(Slot& slot, uint32_t worker, uint64_t index) {
  const int64_t begin = static_cast<int64_t>(index) * slot.chunk;
  const int64_t end = slot.n - begin > slot.chunk ? begin + slot.chunk : slot.n;
  tenon_code_t code = cancelled() ? TENON_CANCELLED : slot.fn(slot.context, worker, begin, end);
  if (code == TENON_OK) [[likely]]
    return slot.code.load(std::memory_order_relaxed) == TENON_OK;
  uint32_t expected = TENON_OK;
  if (slot.code.compare_exchange_strong(expected, code))
    slot.failure = from_abi(code, "a parallel region");
  return false;
}

// Claims a chunk of the share of `owner`. The owner takes chunks from the front; others take them
// from the back, which the owner would reach last. Relaxed, since the thread has joined the region
// and leaves it only after the chunk.
bool claim_of_share(Slot& slot, uint32_t owner, uint64_t take, uint64_t* out_index) {
  const uint64_t first = uint64_t{owner} * slot.chunks / slot.thread_total;
  const uint64_t last = (uint64_t{owner} + 1) * slot.chunks / slot.thread_total;
  std::atomic<uint64_t>& word = slot.shares[owner].word;
  uint64_t seen = word.load(std::memory_order_relaxed);
  for (;;) {
    const uint64_t now = (seen & ~(kOneRegion - 1)) == slot.region ? seen : slot.region;
    const uint64_t front = now & 0xff, back = now >> 8 & 0xff;
    if (first + front + back >= last) return false;
    if (word.compare_exchange_weak(seen, now + take, std::memory_order_relaxed)) {
      *out_index = take == kTakenFront ? first + front : last - 1 - back;
      return true;
    }
  }
}

// Runs chunks until none is left or none may start. First the worker's own share: it is the same
// part of the range in each region, so that a core finds in its caches what it wrote there before.
// Then chunks that other threads have not reached.
void run_shares(Slot& slot, uint32_t worker) {
  uint64_t index = 0;
  while (claim_of_share(slot, worker, kTakenFront, &index)) {
    if (!run_chunk(slot, worker, index)) return;
  }
  for (uint32_t step = 1; step < slot.thread_total; ++step) {
    const uint32_t owner = (worker + step) % slot.thread_total;
    while (claim_of_share(slot, owner, kTakenBack, &index)) {
      if (!run_chunk(slot, worker, index)) return;
    }
  }
}

// Uses a ticket that was claimed when `left` were left. False if the worker is to claim no more.
bool run_ticket(Slot& slot, uint32_t worker, uint64_t left) {
  if (!slot.in_shares) return run_chunk(slot, worker, slot.chunks - left);
  run_shares(slot, worker);
  return false;
}

// Joins an open region that has tickets left, and claims one. *out_left: see run_ticket.
bool try_join(Slot& slot, uint64_t* out_left) {
  uint64_t state = slot.state.load(std::memory_order_relaxed);
  while ((state & kOpen) != 0 && tickets_left(state) != 0) {
    if (slot.state.compare_exchange_weak(state, state - kOneTicket + 1,
                                         std::memory_order_acquire)) {
      *out_left = tickets_left(state);
      return true;
    }
  }
  return false;
}

// A worker claims its next ticket, or leaves if there is none or `stay` is false.
bool claim_or_leave(Slot& slot, bool stay, uint64_t* out_left) {
  uint64_t state = slot.state.load(std::memory_order_relaxed);
  for (;;) {
    const bool claim = stay && tickets_left(state) != 0;
    if (!slot.state.compare_exchange_weak(state, claim ? state - kOneTicket : state - 1,
                                          std::memory_order_acq_rel)) {
      continue;
    }
    *out_left = tickets_left(state);
    if (!claim && (state & (kOpen | kWaiting | kMemberMask)) == (kWaiting | 1))
      futex_wake(&slot.state, 1);
    return claim;
  }
}

// The caller claims its next ticket, or closes the region. *out_state: the state that follows.
bool claim_or_close(Slot& slot, bool stay, uint64_t* out_state) {
  uint64_t state = slot.state.load(std::memory_order_relaxed);
  for (;;) {
    const bool claim = stay && tickets_left(state) != 0;
    const uint64_t next = claim ? state - kOneTicket : state & kMemberMask;
    if (slot.state.compare_exchange_weak(state, next, std::memory_order_acq_rel)) {
      *out_state = claim ? state : next;
      return claim;
    }
  }
}

void work_as_member(Slot& slot, uint32_t worker, uint64_t left) {
  OperationScope operation(slot.operation);
  FloatScope floats(slot.control);
  tls_in_region = true;
  while (claim_or_leave(slot, run_ticket(slot, worker, left), &left)) {
  }
  tls_in_region = false;
}

struct WorkerStart {
  Pool* pool;
  uint32_t worker;
};

void* worker_main(void* argument) {
  WorkerStart start = *static_cast<WorkerStart*>(argument);
  delete static_cast<WorkerStart*>(argument);
  Pool& pool = *start.pool;
  char name[16];
  std::snprintf(name, sizeof(name), "tenon-%u", start.worker);
  pthread_setname_np(pthread_self(), name);
  set_float_control(kFloatDefault);
  // From 0, not from the current epoch: the region that started this thread must not be missed.
  for (uint32_t seen = 0; !pool.stop.load(std::memory_order_relaxed);) {
    uint32_t epoch = pool.epoch.load(std::memory_order_acquire);
    if (epoch != seen) {
      seen = epoch;
      uint64_t left = 0;
      for (Slot& slot : pool.slots) {
        if (try_join(slot, &left)) work_as_member(slot, start.worker, left);
      }
      continue;
    }
    auto changed = [&] { return pool.epoch.load(std::memory_order_relaxed) != seen; };
    if (spin_until(pool, changed)) continue;
    pool.sleepers.fetch_add(1, std::memory_order_seq_cst);
    if (pool.epoch.load(std::memory_order_seq_cst) == seen) futex_wait(&pool.epoch, seen);
    pool.sleepers.fetch_sub(1, std::memory_order_relaxed);
  }
  return nullptr;
}

// Fewer threads than requested is fine.
void start_workers(Pool* pool) {
  const SignalsBlocked blocked;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  for (uint32_t worker = 1; worker < pool->thread_total; ++worker) {
    auto* start = new WorkerStart{pool, worker};
    pthread_t thread;
    int problem = pthread_create(&thread, &attributes, worker_main, start);
    if (problem != 0) {
      delete start;
      log_warning("threads", "only {} of {} threads could be started", worker, pool->thread_total);
      break;
    }
  }
  pthread_attr_destroy(&attributes);
}

bool number_is_stated() {
  return g_requested.load(std::memory_order_relaxed) != 0 || env("TENON_NUM_THREADS").has_value();
}

uint32_t wanted_threads(uint32_t cpus) {
  if (uint32_t requested = g_requested.load()) return std::min(requested, kThreadCountMax);
  if (auto text = env("TENON_NUM_THREADS")) {
    uint64_t value = 0;
    if (parse_u64(*text, &value) && value >= 1)
      return static_cast<uint32_t>(std::min<uint64_t>(value, kThreadCountMax));
    if (log_once("TENON_NUM_THREADS")) {
      log_warning("threads", "TENON_NUM_THREADS={} is not a number from 1; the default is used",
                  quoted(*text));
    }
  }
  return std::min(cpus, kThreadCountMax);
}

// Only the forking thread exists in a forked child: the old pool is abandoned, and a new one is
// made on demand.
void after_fork_in_child() {
  if (Pool* old = g_pool.exchange(nullptr)) retire(old);
  g_making.store(false);
  g_team.store(nullptr);  // its threads are gone, too
  g_lent.store(nullptr);
  g_team_busy.store(false);
}

Pool& pool() {
  Pool* existing = g_pool.load(std::memory_order_acquire);
  if (existing != nullptr) [[likely]]
    return *existing;
  while (g_making.exchange(true)) pause_briefly();
  existing = g_pool.load(std::memory_order_acquire);
  if (existing == nullptr) {
    static const bool registered = pthread_atfork(nullptr, nullptr, after_fork_in_child) == 0;
    (void)registered;
    const uint32_t cpus = available_cpus();
    const uint32_t threads = wanted_threads(cpus);
    existing = new Pool(threads, threads <= cpus);
    start_workers(existing);
    g_pool.store(existing, std::memory_order_release);
  }
  g_making.store(false);
  return *existing;
}

tenon_code_t run_inline(tenon_range_fn_t fn, void* context, int64_t n, int64_t chunk, bool nested) {
  FloatScope floats(nested ? float_control() & ~kFloatStickyFlags : tls_region_control);
  for (int64_t begin = 0; begin < n; begin += chunk) {
    if (cancelled()) return to_abi(check_cancelled());
    tenon_code_t code = fn(context, 0, begin, std::min(n, begin + chunk));
    if (code != TENON_OK) return code;
  }
  return TENON_OK;
}

Slot* take_slot(Pool& pool) {
  for (Slot& slot : pool.slots) {
    if (!slot.taken.load(std::memory_order_relaxed) &&
        !slot.taken.exchange(true, std::memory_order_acquire)) {
      return &slot;
    }
  }
  return nullptr;
}

// Waits until no worker is inside a closed slot whose state was `state`.
void wait_for_members(Pool& pool, Slot& slot, uint64_t state) {
  if (state == 0) return;
  auto empty = [&] { return (slot.state.load(std::memory_order_acquire) & kMemberMask) == 0; };
  if (spin_until(pool, empty)) return;
  state = slot.state.fetch_or(kWaiting, std::memory_order_acq_rel) | kWaiting;
  while ((state & kMemberMask) != 0) {
    futex_wait(&slot.state, static_cast<uint32_t>(state));
    state = slot.state.load(std::memory_order_acquire);
  }
}

void work_as_caller(Pool& pool, Slot& slot) {
  // The state when parallel() took the first ticket for the caller.
  uint64_t state = slot.chunks * kOneTicket;
  {
    FloatScope floats(slot.control);
    tls_in_region = true;
    while (claim_or_close(slot, run_ticket(slot, 0, tickets_left(state)), &state)) {
    }
    tls_in_region = false;
  }
  wait_for_members(pool, slot, state);
}

// Lets the pool's workers know of an open region.
void call_workers(Pool& pool, const Slot& slot) {
  pool.epoch.fetch_add(1, std::memory_order_seq_cst);
  if (pool.sleepers.load(std::memory_order_seq_cst) != 0)
    futex_wake(&pool.epoch, std::min(slot.chunks, pool.thread_total) - 1);
}

// The team, for one region at a time, until it is given back; null: the pool's workers do it.
class TeamLoan {
 public:
  TeamLoan() {
    const tenon_team_t* team = g_team.load(std::memory_order_acquire);
    if (team != nullptr && !g_team_busy.exchange(true, std::memory_order_acquire)) team_ = team;
  }
  TeamLoan(const TeamLoan&) = delete;
  TeamLoan& operator=(const TeamLoan&) = delete;
  ~TeamLoan() {
    if (team_ != nullptr) g_team_busy.store(false, std::memory_order_release);
  }
  const tenon_team_t* get() const { return team_; }

 private:
  const tenon_team_t* team_ = nullptr;
};

void work_as_team(const tenon_team_t& team, Pool& pool, Slot& slot) {
  struct Work {
    Pool& pool;
    Slot& slot;
  } work{pool, slot};
  const auto member = [](void* context, uint32_t worker) {
    const Work& w = *static_cast<Work*>(context);
    uint64_t left = 0;
    if (worker == 0) {
      work_as_caller(w.pool, w.slot);
    } else if (worker < w.pool.thread_total && try_join(w.slot, &left)) {
      work_as_member(w.slot, worker, left);
    }
  };
  team.run(team.self, pool.thread_total, member, &work);
}

}  // namespace

void use_team(const tenon_team_t* team) {
  pool();  // which registers what a forked child does
  g_lent.store(team);
  g_team.store(number_is_stated() ? nullptr : team, std::memory_order_release);
}

FloatControl region_float_control() {
  return tls_region_control;
}

FlushDenormalsScope::FlushDenormalsScope(bool flush) : saved_(tls_region_control) {
  tls_region_control = flush ? kFloatDefault | kFloatFlushDenormals : kFloatDefault;
}
FlushDenormalsScope::~FlushDenormalsScope() {
  tls_region_control = saved_;
}

uint32_t thread_count() {
  Pool* existing = g_pool.load(std::memory_order_acquire);
  if (existing != nullptr) return existing->thread_total;
  return pool().thread_total;
}

void set_thread_count(uint32_t count) {
  g_requested.store(count);
  g_team.store(number_is_stated() ? nullptr : g_lent.load(), std::memory_order_release);
  Pool* old = g_pool.exchange(nullptr);
  if (old == nullptr) return;
  retire(old);
  old->stop.store(true);  // its threads end the next time they check
  old->epoch.fetch_add(1);
  futex_wake(&old->epoch, kThreadCountMax);
}

uint32_t limit_threads(uint32_t count) {
  return std::exchange(tls_limit, count);
}

uint32_t thread_limit() {
  return tls_limit;
}

bool in_parallel_region() {
  return tls_in_region;
}

tenon_code_t parallel(tenon_range_fn_t fn, void* context, int64_t n, int64_t grain) {
  if (n <= 0) return TENON_OK;
  grain = std::max<int64_t>(grain, 1);
  if (tls_in_region) return run_inline(fn, context, n, n, true);
  if (n <= grain) return run_inline(fn, context, n, n, false);
  Pool& p = pool();
  const int64_t pieces = kChunksPerThread * p.thread_total;
  const int64_t chunk = std::max(grain, n / pieces + (n % pieces != 0));
  const TeamLoan team;
  const uint32_t most = tls_limit == 0 ? p.thread_total : std::min(tls_limit, p.thread_total);
  const bool alone =
      most == 1 || (team.get() != nullptr && team.get()->count(team.get()->self) < 2);
  Slot* slot = alone ? nullptr : take_slot(p);
  if (slot == nullptr) return run_inline(fn, context, n, chunk, false);
  slot->fn = fn;
  slot->context = context;
  slot->n = n;
  slot->chunk = chunk;
  slot->chunks = static_cast<uint32_t>(n / chunk + (n % chunk != 0));
  // A limit is one of tickets, which admit workers where chunks are in shares.
  slot->in_shares = most < p.thread_total || slot->chunks > kFewChunksPerThread * p.thread_total;
  if (slot->in_shares) slot->region += kOneRegion;
  slot->control = tls_region_control;
  slot->operation = current_operation();
  slot->code.store(TENON_OK, std::memory_order_relaxed);
  // The caller's first ticket is claimed from the start.
  const uint64_t tickets = slot->in_shares ? most : slot->chunks;
  slot->state.store(kOpen | ((tickets - 1) * kOneTicket), std::memory_order_release);
  if (team.get() != nullptr) {
    work_as_team(*team.get(), p, *slot);
  } else {
    call_workers(p, *slot);
    work_as_caller(p, *slot);
  }
  const tenon_code_t code = slot->code.load(std::memory_order_relaxed);
  if (code != TENON_OK) to_abi(std::exchange(slot->failure, Status()));
  slot->taken.store(false, std::memory_order_release);
  return code;
}

}  // namespace tenon
