#include "plugins/sim/kernels/group.h"

#include <algorithm>
#include <cstddef>

#include "tenon/cpp/generated_code.hpp"
#include "tenon/cpp/plugin.hpp"

namespace tenon::sim {
namespace {

// A thread runs one group at a time, with all of its fibers.
thread_local GroupRunner* t_runner = nullptr;

void at_barrier(uint32_t, uint32_t line) {
  t_runner->barrier(line);
}
uint64_t of_warp(uint64_t value, uint32_t by, uint32_t warp, uint32_t line) {
  return t_runner->warp_word(value, by, warp, line);
}
const uint64_t* current_item() {
  return t_runner->item();
}

}  // namespace

// The toolchain runs each item as a group of its own; these definitions replace its work-item
// functions.
const std::string_view kDialectPrelude =
    R"CL(#pragma OPENCL EXTENSION __cl_clang_function_pointers : enable
__global ulong __tenon_sim_hooks[3];
static void __tenon_sim_barrier(uint flags, uint line) { ((void (*)(uint, uint))__tenon_sim_hooks[0])(flags, line); }
static ulong __tenon_sim_item(uint what, uint d, ulong otherwise) {
  return d < 3 ? ((const __private ulong* (*)(void))__tenon_sim_hooks[1])()[what * 3 + d] : otherwise;
}
static ulong __tenon_sim_word(ulong x, uint by, uint warp, uint line) {
  return ((ulong (*)(ulong, uint, uint, uint))__tenon_sim_hooks[2])(x, by, warp, line);
}
#define warp_word(x, by, warp) __tenon_sim_word(x, by, warp, __LINE__)
#define get_global_id(d) __tenon_sim_item(0, d, 0)
#define get_local_id(d) __tenon_sim_item(1, d, 0)
#define get_group_id(d) __tenon_sim_item(2, d, 0)
#define get_global_size(d) __tenon_sim_item(3, d, 1)
#define get_local_size(d) __tenon_sim_item(4, d, 1)
#define get_enqueued_local_size(d) __tenon_sim_item(4, d, 1)
#define get_num_groups(d) __tenon_sim_item(5, d, 1)
#define barrier(flags) __tenon_sim_barrier(flags, __LINE__)
#define work_group_barrier(flags) __tenon_sim_barrier(flags, __LINE__)
#line 1
)CL";

const uint64_t kHooks[kHookCount] = {reinterpret_cast<uint64_t>(&at_barrier),
                                     reinterpret_cast<uint64_t>(&current_item),
                                     reinterpret_cast<uint64_t>(&of_warp)};

void watch_access(const void* address, uint64_t size_bytes, uint32_t kind) {
  t_runner->access(address, size_bytes, kind);
}

GroupRunner::~GroupRunner() {
  leaving_ = true;
  for (const auto& worker : workers_) {
    if (!worker->working && !worker->fiber->done()) worker->fiber->resume();  // lets the fiber end
  }
}

Status GroupRunner::run() {
  items_ = 1;
  uint64_t all = 1;
  for (int d = 0; d < 3; ++d) {
    if (launch_.local[d] == 0 || launch_.global[d] % launch_.local[d] != 0) {
      return fail(TENON_INVALID_ARGUMENT,
                  cat("sim: ", launch_.title, ": groups of ", launch_.local[d], " do not divide ",
                      launch_.global[d]));
    }
    groups_[d] = launch_.global[d] / launch_.local[d];
    if (__builtin_mul_overflow(items_, launch_.local[d], &items_) ||
        __builtin_mul_overflow(all, launch_.global[d], &all))
      all = UINT64_MAX;
  }
  if (all == UINT64_MAX || (watch_ != nullptr && all >= UINT32_MAX)) {
    return fail(TENON_INVALID_ARGUMENT, cat("sim: ", launch_.title, " has too many work items"));
  }
  GroupRunner* const outer = t_runner;
  t_runner = this;
  for (group_[2] = 0; group_[2] < groups_[2] && failure_ == TENON_OK; ++group_[2]) {
    for (group_[1] = 0; group_[1] < groups_[1] && failure_ == TENON_OK; ++group_[1]) {
      for (group_[0] = 0; group_[0] < groups_[0] && failure_ == TENON_OK;
           ++group_[0], ++group_number_)
        run_group();
    }
  }
  t_runner = outer;
  return failure_ == TENON_OK ? Status()
                              : fail(failure_, cat("sim: ", launch_.title, ": ", message_));
}

void GroupRunner::run_group() {
  if (watch_ != nullptr) watch_->begin_group();
  next_item_ = 0;
  epoch_ = 0;
  while (failure_ == TENON_OK && next_item_ < items_) resume(idle_worker());
  std::vector<Worker*> waiting;
  while (failure_ == TENON_OK && all_at_one_barrier(&waiting)) {
    ++epoch_;
    for (Worker* worker : waiting) {
      if (failure_ == TENON_OK) resume(worker);
    }
  }
  uint64_t number = 0;
  if (failure_ != TENON_OK || watch_ == nullptr) return;
  if (Finding finding = watch_->end_group(&number); finding.code != TENON_OK) {
    Item item;
    begin_item(&item, number);
    failure_ = finding.code;
    message_ = cat(item_text(item), " ", finding.text);
  }
}

// Collects the waiting items; false when none waits. It is a failure if only some items wait, or if
// they wait at different barriers.
bool GroupRunner::all_at_one_barrier(std::vector<Worker*>* waiting) {
  waiting->clear();
  for (const auto& worker : workers_) {
    if (worker->working) waiting->push_back(worker.get());
  }
  if (waiting->empty()) return false;
  const Item& first = waiting->front()->item;
  for (const Worker* worker : *waiting) {
    if (worker->item.waits_at_line == first.waits_at_line) continue;
    failure_ = TENON_INTERNAL;
    message_ = cat(item_text(first), " waits at the barrier of line ", first.waits_at_line, ", ",
                   item_text(worker->item), " at that of line ", worker->item.waits_at_line);
    return false;
  }
  if (waiting->size() != items_) {
    failure_ = TENON_INTERNAL;
    message_ =
        cat(item_text(first), " waits at the barrier of line ", first.waits_at_line, ", which ",
            items_ - waiting->size(), " of the ", items_, " work items of its group did not reach");
    return false;
  }
  return true;
}

GroupRunner::Worker* GroupRunner::idle_worker() {
  for (const auto& worker : workers_) {
    if (!worker->working) return worker.get();
  }
  auto worker = std::make_unique<Worker>();
  Worker* const raw = worker.get();
  worker->fiber = std::make_unique<Fiber>([this, raw] { run_items(raw); });
  workers_.push_back(std::move(worker));
  return raw;
}

void GroupRunner::resume(Worker* worker) {
  current_ = worker;
  worker->fiber->resume();
}

// Runs on a fiber: starts one item after another while any are left.
TENON_CALLS_GENERATED_CODE void GroupRunner::run_items(Worker* worker) {
  while (!leaving_) {
    worker->working = true;
    while (next_item_ < items_) {
      begin_item(&worker->item, next_item_++);
      const uint64_t* const at = worker->item.global_id;
      const uint64_t end[3] = {at[0] + 1, at[1] + 1, at[2] + 1};
      launch_.entry(args_.data(), launch_.global, at, end);
    }
    worker->working = false;
    worker->fiber->suspend();
  }
}

void GroupRunner::begin_item(Item* item, uint64_t number) const {
  item->number = number;
  item->waits_at_line = 0;
  for (int d = 0; d < 3; ++d) {
    item->local_id[d] = number % launch_.local[d];
    number /= launch_.local[d];
    item->group_id[d] = group_[d];
    item->global_id[d] = group_[d] * launch_.local[d] + item->local_id[d];
    item->global_size[d] = launch_.global[d];
    item->local_size[d] = launch_.local[d];
    item->group_count[d] = groups_[d];
  }
}

const uint64_t* GroupRunner::item() const {
  return current_->item.global_id;
}

void GroupRunner::barrier(uint32_t line) {
  Worker* const self = current_;
  self->item.waits_at_line = line;
  self->fiber->suspend();
  self->item.waits_at_line = 0;
}

// Warps here wait for the whole group, which kernels may not count on: watched memory is as ordered
// as before.
uint64_t GroupRunner::warp_word(uint64_t value, uint32_t by, uint32_t warp, uint32_t line) {
  constexpr uint64_t kNoLane = 0x7fc0dead7fc0dead;
  const uint64_t lane = current_->item.number;
  if (words_.size() < items_) words_.resize(items_);
  words_[lane] = value;
  const uint32_t epoch = epoch_;
  barrier(line);
  const uint64_t first = lane / warp * warp, from = by == 0 ? first : lane + by;
  const uint64_t word = from < std::min(first + warp, items_) ? words_[from] : kNoLane;
  barrier(line);
  epoch_ = epoch;
  return word;
}

void GroupRunner::access(const void* address, uint64_t size_bytes, uint32_t kind) {
  if (current_->fiber->owns(address)) return;  // the item's own variable, through a pointer
  if (!judge(address, size_bytes, kind)) current_->fiber->suspend();  // never resumed
}

bool GroupRunner::judge(const void* address, uint64_t size_bytes, uint32_t kind) try {
  Finding finding = watch_->access(group_number_ * items_ + current_->item.number, epoch_, address,
                                   size_bytes, kind);
  if (finding.code == TENON_OK) return true;
  failure_ = finding.code;
  message_ = cat(item_text(current_->item), " ", finding.text);
  return false;
} catch (const std::bad_alloc&) {
  failure_ = TENON_RESOURCE_EXHAUSTED;
  return false;
}

std::string GroupRunner::item_text(const Item& item) const {
  std::string at = cat(item.global_id[0]);
  const int rank = launch_.global[2] > 1 ? 3 : launch_.global[1] > 1 ? 2 : 1;
  for (int d = 1; d < rank; ++d) at += cat(", ", item.global_id[d]);
  return cat("work item ", item.number, " of group ", group_number_, " (global ", at, ")");
}

}  // namespace tenon::sim
