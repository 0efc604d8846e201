#include "quantised_factor.h"

namespace tenon::passes {
namespace {

bool is_byte(tenon_dtype_t type) {
  return type == TENON_U8 || type == TENON_I8;
}

// ---- Reading ----

std::vector<int64_t> places_of(const Node& broadcast) {
  std::vector<int64_t> places = broadcast.i64s("dims");
  const int64_t inner = broadcast.operand(0).rank(), outer = broadcast.result().rank();
  if (!places.empty()) return places;
  for (int64_t i = 0; i < inner; ++i) places.push_back(outer - inner + i);
  return places;
}

std::optional<Scale> read_scale(Value v) {
  Scale out{v, {}};
  const Dims dims = v.dims();
  if (splat_of(v)) return out;
  const Node spread = v.node();
  if (spread.is("broadcast")) {
    auto inner = read_scale(spread.operand(0));
    if (!inner) return {};
    const std::vector<int64_t> places = places_of(spread);
    for (int64_t& d : inner->dims) d = places[static_cast<size_t>(d)];
    return inner;
  }
  for (size_t i = 0; i < dims.size(); ++i) {
    if (!dims[i].is(1)) out.dims.push_back(static_cast<int64_t>(i));
  }
  return out;
}

// Types that hold all bytes and all differences of bytes. Unsigned integers wrap below 0.
bool holds_differences(tenon_dtype_t type) {
  const bool is_unsigned = type == TENON_U16 || type == TENON_U32 || type == TENON_U64;
  return dtype_bits(type) >= 16 && !is_unsigned && !is_complex(type);
}

bool is_between(double v, double low, double high) {
  return v == std::floor(v) && v >= low && v <= high;
}

bool are_between(Value constant, double low, double high) {
  const tenon_value_view_t view = constant.view();
  const auto bytes = blob_bytes(view.blob);
  const size_t width = dtype_bytes(view.type.dtype);
  if (width == 0 || bytes.empty()) return false;
  for (size_t at = 0; at < bytes.size(); at += width) {
    if (!is_between(load_double(view.type.dtype, bytes.data() + at), low, high)) return false;
  }
  return true;
}

// Whether v is a min and a max with numbers within the limits, in either order.
bool is_bounded(Value v, double low, double high) {
  bool below = false, above = false;
  for (int i = 0; i < 2; ++i) {
    const Node n = v.node();
    if (!n.is("min") && !n.is("max")) break;
    const bool first = splat_of(n.operand(0)).has_value();
    const auto number = splat_of(n.operand(first ? 0 : 1));
    if (!number) break;
    (n.is("min") ? below : above) |= *number >= low && *number <= high;
    v = n.operand(first ? 1 : 0);
  }
  return below && above;
}

// Whether all elements are whole numbers within the limits, whatever the inputs are.
bool are_whole(Value v, double low, double high) {
  if (const auto number = splat_of(v)) return is_between(*number, low, high);
  if (v.is_constant()) return are_between(v, low, high);
  const Node n = v.node();
  if (n.is("broadcast") || n.is("reshape")) return are_whole(n.operand(0), low, high);
  if (!n.is("convert") || !holds_differences(v.dtype())) return false;
  const Value from = n.operand(0);
  if (from.dtype() == TENON_U8) return low <= 0 && high >= 255;
  if (from.dtype() == TENON_I8) return low <= -128 && high >= 127;
  if (is_float(from.dtype()) && !is_float(v.dtype())) return is_bounded(from, low, high);
  return are_whole(from, low, high);
}

// The bytes that v converts, through types that hold all of them; invalid if there are none.
Value bytes_below(Value v) {
  for (Node n = v.node(); n.is("convert") && holds_differences(v.dtype()); n = v.node()) {
    v = n.operand(0);
    if (is_byte(v.dtype())) return v;
  }
  return Value();
}

std::optional<Factor> read_numbers(Value real) {
  Factor out;
  // The zero point is subtracted in f32, or in a wider integer type before the conversion to f32.
  const Node inner = real.node().is("convert") ? real.node().operand(0).node() : Node();
  const Node sub = real.node().is("sub") ? real.node() : inner.is("sub") ? inner : Node();
  out.q = bytes_below(sub ? sub.operand(0) : real);
  if (!out.q.valid()) return {};
  if (!sub) return out;
  out.zero = sub.operand(1);
  if (!holds_differences(out.zero.dtype())) return {};
  const bool is_unsigned = out.q.dtype() == TENON_U8;
  if (!are_whole(out.zero, is_unsigned ? 0 : -128, is_unsigned ? 255 : 127)) {
    const auto offset = out.zero.dtype() == TENON_F32 ? read_scale(out.zero) : std::nullopt;
    if (!offset) return {};
    out.offset = *offset;
    out.zero = Value();
  } else if (splat_of(out.zero) == 0.0) {
    out.zero = Value();
  }
  return out;
}

// The factor that a transpose or a reshape moves. A reshape needs scales and zero points that are
// equal for all elements, since it can split and merge the dims along which others differ.
std::optional<Factor> read_moved(const Node& move) {
  auto out = read_factor(move.operand(0));
  if (!out) return {};
  const bool same = out->scale.dims.empty() && out->offset.dims.empty() &&
                    (!out->zero.valid() || splat_of(out->zero).has_value());
  if (move.is("reshape") && !same) return {};
  const std::vector<int64_t> perm = move.i64s("perm");
  for (std::vector<int64_t>* dims : {&out->scale.dims, &out->offset.dims}) {
    for (int64_t& d : *dims) d = std::find(perm.begin(), perm.end(), d) - perm.begin();
  }
  out->moves.insert(out->moves.begin(), move);
  return out;
}

}  // namespace

std::optional<Factor> read_factor(Value v) {
  const Node n = v.node();
  if (v.dtype() != TENON_F32) return {};
  if (n.is("transpose") || n.is("reshape")) return read_moved(n);
  for (uint32_t i = 0; n.is("mul") && i < 2; ++i) {
    auto out = read_numbers(n.operand(i));
    const auto scale = out ? read_scale(n.operand(1 - i)) : std::nullopt;
    if (!scale) continue;
    out->scale = *scale;
    return out;
  }
  return {};
}

// ---- Building ----

// The same whole numbers in i16; all of them fit in `byte`. Devices recognise a conversion from a
// byte that is broadcast last, so broadcasts and reshapes stay outside of the conversion.
static Value as_i16(Builder& b, Value v, tenon_dtype_t byte) {
  const Node n = v.node();
  if (const auto number = splat_of(v)) return b.full(TENON_I16, v.dims(), *number);
  if (n.is("broadcast")) return b.broadcast(as_i16(b, n.operand(0), byte), v.dims(), places_of(n));
  if (n.is("reshape"))
    return b.build("reshape", {as_i16(b, n.operand(0), byte)}, {{"shape", v.dims()}});
  if (n.is("convert") && n.operand(0).dtype() == byte) return b.convert(n.operand(0), TENON_I16);
  return b.convert(b.convert(v, byte), TENON_I16);
}

Value moved(Builder& b, Value v, const Factor& f) {
  for (auto move = f.moves.rbegin(); move != f.moves.rend(); ++move) {
    v = move->is("reshape") ? b.build("reshape", {v}, {{"shape", move->result().dims()}})
                            : b.build("transpose", {v}, {{"perm", move->i64s("perm")}});
  }
  return v;
}

Value difference(Builder& b, const Factor& f) {
  const Value q = b.convert(moved(b, f.q, f), TENON_I16);
  if (!f.zero.valid()) return q;
  const auto number = splat_of(f.zero);
  const Value zero =
      number ? b.full(TENON_I16, q.dims(), *number) : moved(b, as_i16(b, f.zero, f.q.dtype()), f);
  return b.build("sub", {q, zero});
}

Value narrow(Builder& b, const Scale& s) {
  if (const auto number = splat_of(s.inner)) return b.scalar(TENON_F32, *number);
  Dims sizes;
  for (const Dim d : s.inner.dims()) {
    if (!d.is(1)) sizes.push_back(d);
  }
  const Value inner = b.convert(s.inner, TENON_F32);
  return inner.dims() == sizes ? inner : b.build("reshape", {inner}, {{"shape", sizes}});
}

}  // namespace tenon::passes
