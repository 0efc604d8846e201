// Pad and CenterCropPad: paddings with one value, or with the input's own elements.
#include <algorithm>
#include <array>

#include "frontends/onnx/ops/borders.h"
#include "frontends/onnx/reader/model_limits.h"

namespace tenon::onnx {
namespace {

bool all_numbers(const Extents& list) {
  return std::all_of(list.begin(), list.end(), [](const Extent& e) { return e.is_number(); });
}
std::vector<int64_t> numbers(const Extents& list) {
  std::vector<int64_t> out;
  for (const Extent& e : list) out.push_back(e.number);
  return out;
}

// The elements to add, or to cut, for a symbolic padding of unknown sign.
Dim added(NodeContext& n, const Extent& e) {
  return at_least_zero(n.graph(), e.signed_dim(n.graph()));
}
Dim cut_off(NodeContext& n, const Extent& e) {
  return at_least_zero(n.graph(), n.dim(0) - e.signed_dim(n.graph()));
}

}  // namespace

// With symbolic paddings: first cuts, then concatenates each padding with x.
Value padded(NodeContext& n, Value x, const Extents& low, const Extents& high, Value fill) {
  if (!n.ok() || !x.valid()) return Value();
  if (all_numbers(low) && all_numbers(high))
    return n.build("pad", {x, fill}, {{"low", numbers(low)}, {"high", numbers(high)}});
  Dims start, limit;
  bool cuts = false;
  for (size_t i = 0; i < low.size(); ++i) {
    start.push_back(cut_off(n, low[i]));
    limit.push_back(x.dim(static_cast<uint32_t>(i)) - cut_off(n, high[i]));
    cuts |= !start[i].is(0) || !(limit[i] == x.dim(static_cast<uint32_t>(i)));
  }
  if (cuts) x = n.build("slice", {x}, {{"start", start}, {"limit", limit}});
  for (size_t i = 0; i < low.size() && x.valid(); ++i) {
    std::vector<Value> parts;
    for (const Extent* e : {&low[i], static_cast<const Extent*>(nullptr), &high[i]}) {
      Dims shape = x.dims();
      if (e != nullptr) shape[i] = added(n, *e);
      if (shape[i].is(0) && e != nullptr) continue;
      parts.push_back(e == nullptr ? x : n.builder().splat(fill, shape));
    }
    if (parts.size() > 1) x = n.build("concat", parts, {{"dim", i}});
  }
  return x;
}

namespace {

// The index of the element at position `at`, which may be negative or beyond a dim of `size`.
int64_t mirrored(int64_t at, int64_t size, std::string_view mode) {
  if (mode == "edge" || size == 1) return std::clamp<int64_t>(at, 0, size - 1);
  const int64_t period = mode == "wrap" ? size : 2 * (size - 1);
  const int64_t in = (at % period + period) % period;
  return in < size ? in : period - in;
}

// The same for `result` positions from -low on, computed when the model runs. Every element of the
// result may do this again, so division is used only for paddings that may wrap more than once.
Value mirrored_places(NodeContext& n, const Extent& low, Dim size, Dim result,
                      std::string_view mode) {
  const Dims dims = {result};
  const auto spread = [&](Value number) { return n.builder().splat(number, dims); };
  const auto all = [&](int64_t value) { return spread(n.builder().scalar_int(TENON_I64, value)); };
  const auto less = [&](Value a, Value b) {
    return n.build("compare", {a, b}, {{"direction", int64_t{TENON_CMP_LT}}});
  };
  const auto below = [](Dim a, Dim b) { return compare(TENON_REL_LT, a, b) == TENON_YES; };
  const Dim before = low.signed_dim(n.graph());
  const bool once = below(before, size) && below(result - before, size + size);
  const Value count = n.number_of(Extent::of(size));
  const Value place =
      n.build("iota", std::vector<Value>(), {{"shape", dims}, {"dtype", dtype(TENON_I64)}});
  const Value at = n.build("sub", {place, spread(n.number_of(low))});
  if (mode == "edge" || size.is(1))
    return n.build("max", {n.build("min", {at, n.build("sub", {spread(count), all(1)})}), all(0)});
  if (mode == "wrap") {
    if (!once) return n.build("floor_mod", {at, spread(count)});
    const Value in = n.build("select", {less(at, all(0)), n.build("add", {at, spread(count)}), at});
    return n.build("select", {less(in, spread(count)), in, n.build("sub", {in, spread(count)})});
  }
  // The period goes there and back. For a dim of one element it would be 0; any other number works.
  const Value around =
      n.build("mul", {n.build("sub", {count, n.builder().scalar_int(TENON_I64, 1)}),
                      n.builder().scalar_int(TENON_I64, 2)});
  const Value period = spread(n.build("max", {around, n.builder().scalar_int(TENON_I64, 1)}));
  const Value in = once ? n.build("abs", {at}) : n.build("floor_mod", {at, period});
  return n.build("min", {in, n.build("sub", {period, in})});
}

// Pads with the input's own elements: one gather for each padded dim. Indices are constants only if
// they are few, because a few bytes of a model can request more of them than fit in memory.
bool pad_by_index(NodeContext& n, const Extents& low, const Extents& high, std::string_view mode) {
  constexpr int64_t kFew = 4096;
  Value out = n.value(0);
  for (size_t i = 0; i < low.size() && n.ok(); ++i) {
    if (low[i].is(0) && high[i].is(0)) continue;
    const Dim size = n.dims(0)[i],
              result = size + low[i].signed_dim(n.graph()) + high[i].signed_dim(n.graph());
    if (size.is(0)) return n.fail("T0713", cat("a dim of 0 cannot be padded by ", mode));
    if (!n.require(TENON_REL_LE, n.dim(1), size, "1 and the dim to be padded") ||
        !n.require(TENON_REL_LE, cut_off(n, low[i]), size,
                   "what is cut at the start and the dim") ||
        !n.require(TENON_REL_LE, cut_off(n, high[i]), size, "what is cut at the end and the dim") ||
        !n.require(TENON_REL_LE, n.dim(0), result, "0 and the padded dim"))
      return false;
    std::vector<int64_t> index;
    const bool few = result.is_constant() && size.is_constant() && low[i].is_number() &&
                     result.constant() <= kFew;
    for (int64_t at = 0; few && at < result.constant(); ++at)
      index.push_back(mirrored(at - low[i].number, size.constant(), mode));
    const int64_t count = static_cast<int64_t>(index.size());
    const Value indices = few ? n.builder().constant(TENON_I64, {&count, 1}, index.data(),
                                                     index.size() * sizeof(int64_t))
                              : mirrored_places(n, low[i], size, result, mode);
    out = n.build("take", {out, indices}, {{"dim", i}});
  }
  return n.set(0, out);
}

// Checks known sizes and paddings.
bool check_paddings(NodeContext& n, const Extents& low, const Extents& high) {
  for (size_t i = 0; i < low.size(); ++i) {
    int64_t grown = 0;
    if (!low[i].is_number() || !high[i].is_number()) continue;
    const int64_t before = low[i].number, after = high[i].number;
    if (__builtin_add_overflow(before, after, &grown))
      return n.fail("T0713", "its paddings are beyond 64 bits");
    if (!n.dims(0)[i].is_constant()) continue;
    const int64_t d = n.dims(0)[i].constant();
    if (before < -d || after < -d || __builtin_add_overflow(grown, d, &grown) || grown < 0)
      return n.fail("T0713", cat("a dim of ", d, " cannot be padded by ", before, " and ", after));
    if (static_cast<uint64_t>(grown) > limits().elements) {
      return n.fail("T0102", cat("its result has more elements than the limit of ",
                                 limits().elements, "; TENON_LIMIT_ELEMENTS raises it"));
    }
  }
  return true;
}

bool pad_by(NodeContext& n, const Extents& low, const Extents& high, Value value) {
  const auto nothing = [](const Extents& list) {
    return std::all_of(list.begin(), list.end(), [](const Extent& e) { return e.is(0); });
  };
  if (!check_paddings(n, low, high)) return false;
  const std::string_view mode = n.text("mode", "constant");
  if (nothing(low) && nothing(high)) return n.set(0, n.value(0));
  if (mode == "reflect" || mode == "edge" || mode == "wrap")
    return pad_by_index(n, low, high, mode);
  if (mode != "constant")
    return n.fail("T0708", "attribute 'mode' must be constant, reflect, edge or wrap");
  return n.set(0, padded(n, n.value(0), low, high, value));
}

// The dims that an op names, or all.
bool named_axes(NodeContext& n, std::optional<std::vector<int64_t>> given,
                std::vector<int64_t>* out) {
  for (int64_t i = 0; !given && i < n.rank(0); ++i) out->push_back(i);
  for (const int64_t a : given.value_or(std::vector<int64_t>()))
    out->push_back(n.axis(a, n.rank(0)));
  n.axes(*out, n.rank(0));  // each once
  return n.ok();
}

// The paddings before each named dim, then those after each; other dims have none.
bool split_pads(NodeContext& n, const Extents& pads, const std::vector<int64_t>& axes, Extents* low,
                Extents* high) {
  if (pads.size() != 2 * axes.size())
    return n.fail("T0713", cat("it has ", pads.size(), " paddings, and needs two for each of ",
                               axes.size(), " dims"));
  low->resize(n.rank(0));
  high->resize(n.rank(0));
  for (size_t i = 0; i < axes.size(); ++i) {
    (*low)[axes[i]] = pads[i];
    (*high)[axes[i]] = pads[axes.size() + i];
  }
  return true;
}

bool pad_attributes(NodeContext& n) {
  if (!n.arity(1, 1)) return false;
  Extents pads, low, high;
  for (const int64_t pad : n.integers("pads")) pads.push_back(Extent::of(pad));
  std::vector<int64_t> axes;
  if (!named_axes(n, std::nullopt, &axes) || !split_pads(n, pads, axes, &low, &high)) return false;
  return pad_by(n, low, high, n.scalar(n.dtype(0), n.number("value", 0)));
}

bool pad(NodeContext& n) {
  if (!n.arity(2, 4)) return false;
  const Extents* pads = n.need(1, "the paddings");
  std::vector<int64_t> axes;
  const auto given = n.has(3) ? n.need_numbers(3, "the axes") : std::nullopt;
  if (!n.ok() || pads == nullptr || !named_axes(n, given, &axes)) return false;
  Extents low, high;
  if (!split_pads(n, *pads, axes, &low, &high)) return false;
  if (n.has(2) && n.dtype(2) != n.dtype(0))
    return n.fail("T0710", "its value has another element type than its data");
  return pad_by(n, low, high,
                n.has(2) ? n.reshape(n.value(2), {}) : n.builder().scalar_int(n.dtype(0), 0));
}

bool center_crop_pad(NodeContext& n) {
  if (!n.arity(2, 2)) return false;
  const Extents* wanted = n.need(1, "the shape");
  std::vector<int64_t> axes;
  const auto given = n.has_attribute("axes") ? std::optional(n.integers("axes")) : std::nullopt;
  if (wanted == nullptr || !named_axes(n, given, &axes)) return false;
  if (wanted->size() != axes.size()) return n.fail("T0713", "its shape needs one number per axis");
  Extents low(n.rank(0)), high(n.rank(0));
  for (size_t i = 0; i < axes.size(); ++i) {
    const Extent& to = (*wanted)[i];
    if (to.is_number() && to.number < 0)
      return n.fail("T0713", cat("its shape has the negative size ", to.number));
    // An odd element is cut or added at the end.
    const auto more = compute(n.graph(), Arithmetic::kSub, to, Extent::of(n.dims(0)[axes[i]]));
    const auto before =
        more ? compute(n.graph(), Arithmetic::kDiv, *more, Extent::of(2)) : std::nullopt;
    const auto after = before ? compute(n.graph(), Arithmetic::kSub, *more, *before) : std::nullopt;
    if (!after) return n.fail("T0713", "its paddings are beyond 64 bits");
    low[axes[i]] = *before;
    high[axes[i]] = *after;
  }
  return n.set(0, padded(n, n.value(0), low, high, n.scalar(n.dtype(0), 0)));
}

constexpr auto kTable = std::to_array<OpImporter>({
    {"Pad", 2, pad_attributes},
    {"Pad", 11, pad},
    {"CenterCropPad", 18, center_crop_pad},
});

}  // namespace

std::span<const OpImporter> pad_importers() {
  return kTable;
}

}  // namespace tenon::onnx
