// The hardest part is padding: around an image the difference is 0, so the byte there is the zero
// point. The load says so with its `other`, and the sums of zero points then cover all taps.
#include "tenon/kernelgen/fuse/bytes.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "tenon/kernelgen/fuse/load_time.h"
#include "tenon/kernelgen/ir/stages.h"
#include "tenon/kernelgen/schedule/contraction.h"

namespace tenon::kernelgen {
namespace {

// An operand: where `guard` holds, the byte `load` reads minus `zero`; elsewhere 0. zero is an i32,
// or kNone for 0. padded: a map in between has a part in the guard.
struct Difference {
  ExprId load = kNone, zero = kNone, guard = kNone;
  bool padded = false;
};

bool is_byte(DType t) {
  return t == TENON_U8 || t == TENON_I8;
}

class Bytes {
 public:
  explicit Bytes(Kernel& k) : k_(k), p_(k.pool), fixed_(fixed_buffers(k)) { find_writers(); }

  void run() {
    std::vector<Stage> stages = std::move(k_.stages);
    k_.stages.clear();
    for (Stage& s : stages) {
      if (s.kind == StageKind::kContract && p_.type(s.a) == TENON_I32 && s.panel == 0) rewrite(s);
      k_.stages.push_back(std::move(s));
    }
  }

 private:
  static std::vector<bool> fixed_buffers(const Kernel& k) {
    std::vector<bool> out(k.buffers.size());
    for (size_t b = 0; b < out.size(); ++b) {
      const Role role = k.buffers[b].role;
      out[b] = role == Role::kConstant || role == Role::kPersistent;
    }
    const std::vector<bool> fixed = fixed_stages(k);
    for (size_t i = 0; i < fixed.size(); ++i) {
      for (const View& v : k.stages[i].store) out[v.buffer] = fixed[i];
    }
    return out;
  }

  // The map that alone writes each buffer, one element per point.
  void find_writers() {
    std::vector<uint32_t> count(k_.buffers.size());
    maps_.resize(k_.buffers.size());
    for (const Stage& s : k_.stages) {
      for (size_t r = 0; r < s.store.size(); ++r) {
        const View& v = s.store[r];
        const bool plain = ++count[v.buffer] == 1 && s.kind == StageKind::kMap && !s.overlay &&
                           plain_store(k_, s, v);
        maps_[v.buffer] = plain ? std::optional<Made>({v.index, s.value[r]}) : std::nullopt;
      }
    }
  }

  // The value that a map computed for what `load` reads; kNone if no map did.
  ExprId made(ExprId load) {
    const auto& map = maps_[p_.at(load).ref];
    if (!map) return kNone;
    std::unordered_map<ExprId, ExprId> places;
    for (size_t d = 0; d < map->index.size(); ++d) {
      if (p_.at(map->index[d]).kind == X::kAxis)
        places[map->index[d]] = p_.arg(load, static_cast<uint32_t>(d) + 2);
    }
    return p_.substitute(map->value, places);
  }

  bool is_op(ExprId e, uint16_t op) const { return p_.at(e).kind == X::kOp && p_.at(e).op == op; }

  // Seen through maps, as long as there is one to see through.
  ExprId seen_through(ExprId e) {
    for (ExprId from = e; from != kNone && p_.at(e).kind == X::kLoad && p_.arg(e, 0) == kNone;) {
      from = made(e);
      if (from != kNone) e = from;
    }
    return e;
  }

  // A zero point in i32, if it is one of bytes: any other might wrap in i16.
  ExprId zero_of(ExprId e) {
    e = seen_through(e);
    if (is_op(e, TENON_S_CONVERT)) {
      ExprId byte = p_.arg(e, 0);
      // What a run computes is loaded from where it is.
      const ExprId known = seen_through(byte);
      if (p_.is_const(known) || p_.at(known).kind == X::kLoad) byte = known;
      const bool plain =
          p_.is_const(byte) || (p_.at(byte).kind == X::kLoad && p_.arg(byte, 0) == kNone);
      return is_byte(p_.type(byte)) && plain ? p_.convert(byte, TENON_I32) : kNone;
    }
    const auto value = p_.value(e);
    return value && *value >= -128 && *value <= 255 ? p_.integer(*value, TENON_I32) : kNone;
  }

  // Whether the type can hold a zero point; kNone is 0.
  bool is_byte_of(ExprId zero, DType type) const {
    if (zero == kNone) return true;
    if (const auto value = p_.value(zero))
      return type == TENON_U8 ? *value >= 0 && *value <= 255 : *value >= -128 && *value <= 127;
    return is_op(zero, TENON_S_CONVERT) && p_.type(p_.arg(zero, 0)) == type;
  }

  bool zero_outside(ExprId load) {
    const ExprId other = seen_through(p_.arg(load, 1));
    return p_.is_const(other) && p_.number_value(other) == 0;
  }

  std::optional<Difference> difference(ExprId operand) {
    Difference d;
    ExprId e = narrow_of(p_, operand);
    bool own = true;  // the operand's own load is next
    while (e != kNone) {
      if (p_.at(e).kind == X::kLoad) {
        const ExprId guard = p_.arg(e, 0);
        // Outside the byte itself 0 is not the zero point, if one was subtracted before.
        if (guard != kNone && (!zero_outside(e) || d.zero != kNone)) return {};
        d.guard = p_.both(d.guard, guard);
        d.padded = d.padded || (guard != kNone && !own);
        own = false;
        if (is_byte(p_.type(e))) {
          d.load = e;
          return d;
        }
        e = made(e);
      } else if (is_op(e, TENON_S_SUB) && p_.type(e) == TENON_I16 && d.zero == kNone) {
        d.zero = zero_of(p_.arg(e, 1));
        if (d.zero == kNone) return {};
        e = p_.arg(e, 0);
      } else if (is_op(e, TENON_S_CONVERT) && is_byte(p_.type(p_.arg(e, 0)))) {
        e = p_.arg(e, 0);
        if (p_.at(e).kind != X::kLoad) return {};
      } else {
        return {};
      }
    }
    return {};
  }

  bool is_constant(const Difference& d) const { return fixed_[p_.at(d.load).ref]; }

  bool uses_any(ExprId e, const std::vector<uint32_t>& axes) const {
    return e != kNone &&
           std::ranges::any_of(axes, [&](uint32_t axis) { return p_.uses_axis(e, axis); });
  }

  void rewrite(Stage& s) {
    auto a = difference(s.a), b = difference(s.b);
    if (!a || !b || is_constant(*a) == is_constant(*b)) return;
    const bool swapped = is_constant(*a);
    ExprId &x = swapped ? s.b : s.a, &w = swapped ? s.a : s.b;
    Difference of_x = swapped ? *b : *a, of_w = swapped ? *a : *b;
    // One zero point for all of x, and none that varies along the sum.
    if (uses_any(of_x.zero, s.space) || uses_any(of_x.zero, s.reduce) ||
        uses_any(of_w.zero, s.reduce))
      return;
    // Where x is padded, its zero point has to be one of its own bytes.
    if (of_x.guard != kNone && !is_byte_of(of_x.zero, p_.type(of_x.load))) return;
    const ExprId weights = w, read = narrow_of(p_, x);
    if (of_x.padded && p_.at(read).kind != X::kLoad) return;
    const DType x_type = p_.type(of_x.load), w_type = p_.type(of_w.load);
    const ExprId x_zero = joined(of_x.zero, x_type == TENON_U8 ? 0 : 128),
                 w_zero = joined(of_w.zero, w_type == TENON_I8 ? 0 : -128);
    const ExprId narrow = narrow_of(p_, w);
    if (of_w.guard != kNone && (w_zero != kNone || p_.arg(narrow, 0) != kNone)) return;
    // With padding, the sum of x would be one for each window.
    if (w_zero != kNone && s.x_channel >= 0) return;
    ExprId bytes = of_x.padded          ? copied(s, read, TENON_U8)
                   : x_type == TENON_U8 ? of_x.load
                                        : copied(s, of_x.load, TENON_U8);
    const ExprId guard = of_x.padded ? p_.arg(read, 0) : of_x.guard;
    if (guard != kNone) {
      const ExprId outside =
          x_zero == kNone ? p_.number(0, TENON_U8) : p_.convert(x_zero, TENON_U8);
      const std::vector<ExprId> args(p_.args(bytes).begin(), p_.args(bytes).end());
      bytes = p_.load(p_.at(bytes).ref, TENON_U8, std::span<const ExprId>(args).subspan(2), guard,
                      outside);
    }
    x = p_.convert(bytes, TENON_I32);
    const ExprId from = of_w.guard != kNone ? narrow : of_w.load;
    w = p_.convert(p_.type(from) == TENON_I8 ? from : copied(s, from, TENON_I8), TENON_I32);
    const ExprId state = p_.state(0, TENON_I32);
    ExprId sum = state;
    if (x_zero != kNone) sum = p_.op(TENON_S_SUB, {sum, product_of_sum(s, weights, x_zero)});
    if (w_zero != kNone)
      sum = p_.op(TENON_S_SUB, {sum, p_.op(TENON_S_MUL, {w_zero, sum_of(s, x, kNone)})});
    for (ExprId& f : s.final) f = p_.substitute(f, {{state, sum}});
  }

  // zero + offset; kNone for 0.
  ExprId joined(ExprId zero, int64_t offset) {
    if (zero == kNone) zero = p_.integer(0, TENON_I32);
    if (offset != 0) zero = p_.op(TENON_S_ADD, {zero, p_.integer(offset, TENON_I32)});
    return p_.is_const(zero, 0) ? kNone : zero;
  }

  // zero times the sum of the weights: at load if both are known then.
  ExprId product_of_sum(const Stage& s, ExprId weights, ExprId zero) {
    if (p_.is_const(zero)) return sum_of(s, weights, zero);
    return p_.op(TENON_S_MUL, {sum_of(s, weights, kNone), zero});
  }

  // The sum of e over the reduction axes of s, times `factor` if there is one: a load from a new
  // buffer with one element for each point of the axes of s that e depends on.
  ExprId sum_of(const Stage& s, ExprId e, ExprId factor) {
    Stage out;
    out.kind = StageKind::kReduce;
    out.origins = s.origins;
    Buffer buffer;
    buffer.type = TENON_I32;
    buffer.role = Role::kTemp;
    std::vector<ExprId> index, at;
    std::unordered_map<ExprId, ExprId> own;
    const auto own_axis = [&](uint32_t axis, std::vector<uint32_t>* list) {
      list->push_back(p_.add_axis(p_.axes()[axis].extent));
      return own[p_.axis(axis)] = p_.axis(list->back());
    };
    for (uint32_t axis : s.reduce) own_axis(axis, &out.reduce);
    for (uint32_t axis : s.space) {
      if (!p_.uses_axis(e, axis)) continue;
      at.push_back(own_axis(axis, &out.space));
      index.push_back(p_.axis(axis));
      buffer.dims.push_back(p_.axes()[axis].extent);
    }
    set_strides(&buffer);
    const ExprId first = p_.state(0, TENON_I32), second = p_.state(1, TENON_I32);
    out.init = {p_.integer(0, TENON_I32)};
    out.step = {p_.op(TENON_S_ADD, {first, p_.substitute(e, own)})};
    out.merge = {p_.op(TENON_S_ADD, {first, second})};
    out.final = {factor == kNone ? first : p_.op(TENON_S_MUL, {first, factor})};
    const uint32_t id = add(std::move(buffer));
    out.store = {{id, at, kNone}};
    k_.stages.push_back(std::move(out));
    return p_.load(id, TENON_I32, index);
  }

  uint32_t add(Buffer buffer) {
    k_.buffers.push_back(std::move(buffer));
    maps_.emplace_back();
    fixed_.push_back(false);
    return static_cast<uint32_t>(k_.buffers.size() - 1);
  }

  // The load, unguarded, from a copy of its tensor as unsigned or signed bytes: of bytes with the
  // other signedness (byte + 128 or byte - 128), or of differences without their zero points and
  // with their padding. All readers of a tensor share one copy.
  ExprId copied(const Stage& reader, ExprId load, DType to) {
    const uint32_t from = p_.at(load).ref;
    auto [copy, fresh] = copies_.try_emplace(from, 0u);
    if (fresh) {
      Stage s;
      s.origins = reader.origins;
      Buffer buffer;
      buffer.type = to;
      buffer.role = Role::kTemp;
      buffer.dims = k_.buffers[from].dims;
      // A copy of a run is kept, so that the map before it writes it and products read it as it is.
      // Layouts decide about those of convolutions.
      buffer.keep = !fixed_[from] && reader.x_channel < 0;
      std::vector<ExprId> at;
      for (const ExprId dim : buffer.dims) {
        const bool one = p_.is_const(dim, 1);
        if (!one) s.space.push_back(p_.add_axis(dim));
        at.push_back(one ? p_.integer(0) : p_.axis(s.space.back()));
      }
      set_strides(&buffer);
      const ExprId own = p_.load(from, p_.type(load), at);
      s.value = {is_byte(p_.type(load)) ? as_type(own, to) : as_bytes(own, to)};
      copy->second = add(std::move(buffer));
      s.store = {{copy->second, at, kNone}};
      k_.stages.push_back(std::move(s));
    }
    return p_.load(copy->second, to, p_.args(load).subspan(2));
  }

  // Flips the top bit if the signedness changes.
  ExprId as_type(ExprId byte, DType to) {
    if (p_.type(byte) == to) return byte;
    const ExprId top = p_.integer(to == TENON_U8 ? 128 : -128, to);
    return p_.op(TENON_S_XOR, {p_.bitcast(byte, to), top});
  }

  // The bytes of a difference in i16; outside its guard, the zero point.
  ExprId as_bytes(ExprId load, DType to) {
    const Difference d = *difference(p_.convert(load, TENON_I32));
    const DType type = p_.type(d.load);
    const std::vector<ExprId> args(p_.args(d.load).begin(), p_.args(d.load).end());
    const ExprId outside = d.guard == kNone  ? kNone
                           : d.zero == kNone ? p_.number(0, type)
                                             : p_.convert(d.zero, type);
    return as_type(p_.load(p_.at(d.load).ref, type, std::span<const ExprId>(args).subspan(2),
                           d.guard, outside),
                   to);
  }

  void set_strides(Buffer* buffer) {
    ExprId stride = p_.integer(1);
    buffer->strides.resize(buffer->dims.size());
    for (size_t d = buffer->dims.size(); d-- > 0;) {
      buffer->strides[d] = stride;
      stride = p_.mul(stride, buffer->dims[d]);
    }
  }

  struct Made {
    std::vector<ExprId> index;
    ExprId value;
  };

  Kernel& k_;
  Pool& p_;
  std::vector<bool> fixed_;                // by buffer: known at load
  std::vector<std::optional<Made>> maps_;  // by buffer
  std::unordered_map<uint32_t, uint32_t> copies_;
};

}  // namespace

void multiply_bytes(Kernel& program, const Target& target) {
  if (target.byte_quads) Bytes(program).run();
}

}  // namespace tenon::kernelgen
