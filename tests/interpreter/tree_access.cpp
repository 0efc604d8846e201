// Loads and stores of a loop tree.
#include <algorithm>

#include "tests/interpreter/tree_run.h"

namespace tenon::interpreter {

using kernelgen::kNoValue;
using kernelgen::Node;
using kernelgen::Space;

namespace {

std::string memory_text(Space space, uint32_t ref, int64_t at) {
  const char* name = space == Space::kBuffer   ? "b"
                     : space == Space::kLocal  ? "local"
                     : space == Space::kShared ? "shared"
                                               : "scratch";
  return name + (space == Space::kScratch ? "" : std::to_string(ref)) + "[" + std::to_string(at) +
         "]";
}

}  // namespace

TreeArray* TreeRun::array(Space space, uint32_t ref, uint32_t item) {
  if (space == Space::kShared) return ref < shared_.size() ? &shared_[ref] : nullptr;
  return ref < locals_.size() && item < locals_[ref].size() ? &locals_[ref][item] : nullptr;
}

Lane TreeRun::read_buffer(uint32_t ref, DType type, int64_t at, uint32_t item) {
  TreeBuffer& b = buffers_[buffer_of_[ref]];
  if (at < 0 || at >= static_cast<int64_t>(b.elements.size()) || type != b.type) {
    fact("loads " + memory_text(Space::kBuffer, ref, at) + ", which is outside of it");
    return zero();
  }
  const size_t i = static_cast<size_t>(at);
  const char* race = b.written ? b.touches.load(i, agent(item)) : nullptr;
  if (race != nullptr) fact(std::string(race) + ": " + memory_text(Space::kBuffer, ref, at));
  return b.elements[i];
}

Lane TreeRun::read(Space space, uint32_t ref, DType type, int64_t at, uint32_t item) {
  if (space == Space::kBuffer) return read_buffer(ref, type, at, item);
  if (space == Space::kScratch) {
    if (!scratch_.inside(type, at))
      return fact("loads " + memory_text(space, 0, at) + ", which is outside of it"), zero();
    if (items_ > 1) {
      const char* race =
          scratch_.touches.load(static_cast<size_t>(at) * kernelgen::size_of(type), agent(item));
      if (race != nullptr) fact(std::string(race) + ": " + memory_text(space, 0, at));
    }
    return scratch_.load(type, at);
  }
  TreeArray* a = array(space, ref, item);
  if (a == nullptr || at < 0 || at >= static_cast<int64_t>(a->elements.size()) || a->type != type) {
    return fact("loads " + memory_text(space, ref, at) + ", which is outside of it"), zero();
  }
  const char* race = space == Space::kShared
                         ? a->touches.load(static_cast<size_t>(at), agent_in_group(item))
                         : nullptr;
  if (race != nullptr) fact(std::string(race) + ": " + memory_text(space, ref, at));
  return a->elements[static_cast<size_t>(at)];
}

void TreeRun::write_buffer(uint32_t ref, DType type, int64_t at, Lane x, uint32_t item) {
  TreeBuffer& b = buffers_[buffer_of_[ref]];
  const auto where = [&] { return memory_text(Space::kBuffer, ref, at); };
  if (at < 0 || at >= static_cast<int64_t>(b.elements.size()) || type != b.type)
    return fact("stores to " + where() + ", which is outside of it");
  if (!b.written) return fact("stores to " + where() + ", which the tree does not name as written");
  if (!x.known) fact("stores what is not known to " + where());
  const size_t i = static_cast<size_t>(at);
  if (!b.rewritten && b.touches.stored_by(i, agent(item)))
    fact("stores " + where() + " a second time");
  if (const char* race = b.touches.store(i, agent(item)); race != nullptr)
    fact(std::string(race) + ": " + where());
  b.elements[i] = x;
  b.stored[i] = true;
}

void TreeRun::write(Space space, uint32_t ref, DType type, int64_t at, Lane x, uint32_t item) {
  if (type == TENON_PRED) x.value.i = x.value.i != 0;
  if (space == Space::kBuffer) return write_buffer(ref, type, at, x, item);
  if (space == Space::kScratch) {
    if (!scratch_.inside(type, at))
      return fact("stores to " + memory_text(space, 0, at) + ", which is outside of it");
    if (items_ > 1) {
      const char* race =
          scratch_.touches.store(static_cast<size_t>(at) * kernelgen::size_of(type), agent(item));
      if (race != nullptr) fact(std::string(race) + ": " + memory_text(space, 0, at));
    }
    return scratch_.store(type, at, x);
  }
  TreeArray* a = array(space, ref, item);
  if (a == nullptr || at < 0 || at >= static_cast<int64_t>(a->elements.size()) || a->type != type) {
    return fact("stores to " + memory_text(space, ref, at) + ", which is outside of it");
  }
  const char* race = space == Space::kShared
                         ? a->touches.store(static_cast<size_t>(at), agent_in_group(item))
                         : nullptr;
  if (race != nullptr) fact(std::string(race) + ": " + memory_text(space, ref, at));
  a->elements[static_cast<size_t>(at)] = x;
}

int64_t TreeRun::address(const Node& n, uint32_t item, uint32_t l) {
  if (lanes(n.args[0]) > 1) {
    const Lane at = lane(n.args[0], item, l);
    if (!at.known) fact("an address is not known");
    return at.known ? at.value.i : 0;
  }
  const int64_t base = number(n.args[0], item, "an address");
  return base +
         static_cast<int64_t>(l) * (n.stride == kNoValue ? 1 : number(n.stride, item, "a stride"));
}

void TreeRun::load(const Node& n) {
  each_item([&](uint32_t k) {
    for (uint32_t l = 0; l < lanes(n.dst); ++l) {
      const bool masked =
          n.args[1] != kNoValue && !condition(n.args[1], k, l, "the mask of a load");
      Lane x = n.args[2] == kNoValue ? zero() : lane(n.args[2], k, l);
      if (!masked) x = read(n.space, n.ref, n.type, address(n, k, l), k);
      set(n.dst, k, l, x);
    }
  });
}

void TreeRun::store(const Node& n) {
  each_item([&](uint32_t k) {
    for (uint32_t l = 0; l < lanes(n.args[1]); ++l) {
      if (n.args[2] != kNoValue && !condition(n.args[2], k, l, "the mask of a store")) continue;
      write(n.space, n.ref, n.type, address(n, k, l), lane(n.args[1], k, l), k);
    }
  });
}

void TreeRun::declare_local(const Node& n) {
  if (locals_.size() <= n.ref) locals_.resize(n.ref + 1);
  locals_[n.ref].resize(items_);
  each_item([&](uint32_t k) {
    TreeArray& a = locals_[n.ref][k];
    a.type = n.type;
    a.elements.assign(static_cast<size_t>(n.bits), Lane{});
  });
}

}  // namespace tenon::interpreter
