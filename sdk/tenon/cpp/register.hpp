// For programs: a plugin that is part of the program (tenon.host.plugins/1). Ops, kernels, passes
// and frontends, registered while the program runs, and again with another meaning.
//
//     constexpr tenon::OpDraft scale_shift() {
//       return tenon::op("demo.scale_shift", tenon::kElementwise, tenon::kByContent)
//           .summary("2x + 1.")
//           .operand("x", "numbers", tenon::kFloat)
//           .result("y", "same type as x")
//           .none_example("see the guide")
//           .infer<tenon::infer_elementwise>()
//           .scalar(tenon::scalar::arg(0) * 2 + 1);
//     }
//
//     tenon::Registration plugin("demo", "1.0.0");
//     plugin.ops<scale_shift>();
//     if (!plugin.add().ok()) return tenon::failure_text();
//
// Registered again with equal declarations, an op keeps its number. Functions that build nodes by
// name (decompositions, folds, rewrites) find the definitions of the time of their registration: to
// let them use a later one, register their op again too. Kernels are asked only about the
// definition that was current when they were registered.
//
// The host calls what is registered from any of its threads, and may hold locks then. A language
// binding therefore gives its interpreter's lock back before each call of the host, and takes it in
// each function that the host calls.
//
// The session is open before. Threads: one at a time per object, safe on different ones.
#ifndef TENON_CPP_REGISTER_HPP_
#define TENON_CPP_REGISTER_HPP_

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/abi/frontend.h"
#include "tenon/abi/pass.h"
#include "tenon/abi/plugins.h"
#include "tenon/abi/simple_kernels.h"
#include "tenon/cpp/op.hpp"
#include "tenon/cpp/plugin.hpp"
#include "tenon/cpp/text.hpp"

namespace tenon::inline sdk {

// The version of an op that a program registers: the host numbers it.
inline constexpr uint32_t kByContent = 0;

// Collects what a plugin has, and registers it. What a successful add() registered lives as long as
// the process; an object that was not added may go.
class Registration {
 public:
  explicit Registration(std::string_view name, std::string_view version = "1.0.0")
      : held_(std::make_unique<Held>()) {
    held_->name = name;
    held_->version = version;
  }

  // The ops that constexpr functions declare.
  template <auto... Declare>
  Registration& ops() {
    for (const tenon_op_def_t* def : kOpPointers<Declare...>) op(*def);
    return *this;
  }
  // A declaration that lives as long as the process.
  Registration& op(const tenon_op_def_t& def) { return held_->ops.push_back(&def), *this; }
  Registration& pass(const tenon_pass_def_t& def) { return held_->passes.push_back(&def), *this; }
  Registration& frontend(const tenon_frontend_api_t& table) {
    return held_->frontend = &table, *this;
  }
  // Kernels for a device whose memory the host can access, such as the cpu. A plugin has kernels
  // for one kind of device: the last.
  // context: what they get in each call; lives as long as the process.
  Registration& kernels(std::string_view device_kind, std::vector<tenon_simple_kernel_t> kernels,
                        void* context = nullptr) {
    held_->device_kind = device_kind;
    held_->kernel_context = context;
    held_->set_kernels = std::move(kernels);
    return *this;
  }
  // One more line of the manifest: key `"summary"`, value `"\"text\""`, both as JSON.
  Registration& manifest(std::string_view key, std::string_view json) {
    held_->more += cat(", ", key, ": ", json);
    return *this;
  }

  // Registers it, replacing an earlier plugin of this name. On failure the reason is in
  // failure_text(), and the object can be changed and added again. Called once with success.
  Status add() {
    const auto* plugins = context().query<tenon_host_plugins_t>(TENON_HOST_PLUGINS_ID);
    if (plugins == nullptr) return TENON_UNIMPLEMENTED;
    held_->make_tables();
    const std::string manifest = held_->manifest();
    TENON_TRY(plugins->plugin_register(plugins->self, &held_->record, str(manifest)));
    keep(std::move(held_));
    return {};
  }

 private:
  struct Held {
    std::string name, version, device_kind, more;
    std::vector<const tenon_op_def_t*> ops;
    std::vector<const tenon_pass_def_t*> passes;
    std::vector<tenon_simple_kernel_t> set_kernels;
    void* kernel_context = nullptr;
    const tenon_frontend_api_t* frontend = nullptr;
    tenon_ops_t ops_table = {};
    tenon_passes_t passes_table = {};
    tenon_simple_set_t set = {};
    tenon_kernels_api_t kernels_table = {};
    std::vector<tenon_interface_t> interfaces;
    tenon_plugin_t record = {};

    void make_tables() {
      interfaces.clear();
      if (!ops.empty()) {
        ops_table = {sizeof ops_table, nullptr, ops.data(), ops.size()};
        interfaces.push_back(offer(TENON_OPS_ID, ops_table));
      }
      if (!passes.empty()) {
        passes_table = {sizeof passes_table, nullptr, passes.data(), passes.size()};
        interfaces.push_back(offer(TENON_PASS_ID, passes_table));
      }
      if (!set_kernels.empty()) {
        tenon_simple_kernels_in(&set, kernel_context, context().host, device_kind.c_str(), nullptr,
                                set_kernels.data(), static_cast<uint32_t>(set_kernels.size()),
                                &kernels_table);
        interfaces.push_back(offer(TENON_KERNELS_ID, kernels_table));
      }
      if (frontend != nullptr) interfaces.push_back(offer(TENON_FRONTEND_ID, *frontend));
      record = {};
      record.size_bytes = sizeof record;
      record.abi = TENON_TARGET_ABI;
      record.name = str(name);
      record.version = str(version);
      record.interfaces = interfaces.data();
      record.interface_count = interfaces.size();
      record.interface_bytes = sizeof(tenon_interface_t);
    }

    std::string manifest() const {
      std::string provides;
      const auto list = [&](std::string_view key, const std::string& items) {
        if (!items.empty())
          provides += cat(provides.empty() ? "" : ", ", "\"", key, "\": [", items, "]");
      };
      list("ops", names_of(ops));
      list("passes", names_of(passes));
      list("kernels", set_kernels.empty() ? "" : text::json_quoted(device_kind));
      if (frontend != nullptr) list("frontends", frontend_json());
      return cat("{\"schema\": 1, \"name\": ", text::json_quoted(name),
                 ", \"version\": ", text::json_quoted(version), more, ", \"provides\": {", provides,
                 "}}");
    }

   private:
    template <class Def>
    static std::string names_of(const std::vector<const Def*>& defs) {
      std::string names;
      for (const Def* def : defs)
        names += cat(names.empty() ? "" : ", ", text::json_quoted(view(def->name)));
      return names;
    }
    std::string frontend_json() const {
      std::string extensions;
      for (std::string_view one : text::split(view(frontend->extensions), ','))
        extensions += cat(extensions.empty() ? "" : ", ", text::json_quoted(one));
      return cat("{\"name\": ", text::json_quoted(view(frontend->name)), ", \"extensions\": [",
                 extensions, "]}");
    }
  };

  static void keep(std::unique_ptr<Held> held) {
    static std::mutex mutex;
    static auto* all = new std::vector<std::unique_ptr<Held>>;  // as long as the process
    const std::lock_guard lock(mutex);
    all->push_back(std::move(held));
  }

  std::unique_ptr<Held> held_;
};

// Takes back a plugin that this program registered.
inline Status unregister(std::string_view name) {
  const auto* plugins = context().query<tenon_host_plugins_t>(TENON_HOST_PLUGINS_ID);
  if (plugins == nullptr) return TENON_UNIMPLEMENTED;
  return plugins->plugin_unregister(plugins->self, str(name));
}

}  // namespace tenon::inline sdk

#endif
