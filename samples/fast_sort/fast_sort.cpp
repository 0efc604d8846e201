// The kernel set `fast_sort`: `sort` of f32 on the cpu, along the last dim, for lines of 1,024 to
// 2^26 elements, by radix: four passes over the bits instead of comparisons. The order is the op's:
// NaN last (first if descending), -0 and +0 equal, equal elements in their original order.
#include <algorithm>
#include <array>
#include <memory>
#include <new>
#include <span>
#include <utility>

#include <tenon/abi/simple_kernels.h>
#include <tenon/cpp/plugin.hpp>

namespace {

constexpr int64_t kLineMin = 1024;  // for shorter lines, comparisons are as fast
constexpr int64_t kLineMax = int64_t{1} << 26;
constexpr double kElementNs = 12;  // measured, one thread
constexpr uint32_t kBits = 8, kBuckets = 1u << kBits;
enum Param { kLine, kDescending };

tenon_code_t suits(const tenon_simple_call_t* call, tenon_simple_plan_t* plan) {
  const tenon_type_t& type = tenon_kernel_operand(call->call, 0)->type;
  const std::span<const int64_t> dims(type.dims, type.rank);
  tenon_attr_t dim = {}, descending = {};
  TENON_TRY(tenon_simple_attr(call, "dim", &dim));
  TENON_TRY(tenon_simple_attr(call, "descending", &descending));
  if (call->call->operand_count != 1)
    return tenon_simple_refuse(call, "keys alone, nothing that moves with them");
  if (dim.u.i != static_cast<int64_t>(dims.size()) - 1)
    return tenon_simple_refuse(call, "along the last dim only");
  if (dims.back() < 0)
    return tenon_simple_refuse(call, "the length of a line has to be known before the run");
  if (dims.back() < kLineMin || dims.back() > kLineMax)
    return tenon_simple_refuse(call, "lines of 1,024 to 67,108,864 elements only");
  plan->params[kLine] = dims.back();
  plan->params[kDescending] = descending.count != 0 && descending.u.is[0] != 0 ? 1 : 0;
  plan->cost_ns = kElementNs;
  for (const int64_t d : dims) plan->cost_ns *= static_cast<double>(std::max<int64_t>(d, 1));
  return TENON_OK;
}

// An unsigned integer that is ordered as the floats are.
uint32_t key_of(uint32_t bits, bool descending) {
  constexpr uint32_t kSign = 0x80000000u, kInfinity = 0x7f800000u;
  uint32_t key;
  if ((bits & ~kSign) > kInfinity) {
    key = 0xffffffffu;  // NaN is above all numbers, whatever its sign
  } else if ((bits & kSign) != 0 && bits != kSign) {
    key = ~bits;
  } else {
    key = bits | kSign;  // -0 as +0
  }
  return descending ? ~key : key;
}

struct Item {
  uint32_t key, bits;
};

// Sorts one line; `a` and `b` have room for it. Stable, because every pass is stable.
void sort_line(const uint32_t* in, uint32_t* out, std::span<Item> a, std::span<Item> b,
               bool descending) {
  std::array<std::array<uint32_t, kBuckets>, 4> counts = {};
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = {key_of(in[i], descending), in[i]};
    for (uint32_t pass = 0; pass < 4; ++pass)
      ++counts[pass][a[i].key >> pass * kBits & (kBuckets - 1)];
  }
  for (uint32_t pass = 0; pass < 4; ++pass) {
    uint32_t at = 0;
    for (uint32_t& count : counts[pass]) at += std::exchange(count, at);
    for (const Item& item : a) b[counts[pass][item.key >> pass * kBits & (kBuckets - 1)]++] = item;
    std::swap(a, b);
  }
  for (size_t i = 0; i < a.size(); ++i) out[i] = a[i].bits;
}

tenon_code_t sort_f32(const tenon_simple_run_t* run) {
  const auto line = static_cast<size_t>(run->plan->params[kLine]);
  const std::unique_ptr<Item[]> room(new (std::nothrow) Item[2 * line]);
  if (room == nullptr)
    return tenon::fail(TENON_RESOURCE_EXHAUSTED, "fast_sort: no memory to sort a line in").code();
  const auto* in = static_cast<const uint32_t*>(run->inputs[0].data);
  auto* out = static_cast<uint32_t*>(run->outputs[0].data);
  for (uint64_t at = 0; at < run->inputs[0].elements; at += line) {
    if (tenon::cancelled()) return TENON_CANCELLED;
    sort_line(in + at, out + at, {room.get(), line}, {room.get() + line, line},
              run->plan->params[kDescending] != 0);
  }
  return TENON_OK;
}

constexpr tenon_simple_kernel_t kKernels[] = {
    {"sort", TENON_DTYPE_BIT(TENON_F32), suits, sort_f32}};
tenon_kernels_api_t g_kernels;
constexpr tenon_interface_t g_interfaces[] = {tenon::offer(TENON_KERNELS_ID, g_kernels)};

tenon::Status start() {
  return tenon_simple_kernels(tenon::context().host, "cpu", nullptr, kKernels, std::size(kKernels),
                              &g_kernels);
}

}  // namespace

TENON_PLUGIN("fast_sort", "0.1.0", g_interfaces, start)
