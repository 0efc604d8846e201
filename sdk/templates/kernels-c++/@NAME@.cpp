// The kernel set `@NAME@`: kernels for a device of another plugin. Here it is one kernel for the
// cpu: `sort` of lines of u8, by counting. The host chooses a kernel where it fits and costs less
// than the device's own code; `tenon ops sort --explain` shows where, and where not and why.
// Replace the kernel with yours, and add others to the table at the end.
#include <algorithm>
#include <array>
#include <span>

#include <tenon/abi/simple_kernels.h>
#include <tenon/cpp/plugin.hpp>

namespace {

constexpr int64_t kLineMin = 256;

// Which calls of the op the kernel accepts, and their cost. The plan keeps data for the kernel.
tenon_code_t suits(const tenon_simple_call_t* call, tenon_simple_plan_t* plan) {
  const tenon_type_t& type = tenon_kernel_operand(call->call, 0)->type;
  const std::span<const int64_t> dims(type.dims, type.rank);
  tenon_attr_t dim = {}, descending = {};
  TENON_TRY(tenon_simple_attr(call, "dim", &dim));
  TENON_TRY(tenon_simple_attr(call, "descending", &descending));
  if (call->call->operand_count != 1) return tenon_simple_refuse(call, "one operand only");
  if (dim.u.i != static_cast<int64_t>(dims.size()) - 1)
    return tenon_simple_refuse(call, "along the last dim only");
  if (dims.back() < kLineMin)
    return tenon_simple_refuse(call, "lines of at least 256 elements only, known before the run");
  if (std::ranges::any_of(std::span(descending.u.is, descending.count),
                          [](int64_t d) { return d != 0; }))
    return tenon_simple_refuse(call, "ascending only");
  plan->params[0] = dims.back();
  plan->cost_ns = 1;  // per element, measured; dims below 0 are known only in the run
  for (const int64_t d : dims) plan->cost_ns *= static_cast<double>(std::max<int64_t>(d, 1));
  return TENON_OK;
}

void sort_line(std::span<const uint8_t> in, uint8_t* out) {
  std::array<uint64_t, 256> counts = {};
  for (const uint8_t value : in) ++counts[value];
  for (size_t value = 0; value < counts.size(); ++value)
    out = std::fill_n(out, counts[value], static_cast<uint8_t>(value));
}

tenon_code_t sort_u8(const tenon_simple_run_t* run) {
  const auto line = static_cast<uint64_t>(run->plan->params[0]);
  const auto* in = static_cast<const uint8_t*>(run->inputs[0].data);
  auto* out = static_cast<uint8_t*>(run->outputs[0].data);
  for (uint64_t at = 0; at < run->inputs[0].elements; at += line)
    sort_line({in + at, line}, out + at);
  return TENON_OK;
}

constexpr tenon_simple_kernel_t kKernels[] = {{"sort", TENON_DTYPE_BIT(TENON_U8), suits, sort_u8}};
tenon_kernels_api_t g_kernels;
constexpr tenon_interface_t g_interfaces[] = {tenon::offer(TENON_KERNELS_ID, g_kernels)};

// Runs in the entry, which is called once.
tenon::Status start() {
  return tenon_simple_kernels(tenon::context().host, "cpu", nullptr, kKernels, std::size(kKernels),
                              &g_kernels);
}

}  // namespace

TENON_PLUGIN("@NAME@", "0.1.0", g_interfaces, start)
