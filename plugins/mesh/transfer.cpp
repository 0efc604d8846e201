#include "transfer.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "tenon/cpp/dtype.hpp"
#include "tenon/cpp/record.hpp"

namespace tenon::mesh {
namespace {

constexpr uint32_t kExitStatus = 3;
constexpr uint32_t kTestsBetweenClocks = 64;
// Waits this long before it tells the others, so that short waits cost nothing.
constexpr uint64_t kTellNs = 300'000'000, kOnTheWayNs = 2'000'000'000;
constexpr uint64_t kLingerNs = 1'000'000;
// The longest time between two tests that counts as waiting.
constexpr uint64_t kStepNs = 500'000'000;

// A number of seconds, as nanoseconds.
uint64_t seconds(std::string_view variable, uint64_t otherwise) {
  const std::string_view text = setting(variable);
  double value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty()) return otherwise * 1'000'000'000u;
  if (code != std::errc() || end != text.data() + text.size() || !(value > 0) || value > 1e9) {
    log("mesh", TENON_LOG_WARN, variable, "=", quoted(text), " is not a number of seconds; ",
        otherwise, " is used");
    return otherwise * 1'000'000'000u;
  }
  return static_cast<uint64_t>(value * 1e9);
}
uint64_t limit_ns() {
  static const uint64_t limit = seconds("TENON_COLLECTIVE_TIMEOUT", 600);
  return limit;
}
uint64_t first_warning_ns() {
  static const uint64_t limit = seconds("TENON_COLLECTIVE_WARN", 10);
  return limit;
}

// The engine ends the process next, before any logger of the program prints what it was given.
void announce(const std::string& text) {
  const std::string line = cat("tenon: error: ", text, "\n");
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
  const timespec moment = {0, 200'000'000};  // launchers drop what they have not passed on by then
  (void)nanosleep(&moment, nullptr);
}

tenon_native_memory_t memory_of(const void* data, uint64_t size_bytes) {
  auto made = sized<tenon_native_memory_t>();
  made.kind = str("host");
  made.handle = reinterpret_cast<uintptr_t>(data);
  made.length_bytes = size_bytes;
  return made;
}

}  // namespace

tenon_transfer_t transfer_of(uint32_t kind, tenon_dtype_t dtype, const void* from,
                             uint64_t from_elements, void* to, uint64_t to_elements) {
  auto made = sized<tenon_transfer_t>();
  made.transfer = kind;
  made.dtype = dtype;
  made.from_elements = from_elements;
  made.to_elements = to_elements;
  made.from = memory_of(from, from_elements * dtype_bytes(dtype));
  made.to = memory_of(to, to_elements * dtype_bytes(dtype));
  return made;
}

// A work that is not done cannot be released: it is left to the engine.
Transfer::~Transfer() {
  if (is_started()) ranks_.abandon();
}

Status Transfer::start(std::string_view name, std::span<const tenon_transfer_t> transfers,
                       const Side& side) {
  if (ranks_.is_abandoned()) {
    return fail(TENON_FAILED_PRECONDITION,
                "T0906: an earlier transfer of this process was given up, so there can be no more");
  }
  name_ = name;
  sequence_ = ++members_.sequence;
  if (!members_.is_given) ranks_.news().started(members_.number, sequence_);
  last_ns_ = now_ns();
  waited_ns_ = ended_ns_ = 0;
  warn_ns_ = first_warning_ns();
  tests_ = 0;
  has_told_ = false;
  entry_ =
      ranks_.recorder().begin(members_.number, sequence_, name_, transfers[0], place_, last_ns_);
  TENON_TRY(begin(members_.comm, transfers, &work_));
  return side.comm == nullptr ? Status() : begin(side.comm, side.transfers, &side_);
}

Status Transfer::begin(tenon_comm_t* comm, std::span<const tenon_transfer_t> transfers,
                       tenon_work_t** out) {
  auto info = sized<tenon_work_info_t>();
  info.sequence = sequence_;
  info.place = str(place_);
  const tenon_collective_api_t& api = *members_.api;
  return api.start(api.self, comm, transfers.data(), static_cast<uint32_t>(transfers.size()),
                   nullptr, &info, out);
}

void Transfer::skip() {
  ++members_.sequence;
  if (!members_.is_given) ranks_.news().started(members_.number, members_.sequence);
}

Status Transfer::look_at(tenon_work_t** work) {
  if (*work == nullptr) return {};
  const tenon_collective_api_t& api = *members_.api;
  uint32_t done = 0;
  if (const tenon_code_t code = api.test(api.self, *work, &done); code != TENON_OK)
    return failed(code);
  if (done != 0) (void)api.work_release(api.self, std::exchange(*work, nullptr));
  return {};
}

Status Transfer::test(bool* out_done) {
  TENON_TRY(look_at(&work_));
  TENON_TRY(look_at(&side_));
  *out_done = !is_started();
  if (*out_done) {
    ranks_.recorder().end(entry_, now_ns());
    return {};
  }
  if (++tests_ % kTestsBetweenClocks != 0) return {};
  const uint64_t now = now_ns();
  // Time in which this process did something else is not a wait.
  waited_ns_ += std::min(now - last_ns_, kStepNs);
  last_ns_ = now;
  TENON_TRY(look_around(now));
  if (waited_ns_ >= limit_ns()) return give_up();
  if (waited_ns_ >= warn_ns_) {
    log("mesh", TENON_LOG_WARN, what(), " has waited for ", waited_ns_ / 1'000'000'000u,
        " s for other processes");
    warn_ns_ = 2 * waited_ns_;
  }
  return {};
}

bool Transfer::linger() {
  const tenon_collective_api_t& api = *members_.api;
  return work_ != nullptr && api.wait != nullptr &&
         api.wait(api.self, work_, kLingerNs) == TENON_OK;
}

// The engine says that a work of a group of the program is over, so others may follow. Such a group
// has no transfers at the side.
Status Transfer::failed(tenon_code_t code) {
  if (!members_.is_given) return Status(code);
  const Fault fault = Fault::last(code);
  ranks_.recorder().end(entry_, now_ns());
  (void)members_.api->work_release(members_.api->self, std::exchange(work_, nullptr));
  std::string_view text = fault.message;
  if (text.starts_with("T0906: ")) text.remove_prefix(7);
  return fail(TENON_UNAVAILABLE, cat("T0906: ", what(), " failed: ", text));
}

// What the other processes say while this one waits.
Status Transfer::look_around(uint64_t now) {
  if (waited_ns_ < kTellNs || members_.is_given) return {};
  News& news = ranks_.news();
  if (!std::exchange(has_told_, true))
    TENON_TRY(news.tell({members_.number, sequence_, cat(name_, " of ", place_)}));
  TENON_TRY(news.look());
  for (const int64_t rank : members_.ranks) TENON_TRY(check(rank, now));
  return {};
}

Status Transfer::check(int64_t rank, uint64_t now) {
  std::string other;
  if (ranks_.news().is_stuck_with(rank, {members_.number, sequence_, {}}, &other)) {
    return fail_with(TENON_FAILED_PRECONDITION,
                     cat("T0905: the processes disagree: ", what(), " waits for rank ", rank,
                         ", which waits in ", other));
  }
  if (!ranks_.news().has_ended(rank)) return {};
  // The last of its data may still be on the way.
  if (ended_ns_ == 0) ended_ns_ = now;
  if (now - ended_ns_ < kOnTheWayNs) return {};
  return fail_with(TENON_UNAVAILABLE,
                   cat("T0908: ", what(), " waits for rank ", rank, ", which has ended"));
}

Status Transfer::fail_with(tenon_code_t code, std::string_view text) {
  ranks_.recorder().keep();
  return fail(code, cat(text, ranks_.recorder().advice()));
}

std::string Transfer::what() const {
  if (members_.is_given)
    return cat("place ", members_.position, " of its group: ", name_, " of ", place_);
  return cat("rank ", ranks_.rank(), ": ", name_, " of ", place_, " (transfer ", sequence_,
             " of group ", members_.number, ")");
}

Status Transfer::give_up() {
  const std::string text =
      cat("T0904: ", what(), " did not end within ", limit_ns() / 1'000'000'000u,
          " s (TENON_COLLECTIVE_TIMEOUT)", ranks_.recorder().advice());
  if (!members_.is_given && (ranks_.flags() & TENON_COLLECTIVE_ABORT_ENDS) != 0) announce(text);
  ranks_.recorder().keep();
  const tenon_collective_api_t& api = *members_.api;
  if (!members_.is_given) ranks_.give_up();
  (void)api.abort(api.self, members_.comm, kExitStatus, str(text));
  // Not DEADLINE_EXCEEDED, which means to those who wait for a fence that they may go on.
  return fail(TENON_UNAVAILABLE, text);
}

}  // namespace tenon::mesh
