// Kernels of C++ text for operators of Python: compiled by the toolchain, offered as a kernel set.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <map>
#include <memory>
#include <mutex>

#include "frontends/python/native/arrays/arrays.h"
#include "frontends/python/native/host/host.h"
#include "frontends/python/native/ops/ops.h"
#include "frontends/python/native/ops/python_slots.h"
#include "tenon/abi/simple_kernels.h"
#include "tenon/abi/toolchain.h"
#include "tenon/cpp/record.hpp"
#include "tenon/cpp/text.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace tenon::python {
namespace {

// What the text of a kernel ends with (tenon/_kernels.py): inputs, outputs, attributes, elements.
using KernelFunction = void (*)(void* const* inputs, void* const* outputs, const int64_t* attrs,
                                int64_t count);
constexpr size_t kAttrsMax = 5;  // of tenon_simple_plan_t::params, after the function

struct Kernel {
  std::vector<std::string> attrs;
  KernelFunction function = nullptr;
};

// The kernels of one device and op, as a plugin. It lives as long as the process.
struct KernelPlugin {
  std::string op, device, name, plugin_name, manifest;
  std::vector<tenon_simple_kernel_t> kernels;
  tenon_simple_set_t set = {};
  tenon_kernels_api_t table = {};
  tenon_interface_t interface = {};
  tenon_plugin_t plugin = {};
};

using Key = std::pair<std::string, tenon_dtype_t>;  // op, element type
std::mutex g_mutex;                                 // never held while anything is called
std::map<Key, Kernel>& kernels() {
  static auto* all = new std::map<Key, Kernel>;
  return *all;
}

bool same_dims(const tenon_type_t& a, const tenon_type_t& b) {
  return a.rank == b.rank && std::equal(a.dims, a.dims + a.rank, b.dims);
}

tenon_code_t suits(const tenon_simple_call_t* call, tenon_simple_plan_t* out_plan) {
  auto node = sized<tenon_node_view_t>();
  if (const tenon_code_t code =
          call->graph->node_view(call->graph->self, call->call->graph, call->call->anchor, &node))
    return code;
  const tenon_kernel_call_t& c = *call->call;
  if (c.result_count == 0) return tenon_simple_refuse(call, "it has no result");
  Kernel kernel;
  {
    const std::lock_guard lock(g_mutex);
    const auto found = kernels().find(
        {std::string(view(call->host->sym_text(call->host->self, node.op))), c.results[0].dtype});
    if (found == kernels().end())
      return tenon_simple_refuse(call, "no kernel for this element type");
    kernel = found->second;
  }
  for (uint32_t i = 0; i < c.operand_count; ++i)
    if (!same_dims(tenon_kernel_operand(&c, i)->type, c.results[0]))
      return tenon_simple_refuse(call,
                                 "kernels from Python are for operands of the result's shape");
  for (uint32_t i = 1; i < c.result_count; ++i)
    if (!same_dims(c.results[i], c.results[0]))
      return tenon_simple_refuse(call, "kernels from Python are for results of one shape");
  out_plan->params[0] = reinterpret_cast<int64_t>(kernel.function);
  for (size_t i = 0; i < kernel.attrs.size(); ++i) {
    tenon_attr_t attr = {};
    if (const tenon_code_t code = tenon_simple_attr(call, kernel.attrs[i].c_str(), &attr))
      return code;
    std::memcpy(&out_plan->params[1 + i], &attr.u, sizeof(int64_t));  // an integer or a double
  }
  out_plan->cost_ns = 0;
  return TENON_OK;
}

tenon_code_t run_kernel(const tenon_simple_run_t* run) {
  void* in[TENON_SIMPLE_TENSORS_MAX];
  void* out[TENON_SIMPLE_TENSORS_MAX];
  for (uint32_t i = 0; i < run->args->input_count; ++i) in[i] = run->inputs[i].data;
  for (uint32_t i = 0; i < run->args->output_count; ++i) out[i] = run->outputs[i].data;
  reinterpret_cast<KernelFunction>(run->plan->params[0])(
      in, out, run->plan->params + 1, static_cast<int64_t>(run->outputs[0].elements));
  return TENON_OK;
}

const tenon_toolchain_api_t& toolchain() {
  const tenon_host_registry_t& plugins = registry();
  const void* table = nullptr;
  ask([&] {
    return plugins.plugin_interface(plugins.self, text("toolchain"), text(TENON_DIALECT_CPP),
                                    text(TENON_TOOLCHAIN_ID), &table);
  });
  return *static_cast<const tenon_toolchain_api_t*>(table);
}

KernelFunction compiled(const std::string& source, const std::string& symbol) {
  const tenon_toolchain_api_t& tool = toolchain();
  auto options = sized<tenon_toolchain_options_t>();
  options.optimise = 3;
  options.isolated = 1;
  std::string object, diagnostics;
  const tenon_sink_t to_object = sink_to(&object), to_diagnostics = sink_to(&diagnostics);
  void* address = nullptr;
  const tenon_code_t code = without_gil([&]() -> tenon_code_t {
    const tenon_code_t built = tool.build(tool.self, {}, text(TENON_DIALECT_CPP), text(source),
                                          &options, &to_object, &to_diagnostics);
    if (built != TENON_OK) return built;
    tenon_module_t* module = nullptr;  // programs may use it as long as the process lives
    const tenon_code_t loaded = tool.load(tool.self, object.data(), object.size(), &module);
    return loaded != TENON_OK ? loaded : tool.symbol(tool.self, module, text(symbol), &address);
  });
  if (code == TENON_INVALID_ARGUMENT && !diagnostics.empty())
    raise_usage(code, "T0631", "the kernel does not compile: " + diagnostics);
  if (code != TENON_OK) raise_failure(code);
  return reinterpret_cast<KernelFunction>(address);
}

void make_plugin(KernelPlugin& made, tenon_dtypes_t dtypes) {
  made.name = made.op + "." + made.device;
  made.kernels = {{made.op.c_str(), dtypes, suits, run_kernel}};
  tenon_simple_kernels_in(&made.set, nullptr, g_tables.host, made.device.c_str(), nullptr,
                          made.kernels.data(), 1, &made.table);
  describe_plugin(made, TENON_KERNELS_ID, &made.table, "kernels",
                  tenon::text::json_quoted(made.device));
}

// Compiles a kernel and registers those of the op for all `dtypes` that have one.
void register_kernel(const std::string& op, const std::string& device, const std::string& dtype,
                     const std::vector<std::string>& attrs, const std::string& source,
                     const std::string& symbol, const std::vector<std::string>& dtypes) {
  if (attrs.size() > kAttrsMax)
    raise_usage(TENON_UNIMPLEMENTED, "T0629", "a kernel of more than 5 attributes: not yet");
  const KernelFunction function = compiled(source, symbol);
  {
    const std::lock_guard lock(g_mutex);
    kernels()[{op, dtype_named(dtype)}] = {attrs, function};
  }
  auto made = std::make_unique<KernelPlugin>();
  made->op = op;
  made->device = device;
  tenon_dtypes_t accepted = 0;
  for (const std::string& name : dtypes) accepted |= TENON_DTYPE_BIT(dtype_named(name));
  make_plugin(*made, accepted);
  register_plugin(made->plugin, made->manifest, false);
  (void)made.release();  // the host keeps it
}

}  // namespace

void bind_kernels(nb::module_& m) {
  m.def("register_kernel", register_kernel, "op"_a, "device"_a, "dtype"_a, "attrs"_a, "source"_a,
        "symbol"_a, "dtypes"_a);
}

}  // namespace tenon::python
