#include "tenon/kernelgen/ir/general.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "tenon/kernelgen/ir/kernel_copy.h"

namespace tenon::kernelgen {
namespace {

struct Access {
  uint32_t buffer;
  std::vector<ExprId> index;
};

std::vector<const std::vector<ExprId>*> value_lists(const Stage& s) {
  return {&s.value, &s.init, &s.step, &s.merge, &s.final};
}
std::vector<const std::vector<uint32_t>*> axis_lists(const Kernel& k) {
  std::vector<const std::vector<uint32_t>*> out = {&k.lead};
  for (const Stage& s : k.stages) out.insert(out.end(), {&s.space, &s.reduce, &s.fill});
  return out;
}

// Every access of a kernel, and which axes are used for more than addressing.
class Uses {
 public:
  explicit Uses(const Kernel& k) : pinned(k.pool.axes().size()), k_(k) {
    k.pool.begin_walk();
    for (const Stage& s : k.stages) {
      value(s.a);
      value(s.b);
      for (const auto* list : value_lists(s)) {
        for (ExprId e : *list) value(e);
      }
      for (const View& v : s.store) {
        accesses.push_back({v.buffer, v.index});
        value(v.guard);
        for (ExprId e : v.index) place(e);
      }
    }
  }

  std::vector<Access> accesses;
  std::vector<bool> pinned;  // by axis: values are computed from it

 private:
  void place(ExprId e) {
    if (k_.pool.at(e).kind != X::kAxis) value(e);
  }
  void value(ExprId e) {
    if (e == kNone) return;
    const Expr& x = k_.pool.at(e);
    if (x.kind == X::kAxis) pinned[x.ref] = true;
    if (!k_.pool.first_visit(e)) return;
    const std::span<const ExprId> args = k_.pool.args(e);
    if (x.kind != X::kLoad) {
      for (ExprId a : args) value(a);
      return;
    }
    accesses.push_back({x.ref, {args.begin() + 2, args.end()}});
    value(args[0]);
    value(args[1]);
    for (ExprId a : args.subspan(2)) place(a);
  }

  const Kernel& k_;
};

// Finds axes and dims that are traversed as one. A run is named by its first axis or dim.
class Runs {
 public:
  Runs(Kernel& k, const Uses& uses) : k_(k), uses_(uses) {
    find_pairs();
    while (drop_broken()) {
    }
    for (const Access& a : uses_.accesses) {
      for (size_t d = 0; d + 1 < a.index.size(); ++d) {
        if (joined(a, d)) inner_dims_.insert({a.buffer, d + 1});
      }
    }
  }

  bool continues(uint32_t axis) const { return follower_.contains(axis); }
  bool continues(uint32_t buffer, size_t dim) const { return inner_dims_.contains({buffer, dim}); }
  // The product of the extents of the run.
  ExprId extent(uint32_t axis) {
    ExprId n = k_.pool.axes()[axis].extent;
    for (auto it = next_.find(axis); it != next_.end(); it = next_.find(it->second)) {
      n = k_.pool.mul(n, k_.pool.axes()[it->second].extent);
    }
    return n;
  }

 private:
  const Pool& pool() const { return k_.pool; }
  bool is_axis(ExprId e, uint32_t* axis) const {
    if (e == kNone || pool().at(e).kind != X::kAxis) return false;
    return *axis = pool().at(e).ref, true;
  }

  void find_pairs() {
    for (const auto* list : axis_lists(k_)) {
      for (size_t i = 0; i + 1 < list->size(); ++i) {
        const uint32_t a = (*list)[i], b = (*list)[i + 1];
        if (uses_.pinned[a] || uses_.pinned[b] || !together(a, b)) continue;
        next_[a] = b;
        follower_.insert(b);
      }
    }
  }
  bool together(uint32_t a, uint32_t b) const {
    for (const auto* list : axis_lists(k_)) {
      const auto at = std::find(list->begin(), list->end(), a);
      const bool has = at != list->end() && at + 1 != list->end() && at[1] == b;
      if (!has && (at != list->end() || std::find(list->begin(), list->end(), b) != list->end()))
        return false;
    }
    return true;
  }
  bool joined(const Access& access, size_t d) const {
    uint32_t a = 0, b = 0;
    if (d + 1 >= access.index.size() || !is_axis(access.index[d], &a) ||
        !is_axis(access.index[d + 1], &b))
      return false;
    const auto it = next_.find(a);
    return it != next_.end() && it->second == b;
  }
  // Whether both dims of the access are traversed as one.
  bool contiguous(const Access& access, size_t d) {
    const Buffer& buffer = k_.buffers[access.buffer];
    uint32_t b = 0;
    if (!is_axis(access.index[d + 1], &b)) return false;
    const ExprId inner = k_.pool.axes()[b].extent;
    return buffer.dims[d + 1] == inner &&
           buffer.strides[d] == k_.pool.mul(buffer.strides[d + 1], inner);
  }
  void part(uint32_t a) {
    follower_.erase(next_[a]);
    next_.erase(a);
  }
  // Splits a pair that some access does not traverse as one; true if there was one.
  bool drop_broken() {
    std::set<std::pair<uint32_t, size_t>> dims;
    for (const Access& a : uses_.accesses) {
      for (size_t d = 0; d < a.index.size(); ++d) {
        if (joined(a, d)) dims.insert({a.buffer, d});
      }
    }
    for (const Access& access : uses_.accesses) {
      for (size_t d = 0; d < access.index.size(); ++d) {
        uint32_t a = 0;
        if (!is_axis(access.index[d], &a)) continue;
        const bool first = next_.contains(a), second = follower_.contains(a);
        if (first && !(joined(access, d) && contiguous(access, d))) return part(a), true;
        if (second && (d == 0 || !joined(access, d - 1))) return part_before(a), true;
        // Another access joins these dims, but the axes of this one are not joined.
        if (!first && dims.contains({access.buffer, d})) return part_at(access.buffer, d), true;
      }
      for (size_t d = 0; d < access.index.size(); ++d) {
        if (dims.contains({access.buffer, d}) && !joined(access, d))
          return part_at(access.buffer, d), true;
      }
    }
    return false;
  }
  void part_before(uint32_t b) {
    for (const auto& [a, follower] : next_) {
      if (follower == b) return part(a);
    }
  }
  void part_at(uint32_t buffer, size_t d) {
    for (const Access& a : uses_.accesses) {
      if (a.buffer == buffer && joined(a, d)) return part(pool().at(a.index[d]).ref);
    }
  }

  Kernel& k_;
  const Uses& uses_;
  std::map<uint32_t, uint32_t> next_;  // the axis that continues this one
  std::set<uint32_t> follower_;
  std::set<std::pair<uint32_t, size_t>> inner_dims_;
};

// Sizes that must be equal: each set holds axes and dims that index each other.
class Sizes {
 public:
  uint32_t add(ExprId size) {
    parent_.push_back(static_cast<uint32_t>(parent_.size()));
    size_.push_back(size);
    return parent_.back();
  }
  uint32_t root(uint32_t i) { return parent_[i] == i ? i : parent_[i] = root(parent_[i]); }
  void join(uint32_t a, uint32_t b) {
    if (size_[a] == size_[b]) parent_[root(b)] = root(a);
  }
  ExprId size(uint32_t i) const { return size_[i]; }
  uint32_t count() const { return static_cast<uint32_t>(size_.size()); }

 private:
  std::vector<uint32_t> parent_;
  std::vector<ExprId> size_;
};

class Generaliser : private KernelCopy {
 public:
  Generaliser(Kernel& from, General* out)
      : KernelCopy(from, &out->kernel),
        k_(from),
        p_(from.pool),
        out_(*out),
        uses_(from),
        runs_(from, uses_) {
    name_sizes();  // All products of sizes are made here: what is being copied must not grow.
  }

  void run() {
    lead(k_.lead);
    for (const Stage& s : k_.stages) stage(s);
    for (size_t b = 0; b < to_.buffers.size(); ++b) share(b);
    out_.was_open = open_;
  }

 private:
  // A temp stays in the memory of an output if both still have the same dims. If only one of them
  // had its dims merged, their elements would be in different places.
  void share(size_t temp) {
    const int32_t alias = k_.buffers[to_.buffer_origin[temp]].alias_of;
    if (alias < 0) return;
    const uint32_t out = buffer(static_cast<uint32_t>(alias));
    if (to_.buffers[temp].dims == to_.buffers[out].dims)
      to_.buffers[temp].alias_of = static_cast<int32_t>(out);
  }

  bool keeps(uint32_t axis) const {
    return !runs_.continues(axis) &&
           (!may_drop_ || uses_.pinned[axis] || !p_.is_const(sizes_.size(axis_size_[axis]), 1));
  }
  bool keeps(uint32_t b, size_t d) const {
    return !runs_.continues(b, d) && !dropped_.contains({b, d});
  }

  void name_sizes() {
    may_drop_ = std::none_of(k_.stages.begin(), k_.stages.end(),
                             [](const Stage& s) { return s.kind == StageKind::kContract; });
    for (uint32_t a = 0; a < p_.axes().size(); ++a)
      axis_size_.push_back(sizes_.add(runs_.extent(a)));
    for (uint32_t b = 0; b < k_.buffers.size(); ++b) {
      name_dims(b);
      dense_order_.push_back(dense_order(b));
    }
    for (const Access& a : uses_.accesses) {
      for (size_t d = 0; d < a.index.size(); ++d) {
        const Expr& x = p_.at(a.index[d]);
        if (x.kind == X::kAxis && keeps(x.ref) && keeps(a.buffer, d))
          sizes_.join(axis_size_[x.ref], dim_size_[a.buffer][d]);
      }
    }
  }
  void name_dims(uint32_t b) {
    const Buffer& buffer = k_.buffers[b];
    std::vector<uint32_t>& names = dim_size_.emplace_back();
    for (size_t d = 0; d < buffer.dims.size(); ++d) {
      ExprId n = buffer.dims[d];
      for (size_t i = d + 1; i < buffer.dims.size() && runs_.continues(b, i); ++i)
        n = p_.mul(n, buffer.dims[i]);
      names.push_back(sizes_.add(n));
      if (may_drop_ && p_.is_const(n, 1)) dropped_.insert({b, d});
    }
  }

  // One extent for all sizes of a set.
  ExprId extent_of(uint32_t name) {
    const uint32_t root = sizes_.root(name);
    const ExprId size = sizes_.size(root);
    if (p_.is_const(size, 1)) return to_.pool.integer(1);
    if (const auto it = made_.find(root); it != made_.end()) return it->second;
    return made_[root] = make(size);
  }
  ExprId make(ExprId size) {
    out_.sizes.push_back(size_program(p_, size));
    open_ = open_ && is_open(size);
    first_of_size_.try_emplace(size, static_cast<uint32_t>(out_.sizes.size() - 1));
    return new_extent({}, static_cast<uint32_t>(out_.sizes.size() - 1));
  }
  // Whether the size is a symbol of which nothing is known, or a product of such symbols.
  bool is_open(ExprId size) const {
    const Expr& x = p_.at(size);
    if (x.kind == X::kExtent) {
      const Extent& info = p_.extents()[x.ref];
      return info.hi == INT64_MAX && info.multiple_of == 1 && info.hint == 0;
    }
    return x.kind == X::kOp && x.op == TENON_S_MUL && is_open(p_.arg(size, 0)) &&
           is_open(p_.arg(size, 1));
  }

  ExprId axis_extent(uint32_t a) override { return extent_of(axis_size_[a]); }
  ExprId extent(uint32_t ordinal) override {
    const ExprId size = p_.extent(ordinal);
    if (const auto it = first_of_size_.find(size); it != first_of_size_.end())
      return to_.pool.extent(it->second);
    return make(size);
  }
  std::vector<uint32_t> axes(const std::vector<uint32_t>& list) override {
    std::vector<uint32_t> out;
    for (uint32_t a : list) {
      if (keeps(a)) out.push_back(axis(a));
    }
    return out;
  }
  std::vector<ExprId> index(uint32_t b, std::span<const ExprId> at) override {
    std::vector<ExprId> out;
    for (size_t d = 0; d < at.size(); ++d) {
      if (keeps(b, d)) out.push_back(expr(at[d]));
    }
    return out;
  }

  void form(uint32_t b, Buffer* out) override {
    const Buffer& buffer = k_.buffers[b];
    std::map<size_t, ExprId> dense;
    ExprId product = to_.pool.integer(1);
    for (size_t d : dense_order_[b]) {
      dense[d] = product;
      product = to_.pool.mul(product, extent_of(dim_size_[b][d]));
    }
    for (size_t d = 0; d < buffer.dims.size(); ++d) {
      if (!keeps(b, d)) continue;
      out->dims.push_back(extent_of(dim_size_[b][d]));
      out->strides.push_back(dense.contains(d) ? dense[d] : free_size(stride(b, d)));
    }
    out->offset = buffer.offset == kNone ? kNone : free_size(buffer.offset);
  }
  // The stride of the last dim of the run.
  ExprId stride(uint32_t b, size_t d) const {
    const Buffer& buffer = k_.buffers[b];
    while (d + 1 < buffer.dims.size() && runs_.continues(b, d + 1)) ++d;
    return buffer.strides[d];
  }
  // Dims whose strides are the products of the sizes before them, innermost first, whatever their
  // memory order.
  std::vector<size_t> dense_order(uint32_t b) {
    std::vector<size_t> left, out;
    for (size_t d = 0; d < k_.buffers[b].dims.size(); ++d) {
      if (keeps(b, d)) left.push_back(d);
    }
    for (ExprId product = p_.integer(1); !left.empty();) {
      const auto fits = [&](size_t d) { return stride(b, d) == product; };
      const auto next = std::find_if(left.rbegin(), left.rend(), fits);
      if (next == left.rend()) break;
      out.push_back(*next);
      product = p_.mul(product, sizes_.size(dim_size_[b][*next]));
      left.erase(std::next(next).base());
    }
    return out;
  }
  ExprId free_size(ExprId size) {
    if (p_.is_const(size) && p_.at(size).bits <= 1) return to_.pool.integer(p_.at(size).bits);
    const auto [it, fresh] = free_.try_emplace(size, kNone);
    if (fresh) it->second = make(size);
    return it->second;
  }

  Kernel& k_;
  Pool& p_;
  General& out_;
  Uses uses_;
  Runs runs_;
  Sizes sizes_;
  std::vector<uint32_t> axis_size_;
  std::vector<std::vector<uint32_t>> dim_size_;
  std::vector<std::vector<size_t>> dense_order_;
  std::set<std::pair<uint32_t, size_t>> dropped_;
  std::map<uint32_t, ExprId> made_;  // by set
  std::map<ExprId, uint32_t> first_of_size_;
  std::map<ExprId, ExprId> free_;
  bool may_drop_ = false, open_ = true;
};

bool follows_sizes(const Kernel& k) {
  const auto panels = [](const Buffer& b) { return b.panel != 0; };
  const auto bound = [](const Stage& s) { return s.panel != 0 || s.kind == StageKind::kAttention; };
  return std::any_of(k.buffers.begin(), k.buffers.end(), panels) ||
         std::any_of(k.stages.begin(), k.stages.end(), bound);
}

}  // namespace

bool generalise(const Kernel& kernel, General* out) {
  if (follows_sizes(kernel)) return false;
  *out = General{};
  Kernel from = kernel;  // Comparing sizes makes products in its pool.
  Generaliser(from, out).run();
  // With dims of 1 removed, more axes become neighbours: repeat until nothing changes.
  for (bool fewer = true; fewer;) {
    General again;
    Generaliser(out->kernel, &again).run();
    fewer = again.kernel.pool.axes().size() < out->kernel.pool.axes().size();
    if (!fewer) break;
    for (SizeProgram& size : again.sizes) size = size.over(out->sizes);
    for (uint32_t& origin : again.kernel.buffer_origin) origin = out->kernel.buffer_origin[origin];
    again.was_open = out->was_open;
    *out = std::move(again);
  }
  std::string why;
  return verify(out->kernel, &why);
}

}  // namespace tenon::kernelgen
