// Bounds and counts of programs with known sizes, which may be too large for a trace: from the
// pool's intervals, or by visiting the few axes that one index depends on.
#include <algorithm>
#include <optional>

#include "tenon/kernelgen/ir/stages.h"
#include "tenon/kernelgen/verify/index_program.h"
#include "tenon/kernelgen/verify/verify_memory.h"

namespace tenon::kernelgen {
namespace {

constexpr int64_t kMostPoints = 4096;

class Accesses {
 public:
  Accesses(const Kernel& k, const std::vector<bool>& shared, std::string* why)
      : copy_(k), k_(copy_), p_(copy_.pool), shared_(shared), why_(*why) {}

  bool run() {
    std::vector<__int128> stored(k_.buffers.size(), 0);
    std::vector<bool> counted(k_.buffers.size(), true);
    for (stage_ = 0; stage_ < k_.stages.size(); ++stage_) {
      Stage& s = k_.stages[stage_];
      for (ExprId l : loads_of(p_, s)) {
        if (!inside(s, p_.at(l).ref, p_.args(l).subspan(2), p_.arg(l, 0), "reads")) return false;
      }
      for (size_t i = 0; i < s.store.size(); ++i) {
        const View& v = s.store[i];
        if (!inside(s, v.buffer, v.index, v.guard, "stores")) return false;
        if (s.overlay || (s.kind == StageKind::kScatter && i == 1)) continue;
        if (const uint32_t a = idle_axis(s, v); a != ~0u)
          return bad("stores each element of b" + std::to_string(v.buffer) +
                     " at every point of i" + std::to_string(a));
        if (v.guard == kNone) stored[v.buffer] += points(s);
        counted[v.buffer] = counted[v.buffer] && v.guard == kNone && once(s, v);
      }
    }
    return all_stored(stored, counted);
  }

 private:
  bool bad(const std::string& fact) {
    return why_ = "stage " + std::to_string(stage_) + ": " + fact, false;
  }
  std::optional<int64_t> extent(uint32_t axis) const { return p_.value(p_.axes()[axis].extent); }

  // The axes along which results are stored.
  static std::vector<uint32_t> stored_along(const Stage& s) {
    std::vector<uint32_t> axes = s.space;
    if (s.kind == StageKind::kScan) axes.insert(axes.end(), s.reduce.begin(), s.reduce.end());
    if (s.kind == StageKind::kSort || s.kind == StageKind::kScatter)
      axes.insert(axes.end(), s.fill.begin(), s.fill.end());
    return axes;
  }
  __int128 points(const Stage& s) const {
    __int128 n = 1;
    for (uint32_t a : stored_along(s)) n = std::min<__int128>(n * extent(a).value_or(0), INT64_MAX);
    return n;
  }

  bool inside(const Stage& s, uint32_t buffer, std::span<const ExprId> index, ExprId guard,
              const char* verb) {
    for (size_t d = 0; d < index.size(); ++d) {
      const std::optional<int64_t> dim = p_.value(k_.buffers[buffer].dims[d]);
      const Interval r = p_.range(index[d]);
      if (!dim || (r.lo >= 0 && r.hi < *dim)) continue;
      if (leaves(s, index[d], guard, *dim))
        return bad(std::string(verb) + " beyond dim " + std::to_string(d) + " of b" +
                   std::to_string(buffer));
    }
    return true;
  }

  // Whether the index leaves [0, dim) at some point of its axes where the guard surely holds.
  bool leaves(const Stage& s, ExprId index, ExprId guard, int64_t dim) {
    std::vector<uint32_t> axes;
    __int128 n = 1;
    for (const auto* list : {&s.space, &s.reduce, &s.fill}) {
      for (uint32_t a : *list) {
        if (extent(a) == 0) return false;  // at no point
        if (!p_.uses_axis(index, a)) continue;
        axes.push_back(a);
        n *= extent(a).value_or(kMostPoints + 1);
      }
    }
    if (guard == kNone && spans(index, axes, dim)) return true;
    if (n > kMostPoints) return false;
    IndexProgram program(p_, {});
    const uint32_t at = program.slot(index), holds = guard == kNone ? ~0u : program.slot(guard);
    for (int64_t i = 0; i < static_cast<int64_t>(n); ++i) {
      int64_t rest = i;
      for (uint32_t a : axes) {
        program.bind(a, rest % *extent(a));
        rest /= *extent(a);
      }
      program.run();
      const bool sure = holds == ~0u || (program.is_known(holds) && program.value(holds) != 0);
      if (sure && program.is_known(at) && (program.value(at) < 0 || program.value(at) >= dim))
        return true;
    }
    return false;
  }

  // Whether a sum of multiples of axes leaves [0, dim) at one of its ends.
  bool spans(ExprId index, const std::vector<uint32_t>& axes, int64_t dim) {
    std::vector<ExprId> c;
    ExprId rest = kNone;
    if (!p_.affine(index, axes, &c, &rest) || !p_.value(rest)) return false;
    __int128 lo = *p_.value(rest), hi = lo;
    for (size_t i = 0; i < axes.size(); ++i) {
      const std::optional<int64_t> step = p_.value(c[i]), n = extent(axes[i]);
      if (!step || !n || *n < 1) return false;
      (*step < 0 ? lo : hi) += static_cast<__int128>(*step) * (*n - 1);
    }
    return lo < 0 || hi >= dim;
  }

  // An axis of more than one point that the result's index does not use; ~0u: none.
  uint32_t idle_axis(const Stage& s, const View& v) const {
    for (uint32_t a : stored_along(s)) {
      const bool used = std::ranges::any_of(v.index, [&](ExprId e) { return p_.uses_axis(e, a); });
      if (!used && v.guard == kNone && extent(a).value_or(0) > 1) return a;
    }
    return ~0u;
  }

  // Whether no two points store one element: strides in increasing order, each larger than the span
  // of the smaller ones.
  bool once(const Stage& s, const View& v) {
    ExprId offset = p_.integer(0);
    for (size_t d = 0; d < v.index.size(); ++d)
      offset = p_.add(p_.mul(offset, k_.buffers[v.buffer].dims[d]), v.index[d]);
    const std::vector<uint32_t> axes = stored_along(s);
    std::vector<ExprId> c;
    ExprId rest = kNone;
    if (!p_.affine(offset, axes, &c, &rest)) return false;
    std::vector<std::pair<int64_t, int64_t>> steps;  // stride, extent
    for (size_t i = 0; i < axes.size(); ++i) {
      const std::optional<int64_t> stride = p_.value(c[i]), n = extent(axes[i]);
      if (!stride || !n) return false;
      if (*n > 1) steps.push_back({std::abs(*stride), *n});
    }
    std::ranges::sort(steps);
    __int128 reach = 0;
    for (const auto& [stride, n] : steps) {
      if (stride <= reach) return false;
      reach += static_cast<__int128>(stride) * (n - 1);
    }
    return true;
  }

  // Stores of distinct elements must fill a result exactly.
  bool all_stored(const std::vector<__int128>& stored, const std::vector<bool>& counted) {
    for (uint32_t b = 0; b < k_.buffers.size(); ++b) {
      const bool elsewhere = b < shared_.size() && shared_[b];
      if (k_.buffers[b].role != Role::kOut || !counted[b] || elsewhere) continue;
      __int128 n = 1;
      for (ExprId d : k_.buffers[b].dims) n *= p_.value(d).value_or(-1);
      if (n < 0 || stored[b] == n) continue;
      return why_ = "b" + std::to_string(b) +
                    (stored[b] < n ? ": not every element is stored"
                                   : ": more is stored than it holds"),
             false;
    }
    return true;
  }

  Kernel copy_;  // offsets are computed in its pool
  Kernel& k_;
  Pool& p_;
  const std::vector<bool>& shared_;
  std::string& why_;
  size_t stage_ = 0;
};

}  // namespace

bool verify_order(const Kernel& program, const std::vector<size_t>& group_of, std::string* why) {
  struct Last {
    size_t stage = 0, group = 0;
    bool any = false;
    void add(size_t s, size_t g) {
      if (!any || g > group) *this = {s, g, true};
    }
  };
  std::vector<Last> written(program.buffers.size()), read(program.buffers.size());
  for (size_t i = 0; i < program.stages.size(); ++i) {
    const Stage& s = program.stages[i];
    const auto late = [&](const Last& other, const char* does, uint32_t buffer) {
      if (!other.any || other.group <= group_of[i] ||
          program.buffers[buffer].role == Role::kPersistent)
        return false;
      *why = "stage " + std::to_string(i) + does + "b" + std::to_string(buffer) + " before stage " +
             std::to_string(other.stage) + " has run";
      return true;
    };
    const std::vector<ExprId> loads = loads_of(program.pool, s);
    for (ExprId l : loads) {
      if (late(written[program.pool.at(l).ref], " reads ", program.pool.at(l).ref)) return false;
    }
    for (const View& v : s.store) {
      if (s.overlay && (late(written[v.buffer], " is stored over ", v.buffer) ||
                        late(read[v.buffer], " is stored over ", v.buffer)))
        return false;
      written[v.buffer].add(i, group_of[i]);
    }
    for (ExprId l : loads) read[program.pool.at(l).ref].add(i, group_of[i]);
  }
  return true;
}

bool verify_accesses(const Kernel& kernel, const std::vector<bool>& shared, std::string* why) {
  if (!kernel.pool.extents().empty()) return true;
  return Accesses(kernel, shared, why).run();
}

}  // namespace tenon::kernelgen
