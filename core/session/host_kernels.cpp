#include "core/session/host_kernels.h"

#include <algorithm>
#include <string>
#include <vector>

#include "core/base/errors/guard.h"
#include "core/host/plugin_host.h"
#include "core/ir/graph.h"
#include "core/op/registry.h"

namespace tenon::session {
namespace {

struct Answer {
  const tenon_kernels_api_t* api;
  tenon_kernel_candidate_t candidate;
  tenon_code_t code;
  std::string reason;
};

// False for kernels that came with another definition of the op.
bool suits(const host::Plugin& plugin, const tenon_kernel_call_t& call) {
  if (plugin.registration == 0) return true;
  const ir::NodeData& node = ir::Graph::from(call.graph)->node(call.anchor);
  return op::Registry::instance().suits(node.op, node.op_version, plugin.registration);
}

using Visit = void (*)(void*, const tenon_kernels_api_t*, const tenon_kernel_candidate_t*,
                       tenon_code_t, tenon_str_t);

Status visit_candidates(std::string_view device_kind, tenon_str_t target,
                        const tenon_kernel_call_t* call, void* context, Visit visit) {
  host::PluginHost& plugins = host::PluginHost::process();
  std::vector<Answer> answers;
  for (const host::Provider& provider : plugins.providers("kernels")) {
    if (provider.name != device_kind) continue;
    Result<const host::Plugin*> plugin = plugins.load(provider.plugin);
    if (!plugin.ok()) continue;  // recorded and explained by the host
    const auto* api = (*plugin)->table<tenon_kernels_api_t>(TENON_KERNELS_ID);
    if (api == nullptr || !suits(**plugin, *call)) continue;
    Answer answer{api, {}, TENON_OK, {}};
    answer.candidate.size_bytes = sizeof(answer.candidate);
    answer.candidate.part_count = 1;
    clear_failure();
    answer.code = api->query(api->self, target, call, &answer.candidate);
    if (answer.code != TENON_OK) answer.reason = from_abi(answer.code, (*plugin)->name()).message();
    answers.push_back(std::move(answer));
  }
  std::sort(answers.begin(), answers.end(), [](const Answer& a, const Answer& b) {
    if ((a.code == TENON_OK) != (b.code == TENON_OK)) return a.code == TENON_OK;
    return a.candidate.cost_ns < b.candidate.cost_ns;
  });
  for (const Answer& a : answers) visit(context, a.api, &a.candidate, a.code, to_abi_str(a.reason));
  return {};
}

tenon_code_t candidates(void*, tenon_str_t device_kind, tenon_str_t target,
                        const tenon_kernel_call_t* call, void* context, Visit visit) {
  return guarded(
      [&] { return visit_candidates(from_abi_str(device_kind), target, call, context, visit); });
}

}  // namespace

const tenon_host_kernels_t* host_kernels_table() {
  static const tenon_host_kernels_t table = {sizeof(tenon_host_kernels_t), nullptr, candidates};
  return &table;
}

}  // namespace tenon::session
