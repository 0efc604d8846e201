// Sums over short groups of a contiguous axis and over axes outside it: a norm over groups of
// channels, where channels are innermost.
//
// A group of channels is shorter than a vector, and from one point to the next it moves by a whole
// line of channels. So a Reduce over (points, channels of the group) becomes two. The first has the
// channels of all groups as one axis, which vectors run along, and reduces the points of one block;
// threads share the blocks. The second merges blocks and the channels of a group. The cut depends
// only on sizes, so results do not depend on the number of threads.
//
// What is applied to every channel of a group afterwards (its mean, its factor) is written out per
// channel, so that the stage which applies it loads vectors of it.
#include <optional>

#include "tenon/kernelgen/fuse/fuse_internal.h"

namespace tenon::kernelgen {
namespace {

constexpr int64_t kMostBlocks = 32;
constexpr int64_t kFewPoints = 16;  // fewer points per channel do not pay for a second stage
constexpr int64_t kMostTable = 1 << 14;

class Strided {
 public:
  Strided(Kernel& k, const Target& target) : k_(k), p_(k.pool), target_(target) {}

  void run() {
    for (size_t i = 0; i < k_.stages.size(); ++i) {
      const std::optional<Cut> cut = find_cut(k_.stages[i]);
      if (!cut) continue;
      divisors_.push_back(cut->length);
      // Longer groups fill vectors themselves.
      if (cut->length >= target_.vector_bytes) continue;
      Stage lines = partial(k_.stages[i], *cut);
      k_.stages.insert(k_.stages.begin() + static_cast<std::ptrdiff_t>(i), std::move(lines));
      groups_.push_back(cut->length);
      ++i;
    }
    if (divisors_.empty()) return;
    for (size_t i = 0; i < k_.stages.size(); ++i) i += write_out(i);
  }

 private:
  // The joined axis = group * length + place. `outer` = block * points + point.
  struct Cut {
    uint32_t group = 0, place = 0, outer = 0;
    int64_t length = 0, blocks = 1;
  };

  // An element's offset in multiples of axes; false: it has no such form.
  bool strides(uint32_t buffer, std::span<const ExprId> at, const std::vector<uint32_t>& axes,
               std::vector<ExprId>* out) {
    const std::vector<ExprId>& steps = k_.buffers[buffer].strides;
    ExprId offset = p_.integer(0), rest = kNone;
    for (size_t d = 0; d < steps.size(); ++d) offset = p_.add(offset, p_.mul(at[d], steps[d]));
    return p_.affine(offset, axes, out, &rest);
  }

  std::optional<Cut> find_cut(const Stage& s) {
    if (s.kind != StageKind::kReduce || s.reduce.size() < 2 || s.space.empty()) return {};
    std::vector<uint32_t> axes = s.space;
    axes.insert(axes.end(), s.reduce.begin(), s.reduce.end());
    std::vector<std::vector<ExprId>> all;
    for (ExprId l : loads_of_steps(s)) {
      const auto uses = [&](uint32_t a) { return p_.uses_axis(l, a); };
      if (std::ranges::none_of(s.reduce, uses)) continue;
      const std::vector<ExprId> at(p_.args(l).begin() + 2, p_.args(l).end());
      if (!strides(p_.at(l).ref, at, axes, &all.emplace_back())) return {};
    }
    if (all.empty()) return {};
    for (size_t place = s.space.size(); place < axes.size(); ++place) {
      for (size_t group = 0; group < s.space.size(); ++group) {
        if (const auto cut = cut_of(s, axes, all, group, place)) return cut;
      }
    }
    return {};
  }

  std::vector<ExprId> loads_of_steps(const Stage& s) const {
    std::vector<ExprId> out;
    for (ExprId e : s.step) p_.loads(e, &out);
    return out;
  }

  std::optional<Cut> cut_of(const Stage& s, const std::vector<uint32_t>& axes,
                            const std::vector<std::vector<ExprId>>& all, size_t group,
                            size_t place) {
    const auto length = p_.value(p_.axes()[axes[place]].extent);
    if (!length || *length < 2) return {};
    for (const std::vector<ExprId>& c : all) {
      if (!p_.is_const(c[place], 1) || !p_.is_const(c[group], *length)) return {};
    }
    Cut cut{axes[group], axes[place], ~0u, *length, 1};
    int64_t points = 1, widest = 0;
    for (size_t i = s.space.size(); i < axes.size(); ++i) {
      if (i == place) continue;
      const int64_t n = std::max<int64_t>(1, p_.likely(p_.axes()[axes[i]].extent));
      points = points > INT32_MAX / n ? INT32_MAX : points * n;
      const int64_t stride = p_.likely(all[0][i]);
      if (stride > widest) cut.outer = axes[i], widest = stride;
    }
    const int64_t line = *length * std::max<int64_t>(1, p_.likely(p_.axes()[cut.group].extent));
    if (points < kFewPoints || cut.outer == ~0u || line * size_of(TENON_F32) < target_.vector_bytes)
      return {};
    cut.blocks = blocks_of(p_.axes()[cut.outer].extent, points);
    return cut;
  }

  // Blocks of equal length, so that they need no guards, and none of few points.
  int64_t blocks_of(ExprId extent, int64_t points) const {
    const int64_t n = std::max<int64_t>(1, p_.value(extent).value_or(1));
    int64_t blocks = std::min({n, kMostBlocks, points / kFewPoints});
    while (n % blocks != 0) --blocks;
    return blocks;
  }

  // Reduces each channel over the points of a block; afterwards s merges what this stores.
  Stage partial(Stage& s, const Cut& cut) {
    Stage out;
    out.kind = StageKind::kReduce;
    out.origins = s.origins;
    out.init = s.init;
    out.merge = s.merge;
    std::unordered_map<ExprId, ExprId> own;
    std::vector<ExprId> dims, index, at;
    const auto add = [&](ExprId extent, ExprId read) {
      out.space.push_back(p_.add_axis(extent));
      dims.push_back(extent);
      index.push_back(p_.axis(out.space.back()));
      at.push_back(read);
      return index.back();
    };
    for (uint32_t a : s.space) {
      if (a != cut.group) own[p_.axis(a)] = add(p_.axes()[a].extent, p_.axis(a));
    }
    const ExprId length = p_.integer(cut.length), blocks = p_.integer(cut.blocks);
    // Nothing runs along an axis of one point.
    std::vector<uint32_t> merged;
    ExprId block = p_.integer(0);
    if (cut.blocks > 1) {
      merged.push_back(p_.add_axis(blocks));
      block = add(blocks, p_.axis(merged[0]));
    }
    const ExprId line = add(p_.mul(p_.axes()[cut.group].extent, length),
                            p_.add(p_.mul(p_.axis(cut.group), length), p_.axis(cut.place)));
    own[p_.axis(cut.group)] = p_.floordiv(line, length);
    own[p_.axis(cut.place)] = p_.mod(line, length);
    for (uint32_t a : s.reduce) {
      if (a == cut.place) continue;
      const ExprId extent = p_.axes()[a].extent;
      const ExprId points = a == cut.outer ? p_.floordiv(extent, blocks) : extent;
      if (p_.is_const(points, 1)) {
        own[p_.axis(a)] = a == cut.outer ? block : p_.integer(0);
        continue;
      }
      out.reduce.push_back(p_.add_axis(points));
      const ExprId inside = p_.axis(out.reduce.back());
      own[p_.axis(a)] = a == cut.outer ? p_.add(p_.mul(block, points), inside) : inside;
    }
    merge_stored(s, &out, own, dims, index, at);
    merged.push_back(cut.place);
    s.reduce = std::move(merged);
    return out;
  }

  void merge_stored(Stage& s, Stage* out, const std::unordered_map<ExprId, ExprId>& own,
                    const std::vector<ExprId>& dims, const std::vector<ExprId>& index,
                    const std::vector<ExprId>& at) {
    std::unordered_map<ExprId, ExprId> loaded;
    const auto n = static_cast<uint32_t>(s.init.size());
    for (uint32_t i = 0; i < n; ++i) {
      const DType type = p_.type(s.init[i]);
      out->step.push_back(p_.substitute(s.step[i], own));
      out->final.push_back(p_.state(i, type));
      const uint32_t id = temp(type, dims);
      out->store.push_back({id, index, kNone});
      loaded[p_.state(n + i, type)] = p_.load(id, type, at);
    }
    for (uint32_t i = 0; i < n; ++i) s.step[i] = p_.substitute(s.merge[i], loaded);
  }

  // Kept: merging waits for all blocks, and vectors load what is written out.
  uint32_t temp(DType type, const std::vector<ExprId>& dims) {
    Buffer b{type, dims, std::vector<ExprId>(dims.size()), kNone, Role::kTemp, -1, 0, true};
    ExprId stride = p_.integer(1);
    for (size_t d = dims.size(); d-- > 0;) {
      b.strides[d] = stride;
      stride = p_.mul(stride, dims[d]);
    }
    k_.buffers.push_back(std::move(b));
    return static_cast<uint32_t>(k_.buffers.size() - 1);
  }

  // ---- One element per channel ----

  // Writes the tables that a stage reads once per group out per channel, in stages before it;
  // returns how many.
  size_t write_out(size_t reader) {
    std::unordered_map<ExprId, ExprId> map;
    std::vector<Stage> added;
    const Stage s = k_.stages[reader];
    if (s.kind != StageKind::kMap && s.kind != StageKind::kReduce) return 0;
    const auto [group, place] = s.kind == StageKind::kMap ? line_of(s) : kNoLine;
    for (ExprId l : loads_of(p_, s)) {
      if (map.count(l) || k_.buffers[p_.at(l).ref].keep || p_.arg(l, 0) != kNone) continue;
      std::vector<uint32_t> axes;
      for (uint32_t a : s.space) {
        if (p_.uses_axis(l, a) || (a == place && p_.uses_axis(l, group))) axes.push_back(a);
      }
      const bool by_group = place != ~0u && contains(axes, place) && !p_.uses_axis(l, place);
      if ((!by_group && !divides_by_group(l)) || !read_often(s, l, axes)) continue;
      auto [it, fresh] = tables_.try_emplace(l, 0);
      if (fresh) added.push_back(table(s, l, axes, &it->second));
      std::vector<ExprId> at;
      for (uint32_t a : axes) at.push_back(p_.axis(a));
      map[l] = p_.load(it->second, p_.type(l), at);
    }
    if (map.empty()) return 0;
    rewrite(p_, k_.stages[reader], map);
    k_.stages.insert(k_.stages.begin() + static_cast<std::ptrdiff_t>(reader),
                     std::make_move_iterator(added.begin()), std::make_move_iterator(added.end()));
    return added.size();
  }

  using Line = std::pair<uint32_t, uint32_t>;
  static constexpr Line kNoLine{~0u, ~0u};

  // The axes of a stage that number groups and the places in one, if it stores line by line.
  Line line_of(const Stage& s) {
    std::vector<ExprId> c;
    if (s.store.size() != 1 || s.store[0].guard != kNone) return kNoLine;
    if (!strides(s.store[0].buffer, s.store[0].index, s.space, &c)) return kNoLine;
    for (size_t place = 0; place < c.size(); ++place) {
      const auto length = p_.value(p_.axes()[s.space[place]].extent);
      if (!length || !contains_length(groups_, *length) || !p_.is_const(c[place], 1)) continue;
      for (size_t group = 0; group < c.size(); ++group) {
        if (p_.is_const(c[group], *length)) return {s.space[group], s.space[place]};
      }
    }
    return kNoLine;
  }

  static bool contains_length(const std::vector<int64_t>& list, int64_t n) {
    return std::ranges::find(list, n) != list.end();
  }

  // A load at `axis // length`.
  bool divides_by_group(ExprId load) const {
    bool divides = false;
    for (ExprId at : p_.args(load).subspan(2)) {
      const Expr& x = p_.at(at);
      if (p_.is_const(at) || x.kind == X::kAxis) continue;
      if (x.kind != X::kOp || x.op != kFloorDiv || p_.at(p_.arg(at, 0)).kind != X::kAxis)
        return false;
      const auto by = p_.value(p_.arg(at, 1));
      if (!by || !contains_length(divisors_, *by)) return false;
      divides = true;
    }
    return divides;
  }

  // Whether a stage reads each element of a table along these axes many times.
  bool read_often(const Stage& s, ExprId load, const std::vector<uint32_t>& axes) const {
    int64_t points = 1, uses = 1;
    for (const auto* list : {&s.space, &s.reduce}) {
      for (uint32_t a : *list) {
        if (list == &s.reduce && p_.uses_axis(load, a)) return false;
        const int64_t n = std::max<int64_t>(1, p_.likely(p_.axes()[a].extent));
        int64_t& count = contains(axes, a) ? points : uses;
        count = count > INT32_MAX / n ? INT32_MAX : count * n;
      }
    }
    return uses >= kFewPoints && points <= kMostTable;
  }

  Stage table(const Stage& s, ExprId load, const std::vector<uint32_t>& axes, uint32_t* id) {
    Stage out;
    out.origins = s.origins;
    std::vector<ExprId> dims, index;
    std::unordered_map<ExprId, ExprId> own;
    for (uint32_t a : axes) {
      dims.push_back(p_.axes()[a].extent);
      out.space.push_back(p_.add_axis(dims.back()));
      index.push_back(p_.axis(out.space.back()));
      own[p_.axis(a)] = index.back();
    }
    *id = temp(p_.type(load), dims);
    out.value = {p_.substitute(load, own)};
    out.store = {{*id, index, kNone}};
    return out;
  }

  Kernel& k_;
  Pool& p_;
  const Target& target_;
  std::vector<int64_t> divisors_;                // lengths of the groups that are reduced
  std::vector<int64_t> groups_;                  // lengths of the groups that were cut
  std::unordered_map<ExprId, uint32_t> tables_;  // by load: its temp
};

}  // namespace

void vectorise_strided_reductions(Kernel& program, const Target& target) {
  if (target.dialect != Dialect::kCpp || target.vector_bytes == 0) return;
  Strided(program, target).run();
}

}  // namespace tenon::kernelgen
