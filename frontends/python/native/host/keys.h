// Maps from a few words to anything. A look-up allocates nothing: it takes a span of words.
#ifndef FRONTENDS_PYTHON_NATIVE_HOST_KEYS_H_
#define FRONTENDS_PYTHON_NATIVE_HOST_KEYS_H_

#include <algorithm>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace tenon::python {

using Key = std::vector<uint64_t>;
using Words = std::span<const uint64_t>;

struct KeyHash {
  using is_transparent = void;
  size_t operator()(Words words) const {
    uint64_t hash = words.size();
    for (const uint64_t word : words) {
      hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
      hash ^= hash >> 32;
    }
    return hash;
  }
};

struct KeyEqual {
  using is_transparent = void;
  bool operator()(Words a, Words b) const { return std::ranges::equal(a, b); }
};

template <class T>
using KeyMap = std::unordered_map<Key, T, KeyHash, KeyEqual>;

}  // namespace tenon::python

#endif
