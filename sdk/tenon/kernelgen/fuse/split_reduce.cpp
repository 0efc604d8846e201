// Reductions with few but huge rows are cut into chunks that threads share.
//
// A Reduce with too few rows for the threads of a machine becomes two: one reduces each chunk and
// stores its states in memory, and one merges these states in order. The cut depends only on the
// size of a row, so results do not depend on the number of threads. If an element-wise stage before
// it is also stored for other readers (the exponentials of a softmax), it is cut the same way and
// then runs in the loop of the chunk's reduction.
#include <optional>

#include "tenon/kernelgen/fuse/fuse_internal.h"

namespace tenon::kernelgen {
namespace {

constexpr int64_t kFewRows = 8;  // this many rows do not need chunks
constexpr int64_t kMostChunks = 1 << 16;

class Splitter {
 public:
  Splitter(Kernel& k, const Target& target) : k_(k), p_(k.pool), target_(target) {}

  void run() {
    for (size_t i = 0; i < k_.stages.size(); ++i) {
      const std::optional<Cut> cut = find_cut(k_.stages[i]);
      if (!cut) continue;
      if (cut->exact && cut->chunk > 1) cut_producers(i, *cut);
      Stage chunks = partial(k_.stages[i], *cut);
      k_.stages.insert(k_.stages.begin() + static_cast<std::ptrdiff_t>(i), std::move(chunks));
      ++i;
    }
  }

 private:
  // Axis = chunk number * chunk + position in the chunk. chunk 1: the axis itself numbers the
  // chunks.
  struct Cut {
    uint32_t axis = 0;
    int64_t chunk = 1;
    bool exact = true;  // all chunks are full
    ExprId count = kNone;
    bool lines = false;  // each chunk stores a line of states, not each result one of chunks
  };

  int64_t likely(ExprId e) const { return std::max<int64_t>(0, p_.likely(e)); }
  int64_t points(const std::vector<uint32_t>& axes) const {
    __int128 n = 1;
    for (uint32_t a : axes) n = std::min<__int128>(n * likely(p_.axes()[a].extent), INT64_MAX);
    return static_cast<int64_t>(n);
  }

  std::optional<Cut> find_cut(const Stage& s) {
    if (s.kind != StageKind::kReduce || s.reduce.empty()) return std::nullopt;
    if (const auto cut = find_column_cut(s)) return cut;
    if (points(s.reduce) < target_.huge_row || points(s.space) >= kFewRows) return std::nullopt;
    uint32_t axis = s.reduce[0];
    for (uint32_t a : s.reduce) {
      if (likely(p_.axes()[axis].extent) < kFewRows) axis = a;
    }
    const int64_t n = likely(p_.axes()[axis].extent),
                  inner = std::max<int64_t>(1, points(s.reduce) / std::max<int64_t>(1, n));
    if (n < kFewRows) return std::nullopt;
    Cut cut{axis, 1, true, p_.axes()[axis].extent};
    if (inner >= target_.row_chunk / 4 && n <= kMostChunks) return cut;
    cut.chunk = std::max<int64_t>(target_.row_chunk / inner, n / kMostChunks + 1);
    return whole_chunks(cut);
  }

  // Columns of a matrix that is large and has few columns: threads share the rows, of which each
  // chunk is read in the order of memory.
  std::optional<Cut> find_column_cut(const Stage& s) {
    constexpr int64_t kMostColumns = 4096;
    const int64_t columns = points(s.space), rows = points(s.reduce);
    if (target_.vector_bytes == 0 || columns < kFewRows || columns > kMostColumns ||
        rows < target_.huge_row / columns * 2 || !reads_lines(s))
      return std::nullopt;
    uint32_t axis = s.reduce[0];
    for (uint32_t a : s.reduce) {
      if (likely(p_.axes()[axis].extent) < kFewRows) axis = a;
    }
    const int64_t n = likely(p_.axes()[axis].extent), inner = std::max<int64_t>(1, rows / n);
    const int64_t chunk = std::max<int64_t>(1, target_.huge_row / (columns * inner));
    if (n < 2 * chunk || inner * chunk < kFewRows) return std::nullopt;
    return whole_chunks({axis, chunk, false, p_.axes()[axis].extent, true});
  }

  // Whether neighbours along an axis of the results lie next to each other in what is summed.
  bool reads_lines(const Stage& s) {
    std::vector<ExprId> loads;
    for (ExprId e : s.step) p_.loads(e, &loads);
    return std::ranges::any_of(loads, [&](ExprId l) {
      if (!std::ranges::all_of(s.reduce, [&](uint32_t a) { return p_.uses_axis(l, a); }))
        return false;
      const std::vector<ExprId>& strides = k_.buffers[p_.at(l).ref].strides;
      for (size_t d = 0; d < strides.size(); ++d) {
        const Expr& x = p_.at(p_.arg(l, static_cast<uint32_t>(d + 2)));
        if (p_.is_const(strides[d], 1) && x.kind == X::kAxis &&
            std::ranges::find(s.space, x.ref) != s.space.end() &&
            likely(p_.axes()[x.ref].extent) >= kFewRows)
          return true;
      }
      return false;
    });
  }

  // Full chunks need no guards.
  Cut whole_chunks(Cut cut) {
    if (cut.chunk <= 1) return {cut.axis, 1, true, cut.count, cut.lines};
    const auto known = p_.value(cut.count);
    cut.exact = false;
    for (int64_t c = cut.chunk; known && !cut.exact && c >= cut.chunk / 2; --c) {
      cut.exact = *known % c == 0;
      if (cut.exact) cut.chunk = c;
    }
    cut.count = p_.ceildiv(cut.count, cut.chunk);
    return cut;
  }

  // Reduces each chunk; afterwards s merges what this stores.
  Stage partial(Stage& s, const Cut& cut) {
    Stage out;
    out.kind = StageKind::kReduce;
    out.origins = s.origins;
    std::unordered_map<ExprId, ExprId> own;
    std::vector<ExprId> dims, index;
    for (uint32_t a : s.space) {
      out.space.push_back(p_.add_axis(p_.axes()[a].extent));
      own[p_.axis(a)] = p_.axis(out.space.back());
      dims.push_back(p_.axes()[a].extent);
      index.push_back(p_.axis(out.space.back()));
    }
    const uint32_t number = p_.add_axis(cut.count);
    const ptrdiff_t place = cut.lines ? 0 : static_cast<ptrdiff_t>(dims.size());
    out.space.insert(out.space.begin() + place, number);
    dims.insert(dims.begin() + place, cut.count);
    index.insert(index.begin() + place, p_.axis(number));
    for (uint32_t a : s.reduce) {
      if (a != cut.axis || cut.chunk > 1)
        out.reduce.push_back(
            p_.add_axis(a == cut.axis ? p_.integer(cut.chunk) : p_.axes()[a].extent));
      own[p_.axis(a)] = a != cut.axis    ? p_.axis(out.reduce.back())
                        : cut.chunk == 1 ? p_.axis(number)
                                         : p_.add(p_.mul(p_.axis(number), p_.integer(cut.chunk)),
                                                  p_.axis(out.reduce.back()));
    }
    const ExprId inside =
        cut.exact ? kNone
                  : p_.cmp(TENON_CMP_LT, own[p_.axis(cut.axis)], p_.axes()[cut.axis].extent);
    out.init = s.init;
    out.merge = s.merge;
    std::unordered_map<ExprId, ExprId> loaded;
    const uint32_t merged = p_.add_axis(cut.count);
    std::vector<ExprId> at;
    for (uint32_t a : s.space) at.push_back(p_.axis(a));
    at.insert(at.begin() + place, p_.axis(merged));
    const auto n = static_cast<uint32_t>(s.init.size());
    for (uint32_t i = 0; i < n; ++i) {
      const DType type = p_.type(s.init[i]);
      const ExprId state = p_.state(i, type), step = p_.substitute(s.step[i], own, inside);
      out.step.push_back(inside == kNone ? step : p_.op(TENON_S_SELECT, {inside, step, state}));
      out.final.push_back(state);
      const uint32_t id = temp(type, dims);
      out.store.push_back({id, index, kNone});
      loaded[p_.state(n + i, type)] = p_.load(id, type, at);
    }
    for (uint32_t i = 0; i < n; ++i) s.step[i] = p_.substitute(s.merge[i], loaded);
    s.reduce = {merged};
    return out;
  }

  // Kept: no stage joins the loop that writes it, because merging waits for all chunks.
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

  // Cuts the element-wise stages that write what stage `reader` reduces along the cut axis.
  void cut_producers(size_t reader, const Cut& cut) {
    std::vector<std::pair<uint32_t, size_t>> found;  // buffer, dim
    for (ExprId l : loads_of(p_, k_.stages[reader])) {
      const std::span<const ExprId> at = p_.args(l).subspan(2);
      const auto d = std::ranges::find(at, p_.axis(cut.axis));
      if (d != at.end() && p_.arg(l, 0) == kNone)
        found.push_back({p_.at(l).ref, static_cast<size_t>(d - at.begin())});
    }
    for (auto [buffer, dim] : found) {
      Stage* writer = sole_writer(buffer);
      const Buffer& b = k_.buffers[buffer];
      if (writer == nullptr || b.role != Role::kTemp || b.keep ||
          b.dims[dim] != p_.axes()[cut.axis].extent)
        continue;
      const ExprId at = writer->store[0].index[dim];
      if (writer->kind != StageKind::kMap || !plain_store(k_, *writer, writer->store[0]) ||
          p_.at(at).kind != X::kAxis)
        continue;
      cut_stage(*writer, p_.at(at).ref, cut);
      cut_dim(buffer, dim, cut);
    }
  }

  Stage* sole_writer(uint32_t buffer) {
    Stage* found = nullptr;
    for (Stage& s : k_.stages) {
      for (const View& v : s.store) {
        if (v.buffer != buffer) continue;
        if (found != nullptr || s.store.size() != 1) return nullptr;
        found = &s;
      }
    }
    return found;
  }

  void cut_stage(Stage& s, uint32_t axis, const Cut& cut) {
    const uint32_t number = p_.add_axis(cut.count), place = p_.add_axis(p_.integer(cut.chunk));
    const auto at = std::ranges::find(s.space, axis);
    *at = place;
    s.space.insert(at, number);
    rewrite(
        p_, s,
        {{p_.axis(axis), p_.add(p_.mul(p_.axis(number), p_.integer(cut.chunk)), p_.axis(place))}});
  }

  // The same memory with one more dim, in all accesses to it.
  void cut_dim(uint32_t buffer, size_t dim, const Cut& cut) {
    const ExprId chunk = p_.integer(cut.chunk);
    auto split = [&](std::vector<ExprId> index) {
      const ExprId i = index[dim];
      index[dim] = p_.mod(i, chunk);
      index.insert(index.begin() + static_cast<std::ptrdiff_t>(dim), p_.floordiv(i, chunk));
      return index;
    };
    for (Stage& s : k_.stages) {
      std::unordered_map<ExprId, ExprId> map;
      std::vector<ExprId> loads = loads_of(p_, s);
      std::sort(loads.begin(), loads.end());
      for (ExprId l : loads) {
        if (p_.at(l).ref != buffer || map.count(l)) continue;
        const std::vector<ExprId> args(p_.args(l).begin(), p_.args(l).end());
        std::vector<ExprId> index;
        for (size_t d = 2; d < args.size(); ++d) index.push_back(p_.substitute(args[d], map));
        map[l] = p_.load(buffer, p_.type(l), split(index), p_.substitute(args[0], map),
                         p_.substitute(args[1], map));
      }
      if (!map.empty()) rewrite(p_, s, map);
      for (View& v : s.store) {
        if (v.buffer == buffer) v.index = split(v.index);
      }
    }
    Buffer& b = k_.buffers[buffer];
    b.dims[dim] = cut.count;
    b.dims.insert(b.dims.begin() + static_cast<std::ptrdiff_t>(dim) + 1, chunk);
    b.strides.insert(b.strides.begin() + static_cast<std::ptrdiff_t>(dim),
                     p_.mul(b.strides[dim], chunk));
  }

  Kernel& k_;
  Pool& p_;
  const Target& target_;
};

}  // namespace

void split_reductions(Kernel& program, const Target& target) {
  Splitter(program, target).run();
}

}  // namespace tenon::kernelgen
