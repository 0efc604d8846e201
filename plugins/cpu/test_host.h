// A minimal host for the plugin's tables: keeps failures, reads settings from a map, caches in
// memory. For unit tests only.
#ifndef TENON_PLUGINS_CPU_TEST_HOST_H_
#define TENON_PLUGINS_CPU_TEST_HOST_H_

#include <map>
#include <string>

#include "tenon/abi/host.h"
#include "tenon/cpp/plugin.hpp"

struct tenon_blob_t {
  std::string bytes;
};

namespace tenon::cpu {

class TestHost {
 public:
  static TestHost& get() {
    static TestHost host;
    return host;
  }
  std::string failure;  // The text of the last one.
  std::map<std::string, std::string> cache;

 private:
  TestHost() {
    host_.size_bytes = sizeof host_;
    host_.abi = TENON_ABI_VERSION;
    host_.self = this;
    host_.query = &query;
    host_.fail = [](void* self, tenon_code_t code, tenon_str_t text, const tenon_key_value_t*,
                    uint32_t) {
      static_cast<TestHost*>(self)->failure = std::string(view(text));
      return code;
    };
    host_.log_enabled = [](void*, tenon_str_t, uint32_t) -> uint32_t { return 0; };
    host_.cancelled = [](void*) -> uint32_t { return 0; };
    host_.setting = [](void*, tenon_str_t) -> tenon_str_t { return {}; };
    graph_.size_bytes = sizeof graph_;
    graph_.blob_data = [](void*, tenon_blob_t* blob, const void** data, uint64_t* size) {
      *data = blob->bytes.data();
      *size = blob->bytes.size();
      return TENON_OK;
    };
    graph_.blob_release = [](void*, tenon_blob_t* blob) { delete blob; };
    cache_.size_bytes = sizeof cache_;
    cache_.self = this;
    cache_.get = &cache_get;
    cache_.put = &cache_put;
    attach(&host_);
  }

  static tenon_code_t query(void* self, tenon_str_t id, uint32_t, const void** out) {
    auto* host = static_cast<TestHost*>(self);
    if (view(id) == TENON_HOST_GRAPH_ID) {
      *out = &host->graph_;
    } else if (view(id) == TENON_HOST_CACHE_ID) {
      *out = &host->cache_;
    } else {
      return TENON_NOT_FOUND;
    }
    return TENON_OK;
  }
  static std::string name(tenon_str_t kind, const void* key, uint64_t bytes) {
    return cat(kind, "/", std::string_view(static_cast<const char*>(key), bytes));
  }
  static tenon_code_t cache_get(void* self, tenon_str_t kind, const void* key, uint64_t bytes,
                                tenon_blob_t** out) {
    auto& cache = static_cast<TestHost*>(self)->cache;
    const auto found = cache.find(name(kind, key, bytes));
    if (found == cache.end()) {
      return TENON_NOT_FOUND;
    }
    *out = new tenon_blob_t{found->second};
    return TENON_OK;
  }
  static tenon_code_t cache_put(void* self, tenon_str_t kind, const void* key, uint64_t bytes,
                                const void* data, uint64_t size) {
    static_cast<TestHost*>(self)->cache[name(kind, key, bytes)] =
        std::string(static_cast<const char*>(data), size);
    return TENON_OK;
  }

  tenon_host_t host_ = {};
  tenon_host_graph_t graph_ = {};
  tenon_host_cache_t cache_ = {};
};

}  // namespace tenon::cpu
#endif
