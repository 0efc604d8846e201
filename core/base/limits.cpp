#include "core/base/limits.h"

#include <atomic>
#include <string>

#include "core/base/process/environment.h"
#include "core/base/process/log.h"
#include "core/base/str.h"

namespace tenon {
namespace {

constexpr LimitInfo kInfos[] = {
#define TENON_LIMIT(name, variable, value, what) {variable, value, what},
#include "core/base/limits.def"
#undef TENON_LIMIT
};
constexpr size_t kLimitCount = static_cast<size_t>(Limit::kCount);

struct Values {
  std::atomic<uint64_t> value[kLimitCount];
  Values() { read(); }
  void read() {
    for (size_t i = 0; i < kLimitCount; ++i) {
      uint64_t chosen = kInfos[i].default_value;
      if (auto text = env(kInfos[i].variable); text && !parse_u64(*text, &chosen)) {
        log_warning("base", "{}={} is not a number of {}; {} is used", kInfos[i].variable,
                    quoted(*text), kInfos[i].what, chosen);
      }
      value[i].store(chosen, std::memory_order_relaxed);
    }
  }
};

Values& values() {
  static Values* instance = new Values;  // never destroyed: threads may read it during exit
  return *instance;
}

}  // namespace

const LimitInfo& limit_info(Limit limit) {
  return kInfos[static_cast<size_t>(limit)];
}

uint64_t limit(Limit limit) {
  return values().value[static_cast<size_t>(limit)].load(std::memory_order_relaxed);
}

void read_limits() {
  values().read();
}

void set_limit(Limit limit, uint64_t value) {
  values().value[static_cast<size_t>(limit)].store(value, std::memory_order_relaxed);
}

Status check_limit(Limit which, uint64_t asked, std::string_view where) {
  uint64_t allowed = limit(which);
  if (asked <= allowed) return Status();
  const LimitInfo& info = limit_info(which);
  return error(TENON_RESOURCE_EXHAUSTED, "T0102",
               "{} asks for {} {}, and the limit is {} (set by {})", where, asked, info.what,
               allowed, info.variable)
      .with("limit", info.variable);
}

}  // namespace tenon
