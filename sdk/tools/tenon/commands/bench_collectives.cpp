#include "sdk/tools/tenon/commands/bench_collectives.h"

#include <sched.h>
#include <time.h>

#include <tenon/abi/collective.h>
#include <tenon/cpp/elements.hpp>

#include <algorithm>
#include <vector>

#include "sdk/tools/tenon/console/console.h"
#include "sdk/tools/tenon/execution/ranks.h"

namespace tenon::tools {
namespace {

constexpr uint64_t kSizes[] = {4, 1024, 16384, 262144, 1048576, 16777216};  // bytes
constexpr int kRounds = 5;
constexpr double kRoundNs = 2e7;  // about so long is one round
constexpr uint32_t kEagerTests = 20;

struct Kind {
  const char* name;
  uint32_t transfer, combine;
  bool gathers, divides;  // the result is larger, or smaller, by the number of processes
};
constexpr Kind kKinds[] = {
    {"all_reduce", TENON_TRANSFER_ALL_REDUCE, TENON_COMBINE_SUM, false, false},
    {"all_gather", TENON_TRANSFER_ALL_GATHER, TENON_COMBINE_NONE, true, false},
    {"reduce_scatter", TENON_TRANSFER_REDUCE_SCATTER, TENON_COMBINE_SUM, false, true},
    {"all_to_all", TENON_TRANSFER_ALL_TO_ALL, TENON_COMBINE_NONE, false, false},
    {"broadcast", TENON_TRANSFER_BROADCAST, TENON_COMBINE_NONE, false, false}};

double now_ns() {
  timespec now = {};
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

struct Row {
  const char* name;
  uint64_t bytes;
  double best_us;
};

class Measurement {
 public:
  Measurement(const Host& host, const tenon_collective_api_t& api) : host_(host), api_(api) {}

  int open(const ThisRank& here) {
    here_ = here;
    uint32_t flags = 0;
    const tenon_code_t code = api_.open(api_.self, nullptr, &flags, &engine_, &world_);
    return code == TENON_OK ? kOk : report(host_, code);
  }
  ~Measurement() {
    if (engine_ != nullptr) (void)api_.close(api_.self, engine_);
  }

  int all() {
    for (const Kind& kind : kKinds) {
      for (const uint64_t bytes : kSizes) {
        if (int s = measure(kind, bytes)) return s;
      }
    }
    return kOk;
  }
  const std::vector<Row>& rows() const { return rows_; }

 private:
  tenon_native_memory_t memory(std::vector<float>& of, uint64_t elements) const {
    auto out = sized<tenon_native_memory_t>();
    out.kind = str("host");
    out.handle = reinterpret_cast<uintptr_t>(of.data());
    out.length_bytes = elements * sizeof(float);
    return out;
  }

  // The best of some rounds. All processes must make the same number of transfers, so the first one
  // decides it by how long one takes.
  int measure(const Kind& kind, uint64_t bytes) {
    const uint64_t n = std::max<uint64_t>(bytes / sizeof(float) / here_.rank_count, 1);
    const uint64_t whole = n * here_.rank_count;
    const uint64_t sent = kind.gathers ? n : whole, got = kind.divides ? n : whole;
    std::vector<float> from(sent, 1.0f), to(got);
    auto transfer = sized<tenon_transfer_t>();
    transfer.transfer = kind.transfer;
    transfer.combine = kind.combine;
    transfer.dtype = TENON_F32;
    const bool sends = kind.transfer != TENON_TRANSFER_BROADCAST || here_.rank == 0;
    transfer.from_elements = sends ? sent : 0;
    transfer.to_elements = got;
    transfer.from = memory(from, transfer.from_elements);
    transfer.to = memory(to, got);
    double once = 0;
    for (int i = 0; i < 3; ++i) {
      const double begin = now_ns();
      if (int s = move(transfer)) return s;
      once = now_ns() - begin;
    }
    uint64_t count = 0;
    if (int s = agree(std::max(kRoundNs / once, 1.0), &count)) return s;
    double best = 1e18;
    for (int round = 0; round < kRounds; ++round) {
      const double begin = now_ns();
      for (uint64_t i = 0; i < count; ++i) {
        if (int s = move(transfer)) return s;
      }
      best = std::min(best, (now_ns() - begin) / static_cast<double>(count));
    }
    rows_.push_back({kind.name, whole * sizeof(float), best / 1e3});
    return kOk;
  }

  // The number of the first process.
  int agree(double own, uint64_t* out) {
    std::vector<float> from(1, static_cast<float>(std::min(own, 1e5))), to(1);
    auto transfer = sized<tenon_transfer_t>();
    transfer.transfer = TENON_TRANSFER_BROADCAST;
    transfer.dtype = TENON_F32;
    transfer.from_elements = here_.rank == 0 ? 1 : 0;
    transfer.to_elements = 1;
    transfer.from = memory(from, transfer.from_elements);
    transfer.to = memory(to, 1);
    const int status = move(transfer);
    *out = static_cast<uint64_t>(to[0]);
    return status;
  }

  int move(const tenon_transfer_t& transfer) {
    auto info = sized<tenon_work_info_t>();
    info.sequence = ++sequence_;
    tenon_work_t* work = nullptr;
    if (tenon_code_t code = api_.start(api_.self, world_, &transfer, 1, nullptr, &info, &work))
      return report(host_, code);
    tenon_code_t code = TENON_OK;
    uint32_t done = 0;
    for (uint32_t tests = 0; code == TENON_OK; ++tests) {
      code = api_.test(api_.self, work, &done);
      if (done != 0) break;
      if (tests > kEagerTests) (void)sched_yield();
    }
    (void)api_.work_release(api_.self, work);
    return code == TENON_OK ? kOk : report(host_, code);
  }

  const Host& host_;
  const tenon_collective_api_t& api_;
  ThisRank here_;
  tenon_engine_t* engine_ = nullptr;
  tenon_comm_t* world_ = nullptr;
  uint64_t sequence_ = 0;
  std::vector<Row> rows_;
};

void print(const ThisRank& here, const std::vector<Row>& rows, bool json) {
  std::string text =
      json ? fmt::format("{{\"schema\": 1, \"processes\": {}, \"rows\": [", here.rank_count)
           : fmt::format("{} processes, best of {} rounds\n", here.rank_count, kRounds);
  for (size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    text +=
        json ? fmt::format("{}{{\"name\": \"{}\", \"bytes\": {}, \"us\": {:.3f}}}",
                           i == 0 ? "" : ", ", row.name, row.bytes, row.best_us)
             : fmt::format("{:<15} {:>9} bytes {:>11.2f} us {:>7.2f} GB/s\n", row.name, row.bytes,
                           row.best_us, static_cast<double>(row.bytes) / row.best_us / 1e3);
  }
  write_out(json ? text + "]}\n" : text);
}

}  // namespace

int bench_collectives(const Host& host, bool json) {
  const ThisRank here = this_rank(host);
  if (!here.is_launched) {
    return fail(kUsage, "T0902", "no launcher has started this process as one of several.",
                "As in: tenon launch -n 2 -- tenon bench --collectives");
  }
  Measurement measurement(host, *here.engine);
  if (int s = measurement.open(here)) return s;
  if (int s = measurement.all()) return s;
  if (here.rank == 0) print(here, measurement.rows(), json);
  return kOk;
}

}  // namespace tenon::tools
