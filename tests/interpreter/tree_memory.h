// The memories of a loop tree with their shadows. Internal to the interpreter.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "tests/interpreter/memory.h"

namespace tenon::interpreter {

// A lane of a value. It is unknown if it depends on memory that was never stored.
struct Lane {
  Reg value{.i = 0};
  bool known = false;
};

// Who accesses memory: an item of the range, or a work item of a group, and the number of barriers
// that it has passed.
struct Agent {
  uint32_t group = 0;  // item of the range, or number of the group
  uint32_t item = 0;   // work item of the group
  uint32_t barriers = 0;
};

// Conflicting accesses of different agents to elements.
class Touches {
 public:
  void reset(size_t elements) { list_.assign(elements, {}); }
  bool empty() const { return list_.empty(); }
  // Empty, or the earlier access of another agent that is not ordered with this one.
  const char* load(size_t at, const Agent& agent);
  const char* store(size_t at, const Agent& agent);
  bool stored_by(size_t at, const Agent& agent) const {
    return list_[at].stored && same(list_[at].store, agent);
  }

 private:
  struct Touch {
    Agent store, load;
    bool stored = false, loaded = false,
         many = false;  // many: several agents loaded it since the last barrier
  };
  static bool same(const Agent& a, const Agent& b) {
    return a.group == b.group && a.item == b.item;
  }
  // Whether a barrier of their group lies between them.
  static bool ordered(const Agent& a, const Agent& b) {
    return same(a, b) || (a.group == b.group && a.barriers < b.barriers);
  }
  // Whether other agents than this one have loaded the element since the last barrier.
  static bool others(const Touch& t, const Agent& agent) {
    return !ordered(t.load, agent) ||
           (t.many && t.load.group == agent.group && t.load.barriers == agent.barriers);
  }
  std::vector<Touch> list_;
};

// A buffer of the kernel in the layout of devices: elements of one type.
struct TreeBuffer {
  DType type = TENON_DTYPE_NONE;
  std::vector<Lane> elements;
  std::vector<bool> stored;  // by this kernel
  bool written = false;      // according to the tree
  bool rewritten = false;
  Touches touches;  // of written buffers
};

// An array of one work item, or of a group whose items share it.
struct TreeArray {
  DType type = TENON_DTYPE_NONE;
  std::vector<Lane> elements;
  Touches touches;  // of shared ones
};

// Untyped bytes. What one item of the range stored is unknown to the others.
class Scratch {
 public:
  // shared: between the items of a group.
  void reset(size_t bytes, bool shared) {
    bytes_.assign(bytes, 0xa5);
    stored_in_.assign(bytes, 0);
    touches.reset(shared ? bytes : 0);
  }
  Touches touches;  // by byte, for the first byte of each element
  size_t size() const { return bytes_.size(); }
  // 1: before the items; else the number of an item.
  void begin_item(uint32_t number) { item_ = number; }
  Lane load(DType type, int64_t at) const;
  void store(DType type, int64_t at, Lane lane);
  bool inside(DType type, int64_t at) const {
    const int64_t size = kernelgen::size_of(type);
    return at >= 0 && (at + 1) * size <= static_cast<int64_t>(bytes_.size());
  }

 private:
  std::vector<unsigned char> bytes_;
  std::vector<uint32_t> stored_in_;  // by byte; 0: never, or an unknown value
  uint32_t item_ = 1;
};

}  // namespace tenon::interpreter
