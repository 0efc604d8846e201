// One launch on the calling thread: groups one after another, with a fiber for every work item that
// waits at a barrier. An item that ends without waiting leaves its fiber to the next one, so
// kernels without barriers run on a single fiber.
#ifndef TENON_PLUGINS_SIM_GROUP_H_
#define TENON_PLUGINS_SIM_GROUP_H_

#include <memory>
#include <string>
#include <vector>

#include "plugins/sim/kernels/fiber.h"
#include "plugins/sim/kernels/kernel_module.h"
#include "plugins/sim/kernels/watch.h"

namespace tenon::sim {

// Text put before a kernel: work-item functions and barriers that call back to the fibers.
extern const std::string_view kDialectPrelude;
// The variable of the module with the callbacks, and the table to fill it with.
inline constexpr std::string_view kHooksName = "__tenon_sim_hooks";
inline constexpr size_t kHookCount = 3;
extern const uint64_t kHooks[kHookCount];
// The callback of TENON_TOOLCHAIN_WATCH.
void watch_access(const void* address, uint64_t size_bytes, uint32_t kind);

class GroupRunner {
 public:
  // args: in the form of the entry. watch: null when accesses are not watched.
  GroupRunner(const Launch& launch, std::vector<void*> args, Watch* watch)
      : launch_(launch), args_(std::move(args)), watch_(watch) {}
  ~GroupRunner();

  Status run();

  // Called by kernels, on a fiber.
  const uint64_t* item() const;
  void barrier(uint32_t line);
  // The value of the item `by` further on in its warp, 0: of the warp's first item. After the end
  // of the warp it is one that no test takes for a result.
  uint64_t warp_word(uint64_t value, uint32_t by, uint32_t warp, uint32_t line);
  void access(const void* address, uint64_t size_bytes, uint32_t kind);

 private:
  // Laid out for the prelude: ids of the item, then sizes, three numbers each.
  struct Item {
    uint64_t global_id[3], local_id[3], group_id[3], global_size[3], local_size[3], group_count[3];
    uint64_t number = 0;         // within the group
    uint32_t waits_at_line = 0;  // 0: at no barrier
  };
  struct Worker {
    Item item;
    std::unique_ptr<Fiber> fiber;
    bool working = false;  // it runs an item
  };
  void run_group();
  void run_items(Worker* worker);
  void begin_item(Item* item, uint64_t number) const;
  void resume(Worker* worker);
  Worker* idle_worker();
  bool all_at_one_barrier(std::vector<Worker*>* waiting);
  bool judge(const void* address, uint64_t size_bytes, uint32_t kind);
  std::string item_text(const Item& item) const;

  const Launch& launch_;
  std::vector<void*> args_;
  Watch* const watch_;
  std::vector<std::unique_ptr<Worker>> workers_;
  Worker* current_ = nullptr;
  std::vector<uint64_t> words_;  // by item, what a warp exchanges
  uint64_t group_[3] = {}, groups_[3] = {};
  uint64_t group_number_ = 0, items_ = 0, next_item_ = 0;
  uint32_t epoch_ = 0;
  bool leaving_ = false;
  tenon_code_t failure_ = TENON_OK;
  std::string message_;
};

}  // namespace tenon::sim
#endif
