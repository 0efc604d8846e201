#include "test_host.h"

#include "core/base/errors/failure.h"
#include "core/base/intern.h"
#include "core/ir/host_graph.h"
#include "core/op/registry.h"

namespace tenon {

const tenon_host_t* test_host() {
  static const tenon_host_t host = [] {
    tenon_host_t h = {};
    h.size_bytes = sizeof h;
    h.abi = TENON_ABI_VERSION;
    h.query = [](void*, tenon_str_t id, uint32_t, const void** out) -> tenon_code_t {
      if (from_abi_str(id) != TENON_HOST_GRAPH_ID) return TENON_NOT_FOUND;
      *out = ir::host_graph_table();
      return TENON_OK;
    };
    h.fail = [](void*, tenon_code_t code, tenon_str_t text, const tenon_key_value_t* evidence,
                uint32_t count) -> tenon_code_t {
      record_failure(code, from_abi_str(text), {evidence, count});
      return code;
    };
    h.last_failure = [](void*, tenon_failure_t* out) -> tenon_code_t {
      const Status& last = last_failure();
      out->code = last.code();
      out->message = to_abi_str(last.message());
      out->id = to_abi_str(last.error_code());
      return TENON_OK;
    };
    h.intern = [](void*, tenon_str_t text) -> tenon_sym_t { return intern(from_abi_str(text)); };
    h.sym_text = [](void*, tenon_sym_t sym) -> tenon_str_t { return to_abi_str(sym_text(sym)); };
    return h;
  }();
  return &host;
}

std::string register_test_ops() {
  const tenon_plugin_t* plugin = nullptr;
  if (tenon_plugin_query(TENON_ABI_VERSION, test_host(), &plugin) != TENON_OK)
    return "the plugin refuses";
  const auto& table = *static_cast<const tenon_ops_t*>(plugin->interfaces[0].table);
  const Status registered = op::Registry::instance().register_ops(table, "ops");
  return registered.ok() ? std::string() : registered.text();
}

}  // namespace tenon
