#include "plugins/sim/collective/exchange.h"

#include <time.h>

#include <charconv>
#include <cstring>

#include "tenon/cpp/dtype.hpp"

namespace tenon::sim {
namespace {

std::byte* address(const tenon_native_memory_t& memory) {
  return reinterpret_cast<std::byte*>(static_cast<uintptr_t>(memory.handle)) + memory.offset_bytes;
}

struct Link {
  double latency_ns = 0, ns_per_byte = 0;
};

Link read_link() {
  const std::string_view text = setting("TENON_SIM_LINK");
  if (text.empty()) return {};
  double microseconds = 0, gigabytes = 0;
  const char* const end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, microseconds);
  const bool has_comma = first.ec == std::errc() && first.ptr != end && *first.ptr == ',';
  const auto second = has_comma ? std::from_chars(first.ptr + 1, end, gigabytes) : first;
  if (!has_comma || second.ec != std::errc() || second.ptr != end || !(microseconds >= 0) ||
      !(gigabytes > 0)) {
    log("sim", TENON_LOG_WARN, "TENON_SIM_LINK=", quoted(text),
        " is not MICROSECONDS,GIGABYTES_PER_SECOND; links take no time");
    return {};
  }
  return {microseconds * 1e3, 1 / gigabytes};
}

void add_f32(const tenon_transfer_t& side, uint64_t first, uint64_t count, float* out) {
  const auto* from = reinterpret_cast<const float*>(address(side.from)) + first;
  for (uint64_t i = 0; i < count; ++i) out[i] += from[i];
}

// f32 sums, in order of rank.
void sum_for(const Meeting& meeting, uint64_t first, const tenon_transfer_t& own) {
  auto* out = reinterpret_cast<float*>(address(own.to));
  std::memset(out, 0, own.to_elements * sizeof(float));
  for (const auto& side : meeting.sides) add_f32(*side, first, own.to_elements, out);
}

Status check(const Meeting& meeting, uint32_t place) {
  const tenon_transfer_t& own = *meeting.sides[place];
  for (uint32_t i = 0; i < meeting.sides.size(); ++i) {
    const tenon_transfer_t& other = *meeting.sides[i];
    const bool fits = other.transfer == own.transfer && other.combine == own.combine &&
                      other.dtype == own.dtype && other.to_elements == own.to_elements;
    if (fits) continue;
    return fail(TENON_INVALID_ARGUMENT,
                cat("T0905: sim: members ", place, " and ", i, " start different transfers"));
  }
  return {};
}

}  // namespace

Status copy_for(const Meeting& meeting, uint32_t place) {
  TENON_TRY(check(meeting, place));
  const tenon_transfer_t& own = *meeting.sides[place];
  const uint64_t count = meeting.sides.size(), bytes = dtype_bytes(own.dtype);
  std::byte* const to = address(own.to);
  if (own.to_elements == 0) return {};
  switch (own.transfer) {
    case TENON_TRANSFER_ALL_REDUCE:
      sum_for(meeting, 0, own);
      return {};
    case TENON_TRANSFER_REDUCE_SCATTER:
      sum_for(meeting, place * own.to_elements, own);
      return {};
    case TENON_TRANSFER_BROADCAST:
      std::memcpy(to, address(meeting.sides[own.peer]->from), own.to_elements * bytes);
      return {};
    default:
      break;
  }
  const uint64_t part = own.to_elements / count * bytes;
  const uint64_t skipped = own.transfer == TENON_TRANSFER_ALL_TO_ALL ? place * part : 0;
  for (uint64_t i = 0; i < count; ++i)
    std::memcpy(to + i * part, address(meeting.sides[i]->from) + skipped, part);
  return {};
}

Status copy_letter(const Letter& letter, const tenon_transfer_t& to) {
  if (letter.side.from_elements != to.to_elements || letter.side.dtype != to.dtype)
    return fail(TENON_INVALID_ARGUMENT, "T0905: sim: a send and its receive differ in their sizes");
  if (to.to_elements != 0)
    std::memcpy(address(to.to), address(letter.side.from), to.to_elements * dtype_bytes(to.dtype));
  return {};
}

uint64_t arrival_ns(uint64_t now_ns, uint64_t bytes) {
  static const Link link = read_link();
  return now_ns +
         static_cast<uint64_t>(link.latency_ns + link.ns_per_byte * static_cast<double>(bytes));
}

uint64_t steady_ns() {
  timespec now = {};
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace tenon::sim
