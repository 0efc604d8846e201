// One call of a loop tree: runs its nodes. Internal to the interpreter.
#pragma once
#include <tenon/kernelgen/loops/loop_ir.h>

#include "tests/interpreter/tree_interpreter.h"
#include "tests/interpreter/tree_memory.h"

namespace tenon::interpreter {

// A node with everything that can be decided before the run.
struct TreeStep {
  const kernelgen::Node* node = nullptr;
  Operation operation;
  std::vector<TreeStep> body, other;
};
// False: `*why` names the operation that is not defined.
bool make_steps(const kernelgen::LoopTree& tree, const std::vector<kernelgen::Node>& nodes,
                std::vector<TreeStep>* out, std::string* why);

// The addresses that kAddress makes: a number for each memory, and the element's offset in bytes.
struct Address {
  kernelgen::Space space = kernelgen::Space::kBuffer;
  uint32_t ref = 0;
  int64_t bytes = 0;
};
int64_t encode(const Address& address);
Address decode(int64_t number);

class TreeRun {
 public:
  TreeRun(const kernelgen::LoopTree& tree, const std::vector<TreeStep>& steps,
          std::span<const int64_t> extents, const TreeOptions& options,
          std::vector<TreeBuffer>* buffers, std::vector<uint32_t> buffer_of, Report* report);
  // Runs items [begin, end) of the range in one call; on OpenCL one item.
  void call(int64_t begin, int64_t end);

 private:
  using ValueId = kernelgen::ValueId;
  using Node = kernelgen::Node;
  using Space = kernelgen::Space;

  uint32_t lanes(ValueId v) const { return tree_.values[v].lanes; }
  size_t place(ValueId v, uint32_t item, uint32_t lane = 0) const {
    return offset_[v] + item * lanes(v) + (lanes(v) == 1 ? 0 : lane);
  }
  Lane lane(ValueId v, uint32_t item, uint32_t lane = 0) const {
    return {regs_[place(v, item, lane)], known_[place(v, item, lane)] != 0};
  }
  void set(ValueId v, uint32_t item, uint32_t lane, Lane x) {
    regs_[place(v, item, lane)] = x.value;
    known_[place(v, item, lane)] = x.known;
  }
  void set_number(ValueId v, uint32_t item, int64_t x) { set(v, item, 0, {Reg{.i = x}, true}); }
  // A number that decides an address or a branch: it must be known.
  int64_t number(ValueId v, uint32_t item, const char* what);
  bool condition(ValueId v, uint32_t item, uint32_t lane, const char* what);
  template <class F>
  void each_item(F f) {
    for (uint32_t k = 0; k < items_; ++k) {
      if (active_[k]) f(k);
    }
  }
  bool any_active() const;
  // Only global barriers order accesses to memory that all groups share.
  Agent agent(uint32_t item) const { return {item_of_range_, item, global_barriers_}; }
  Agent agent_in_group(uint32_t item) const { return {item_of_range_, item, barriers_}; }
  void fact(const std::string& text);

  void run(const std::vector<TreeStep>& steps);
  void step(const TreeStep& s);
  void operation(const TreeStep& s);
  void check_plain_words(const Node& n);
  void splat(const Node& n);
  void iota(const Node& n);
  void shuffle(const Node& n);
  void join(const Node& n);
  void copy(ValueId dst, ValueId from);
  void loop(const TreeStep& s);
  void range(const TreeStep& s);
  void branch(const TreeStep& s);
  void barrier(const Node& n);
  void from_lane(const Node& n);

  Lane read(Space space, uint32_t ref, DType type, int64_t at, uint32_t item);
  void write(Space space, uint32_t ref, DType type, int64_t at, Lane x, uint32_t item);
  Lane read_buffer(uint32_t ref, DType type, int64_t at, uint32_t item);
  void write_buffer(uint32_t ref, DType type, int64_t at, Lane x, uint32_t item);
  TreeArray* array(Space space, uint32_t ref, uint32_t item);
  int64_t address(const Node& n, uint32_t item, uint32_t lane);
  void load(const Node& n);
  void store(const Node& n);

  void declare_local(const Node& n);
  void transpose(const Node& n);
  void interleave(const Node& n);
  void mma(const Node& n);
  void dots(const Node& n);
  void address_of(const Node& n);
  void taps(const Node& n);
  void channels(const Node& n);
  void sort(const Node& n);
  void any_nan(const Node& n);
  Lane read_address(int64_t number, int64_t more, DType type, uint32_t item);
  Lane product_sum(Lane sum, Lane a, Lane b, DType type) const;
  Lane rounded(Lane x, DType type) const;
  Lane weight(const kernelgen::Node& n, int64_t step, int64_t column, uint32_t item);
  Lane zero() const { return {Reg{.i = 0}, true}; }

  const kernelgen::LoopTree& tree_;
  const std::vector<TreeStep>& steps_;
  std::span<const int64_t> extents_;
  const TreeOptions& options_;
  std::vector<TreeBuffer>& buffers_;
  std::vector<uint32_t> buffer_of_;  // by argument; arguments may share memory
  Report& report_;
  uint32_t items_ = 1;  // work items that run together
  std::vector<uint8_t> active_;
  std::vector<size_t> offset_;  // by value
  std::vector<Reg> regs_;
  std::vector<uint8_t> known_;
  Scratch scratch_;
  std::vector<std::vector<TreeArray>> locals_;  // by number and work item
  std::vector<TreeArray> shared_;
  uint32_t item_of_range_ = ~0u, barriers_ = 0, global_barriers_ = 0, number_of_item_ = 1;
  const std::string* doing_ = nullptr;
};

}  // namespace tenon::interpreter
