// The engines that plugins provide (tenon.collective/1), by their names in TENON_ENGINE. In a
// namespace of its own, because programs without a plugin use it too.
#ifndef TENON_CPP_ENGINES_HPP_
#define TENON_CPP_ENGINES_HPP_

#include <string>
#include <string_view>
#include <vector>

#include "tenon/abi/collective.h"
#include "tenon/abi/host.h"

namespace tenon::engines {

inline constexpr std::string_view kKind = "collective";

inline tenon_str_t text(std::string_view words) {
  return {words.data(), words.size()};
}

// Loads no plugin.
inline std::vector<std::string> names(const tenon_host_registry_t& registry) {
  std::vector<std::string> out;
  (void)registry.provided_each(registry.self, text(kKind), &out, [](void* to, tenon_str_t name) {
    static_cast<std::vector<std::string>*>(to)->emplace_back(name.data, name.size);
  });
  return out;
}

// Loads the engine's plugin. Null if there is none; then it is the last failure of this thread.
inline const tenon_collective_api_t* find(const tenon_host_registry_t& registry,
                                          std::string_view name) {
  const void* table = nullptr;
  const tenon_code_t code = registry.plugin_interface(registry.self, text(kKind), text(name),
                                                      text(TENON_COLLECTIVE_ID), &table);
  return code == TENON_OK ? static_cast<const tenon_collective_api_t*>(table) : nullptr;
}

}  // namespace tenon::engines

#endif
