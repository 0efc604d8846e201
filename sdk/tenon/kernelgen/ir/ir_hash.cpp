#include <unordered_map>

#include "tenon/kernelgen/ir/ir.h"

namespace tenon::kernelgen {
namespace {

uint64_t mix(uint64_t h, uint64_t v) {
  h = (h ^ v) * 0x9fb21c651e98df25ull;
  h ^= h >> 35;
  h *= 0xd6e8feb86659fd93ull;
  return h ^ (h >> 32);
}

// Names axes, buffers and extents by their first appearance, so that numbering does not matter.
class Hasher {
 public:
  explicit Hasher(const Kernel& k) : k_(k) {}

  Hash128 run() {
    word(k_.stages.size());
    list(k_.lead, axes_);
    for (const Stage& s : k_.stages) stage(s);
    return h_;
  }

  std::vector<uint32_t> buffer_order() const { return by_name(buffers_); }
  std::vector<uint32_t> extent_order() const { return by_name(extents_); }

 private:
  using Names = std::unordered_map<uint32_t, uint64_t>;

  static std::vector<uint32_t> by_name(const Names& names) {
    std::vector<uint32_t> out(names.size());
    for (const auto& [id, name] : names) out[name] = id;
    return out;
  }

  void word(uint64_t v) { add_word(&h_, v); }
  void word(Hash128 v) {
    word(v.lo);
    word(v.hi);
  }

  uint64_t axis(uint32_t id) {
    auto [it, fresh] = axes_.try_emplace(id, axes_.size());
    const uint64_t name = it->second;
    if (fresh) axis_extent_[name] = expr(k_.pool.axes()[id].extent);
    return name;
  }

  uint64_t buffer(uint32_t id) {
    auto [it, fresh] = buffers_.try_emplace(id, buffers_.size());
    const uint64_t name = it->second;
    if (fresh) {
      const Buffer& b = k_.buffers[id];
      word(uint64_t{b.panel} << 32 | uint64_t{b.type} << 8 | static_cast<uint64_t>(b.role));
      for (ExprId e : b.dims) word(expr(e));
      for (ExprId e : b.strides) word(expr(e));
      word(expr(b.offset));
      word(b.alias_of < 0 ? ~0ull : buffer(static_cast<uint32_t>(b.alias_of)));
    }
    return name;
  }

  // Range and hint are part of the kernel: schedules and index widths depend on them.
  uint64_t extent(uint32_t ordinal) {
    auto [it, fresh] = extents_.try_emplace(ordinal, extents_.size());
    const uint64_t name = it->second;
    if (fresh) {
      const Extent& info = k_.pool.extents()[ordinal];
      for (int64_t fact : {info.lo, info.hi, info.multiple_of, info.hint})
        word(static_cast<uint64_t>(fact));
    }
    return name;
  }

  void list(const std::vector<uint32_t>& ids, Names&) {
    word(ids.size());
    for (uint32_t a : ids) {
      word(axis(a));
      word(axis_extent_[axes_[a]]);
    }
  }
  void list(const std::vector<ExprId>& es) {
    word(es.size());
    for (ExprId e : es) word(expr(e));
  }

  Hash128 expr(ExprId e) {
    if (e == kNone) return {1, 2};
    if (auto it = memo_.find(e); it != memo_.end()) return it->second;
    const Expr& x = k_.pool.at(e);
    uint64_t ref = x.ref;
    if (x.kind == X::kAxis) ref = axis(x.ref);
    if (x.kind == X::kLoad) ref = buffer(x.ref);
    if (x.kind == X::kExtent) ref = extent(x.ref);
    const uint64_t head = static_cast<uint64_t>(x.kind) << 32 | uint64_t{x.op} << 16 | x.type;
    Hash128 r{mix(mix(head, ref), static_cast<uint64_t>(x.bits)),
              mix(mix(head + 77, ref), ~static_cast<uint64_t>(x.bits))};
    // In order, also for operations that commute: what a kernel reads first decides the order of
    // its arguments, and kernels with one hash share code.
    Hash128 list{};
    for (ExprId a : k_.pool.args(e)) {
      const Hash128 h = expr(a);
      list.lo = mix(list.lo, h.lo);
      list.hi = mix(list.hi, h.hi);
    }
    r.lo = mix(r.lo, list.lo);
    r.hi = mix(r.hi, list.hi);
    memo_.emplace(e, r);
    return r;
  }

  void stage(const Stage& s) {
    word(static_cast<uint64_t>(s.kind) | uint64_t{s.panel} << 8 | uint64_t{s.from_end} << 40);
    list(s.space, axes_);
    list(s.reduce, axes_);
    list(s.fill, axes_);
    word(expr(s.a));
    word(expr(s.b));
    list(s.value);
    list(s.init);
    list(s.step);
    list(s.merge);
    list(s.final);
    for (const View& v : s.store) {
      word(buffer(v.buffer));
      list(v.index);
      word(expr(v.guard));
    }
  }

  const Kernel& k_;
  Hash128 h_{0x6a09e667f3bcc908ull, 0xbb67ae8584caa73bull};
  Names axes_, buffers_, extents_;
  std::unordered_map<uint64_t, Hash128> axis_extent_;
  std::unordered_map<ExprId, Hash128> memo_;
};

}  // namespace

void add_word(Hash128* hash, uint64_t word) {
  hash->lo = mix(hash->lo + 0x243f6a8885a308d3ull, word);
  hash->hi = mix(hash->hi ^ 0x13198a2e03707344ull, word + 0x9e3779b97f4a7c15ull);
}

Hash128 structural_hash(const Kernel& kernel) {
  return Hasher(kernel).run();
}

Hash128 structural_hash(const Kernel& kernel, std::vector<uint32_t>* buffer_order,
                        std::vector<uint32_t>* extent_order) {
  Hasher hasher(kernel);
  const Hash128 hash = hasher.run();
  *buffer_order = hasher.buffer_order();
  *extent_order = hasher.extent_order();
  return hash;
}

}  // namespace tenon::kernelgen
