#include "tests/interpreter/tree_memory.h"

namespace tenon::interpreter {

const char* Touches::load(size_t at, const Agent& agent) {
  Touch& t = list_[at];
  const bool race = t.stored && !ordered(t.store, agent);
  t.many = t.loaded && others(t, agent);
  t.load = agent;
  t.loaded = true;
  return race ? "loads what another item stores" : nullptr;
}

const char* Touches::store(size_t at, const Agent& agent) {
  Touch& t = list_[at];
  const bool twice = t.stored && !ordered(t.store, agent);
  const bool read = t.loaded && others(t, agent);
  t.store = agent;
  t.stored = true;
  return twice  ? "stores what another item stores"
         : read ? "stores what another item loads"
                : nullptr;
}

Lane Scratch::load(DType type, int64_t at) const {
  const size_t size = kernelgen::size_of(type), from = static_cast<size_t>(at) * size;
  bool known = true;
  for (size_t i = from; i < from + size; ++i)
    known = known && (stored_in_[i] == 1 || stored_in_[i] == item_);
  return {read_element(type, bytes_.data() + from), known};
}

void Scratch::store(DType type, int64_t at, Lane lane) {
  const size_t size = kernelgen::size_of(type), from = static_cast<size_t>(at) * size;
  write_element(type, bytes_.data() + from, lane.value);
  for (size_t i = from; i < from + size; ++i) stored_in_[i] = lane.known ? item_ : 0;
}

}  // namespace tenon::interpreter
