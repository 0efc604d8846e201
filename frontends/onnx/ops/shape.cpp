// Ops that make, read and change shapes, and that move elements without computing.
#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "frontends/onnx/graph/importer.h"
#include "frontends/onnx/reader/model_limits.h"

namespace tenon::onnx {
namespace {

bool is_count(const Dims& shape, size_t elements) {
  uint64_t count = 1;
  for (const Dim d : shape) {
    if (!d.is_constant() ||
        __builtin_mul_overflow(count, static_cast<uint64_t>(d.constant()), &count))
      return false;
  }
  return count == elements;
}

// Known integers stay known when their shape changes, unless only a run can check that they fit.
bool set_reshaped(NodeContext& n, const Dims& shape) {
  const Item& from = n.item(0);
  if (!n.ok()) return false;
  const Extents* known = n.known(0);
  if (known == nullptr || !is_count(shape, known->size()))
    return n.set(0, n.reshape(n.value(0), shape));
  if (from.elements() != nullptr && from.constant() == nullptr && !from.value().valid()) {
    return n.set_known(0, *from.elements(), shape, from.dtype());
  }
  if (shape.size() <= 1) return n.set_known(0, *known, shape, from.dtype());
  return n.set(0, n.reshape(n.value(0), shape));
}

// Sizes from an operand; fails for negative numbers.
std::optional<Dims> sizes(NodeContext& n, const Extents& extents, std::string_view what) {
  Dims out;
  for (const Extent& e : extents) {
    if (e.is_number() && e.number < 0) {
      n.fail("T0713", cat(what, " ", e.number, " is negative"));
      return {};
    }
    out.push_back(e.dim(n.graph()));
  }
  if (out.size() > TENON_RANK_MAX) {
    n.fail("T0102", cat("its result has rank ", out.size(), ", the limit is ", TENON_RANK_MAX));
    return {};
  }
  return out;
}

// ---- Reading shapes ----

bool shape(NodeContext& n) {
  if (!n.arity(1, 1)) return false;
  const Dims& dims = n.dims(0);
  const auto clamp = [&](int64_t at) {
    const auto rank = static_cast<int64_t>(dims.size());
    return std::clamp<int64_t>(at < 0 ? std::max<int64_t>(at, -rank) + rank : at, 0, rank);
  };
  const int64_t start = clamp(n.integer("start", 0));
  const int64_t end =
      clamp(n.has_attribute("end") ? n.integer("end", 0) : static_cast<int64_t>(dims.size()));
  Extents out;
  for (int64_t i = start; i < end; ++i) out.push_back(Extent::of(dims[i]));
  const auto count = static_cast<int64_t>(out.size());
  return n.set_known(0, std::move(out), {n.dim(count)});
}

bool size(NodeContext& n) {
  if (!n.arity(1, 1)) return false;
  const Dim count = n.product(n.dims(0));
  return n.ok() && n.set_known(0, {Extent::of(count)}, {});
}

// ---- Constants ----

bool constant(NodeContext& n) {
  if (!n.arity(0, 0)) return false;
  if (n.has_attribute("value")) {
    const TensorProto* tensor = n.tensor("value");
    auto data = std::make_shared<Constant>();
    if (tensor == nullptr || !n.read(*tensor, data.get())) return false;
    Dims dims;
    for (const int64_t d : data->dims) dims.push_back(n.dim(d));
    return n.set(0, Item::of(std::move(data), std::move(dims)));
  }
  if (n.has_attribute("value_int"))
    return n.set_known(0, {Extent::of(n.integer("value_int", 0))}, {});
  if (n.has_attribute("value_float"))
    return n.set(0, n.scalar(TENON_F32, n.number("value_float", 0)));
  if (n.has_attribute("value_ints")) {
    Extents out;
    for (const int64_t i : n.integers("value_ints")) out.push_back(Extent::of(i));
    const auto count = static_cast<int64_t>(out.size());
    return n.set_known(0, std::move(out), {n.dim(count)});
  }
  if (n.has_attribute("value_floats")) {
    const std::vector<double> numbers = n.numbers("value_floats");
    std::vector<float> data(numbers.begin(), numbers.end());
    const int64_t count = static_cast<int64_t>(data.size());
    return n.set(
        0, n.builder().constant(TENON_F32, {&count, 1}, data.data(), data.size() * sizeof(float)));
  }
  return n.fail(
      "T0714",
      "it needs one of the attributes value, value_int, value_float, value_ints and value_floats");
}

bool constant_of_shape(NodeContext& n) {
  if (!n.arity(1, 1)) return false;
  Constant data;
  data.dtype = TENON_F32;
  if (const TensorProto* tensor = n.has_attribute("value") ? n.tensor("value") : nullptr) {
    if (!n.read(*tensor, &data)) return false;
    if (element_count(data.dims) != 1)
      return n.fail("T0708", "attribute 'value' must have one element");
  }
  const Extents* extents = n.need(0, "the shape");
  const auto dims = extents == nullptr ? std::nullopt : sizes(n, *extents, "the size");
  if (!dims) return false;
  const bool small = dims->size() <= 1 &&
                     (dims->empty() || ((*dims)[0].is_constant() && (*dims)[0].constant() <= 64));
  if (data.blob && data.dtype == TENON_I64 && small) {
    const int64_t value = load_int(TENON_I64, blob_bytes(data.blob.get()).data());
    return n.set_known(0, Extents(dims->empty() ? 1 : (*dims)[0].constant(), Extent::of(value)),
                       *dims);
  }
  const Value element =
      data.blob ? n.builder().constant(data.dtype, {}, data.blob.get()) : n.scalar(TENON_F32, 0);
  return n.set(0, n.builder().splat(element, *dims));
}

// ---- Reshape ----

bool reshape(NodeContext& n) {
  if (!n.arity(2, 2)) return false;
  const bool keep_zero = n.integer("allowzero", 0) != 0;
  const Extents* target = n.need(1, "the shape", keep_zero ? 0 : 1);
  if (target == nullptr) return false;
  const Dims from = n.dims(0);
  if (target->size() > TENON_RANK_MAX)
    return n.fail("T0102",
                  cat("its result has rank ", target->size(), ", the limit is ", TENON_RANK_MAX));
  Dims to, others;
  int64_t open = -1;
  for (size_t i = 0; i < target->size(); ++i) {
    const Extent& e = (*target)[i];
    if (e.is(-1)) {
      if (open >= 0) return n.fail("T0713", "its shape has two dims of -1");
      open = static_cast<int64_t>(i);
      to.push_back(Dim());
      continue;
    }
    if (e.is_number() && e.number < 0)
      return n.fail("T0713", cat("its shape has the dim ", e.number));
    if (e.is(0) && !keep_zero) {
      if (i >= from.size())
        return n.fail("T0713",
                      cat("dim ", i, " is to be copied from an input of rank ", from.size()));
      to.push_back(from[i]);
    } else {
      to.push_back(e.dim(n.graph()));
    }
    others.push_back(to.back());
  }
  if (open >= 0) {
    to[open] = n.quotient(from, others);
  } else {
    const Dim before = n.product(from), after = n.product(to);
    if (!n.ok() || !n.require_equal(before, after, "the numbers of elements before and after"))
      return false;
  }
  return n.ok() && set_reshaped(n, to);
}

bool flatten(NodeContext& n) {
  if (!n.arity(1, 1)) return false;
  const int64_t axis = n.axis(n.integer("axis", 1), n.rank(0), 1);
  if (!n.ok()) return false;
  // Flatten counts negative axes from the rank, where Unsqueeze counts from the rank plus one.
  const int64_t given = n.integer("axis", 1);
  const int64_t at = given < 0 ? given + n.rank(0) : axis;
  if (at < 0)
    return n.fail("T0713", cat("axis ", given, " does not exist: the rank is ", n.rank(0)));
  const std::span<const Dim> dims(n.dims(0));
  const Dim rows = n.product(dims.first(at)), columns = n.product(dims.subspan(at));
  return n.ok() && n.set(0, n.reshape(n.value(0), {rows, columns}));
}

bool squeeze_axes(NodeContext& n, std::optional<std::vector<int64_t>> given) {
  const Dims from = n.dims(0);
  std::vector<int64_t> axes;
  if (given) {
    axes = n.axes(*given, n.rank(0));
    for (const int64_t a : axes) n.require_equal(from[a], n.dim(1), "a dim to be squeezed and 1");
  } else {
    for (size_t i = 0; i < from.size(); ++i) {
      if (from[i].is(1)) axes.push_back(static_cast<int64_t>(i));
    }
  }
  if (!n.ok()) return false;
  Dims to;
  for (size_t i = 0; i < from.size(); ++i) {
    if (std::find(axes.begin(), axes.end(), static_cast<int64_t>(i)) == axes.end())
      to.push_back(from[i]);
  }
  return set_reshaped(n, to);
}

bool unsqueeze_axes(NodeContext& n, const std::vector<int64_t>& given) {
  const Dims from = n.dims(0);
  const size_t rank = from.size() + given.size();
  if (rank > TENON_RANK_MAX)
    return n.fail("T0102", cat("its result has rank ", rank, ", the limit is ", TENON_RANK_MAX));
  const std::vector<int64_t> axes = n.axes(given, static_cast<int64_t>(rank));
  if (!n.ok()) return false;
  Dims to = from;
  for (const int64_t a : axes) to.insert(to.begin() + a, n.dim(1));
  return set_reshaped(n, to);
}

bool squeeze_attribute(NodeContext& n) {
  if (!n.arity(1, 1)) return false;
  return squeeze_axes(n,
                      n.has_attribute("axes") ? std::optional(n.integers("axes")) : std::nullopt);
}
bool squeeze(NodeContext& n) {
  if (!n.arity(1, 2)) return false;
  if (!n.has(1)) return squeeze_axes(n, {});
  const auto axes = n.need_numbers(1, "the axes");
  return axes && squeeze_axes(n, axes);
}
bool unsqueeze_attribute(NodeContext& n) {
  if (!n.arity(1, 1)) return false;
  if (!n.has_attribute("axes")) return n.fail("T0708", "attribute 'axes' is missing");
  return unsqueeze_axes(n, n.integers("axes"));
}
bool unsqueeze(NodeContext& n) {
  if (!n.arity(2, 2)) return false;
  const auto axes = n.need_numbers(1, "the axes");
  return axes && unsqueeze_axes(n, *axes);
}

bool transpose(NodeContext& n) {
  if (!n.arity(1, 1)) return false;
  std::vector<int64_t> perm = n.integers("perm");
  const int64_t rank = n.rank(0);
  if (!n.has_attribute("perm")) {
    for (int64_t i = rank; i-- > 0;) perm.push_back(i);
  }
  if (static_cast<int64_t>(perm.size()) != rank) {
    return n.fail("T0713",
                  cat("its permutation has ", perm.size(), " entries, the rank is ", rank));
  }
  n.axes(perm, rank);  // each once
  for (const int64_t p : perm) {
    if (p < 0) return n.fail("T0713", cat("its permutation has the entry ", p));
  }
  return n.ok() && n.set(0, n.transpose(n.value(0), perm));
}

bool expand(NodeContext& n) {
  if (!n.arity(2, 2)) return false;
  const Extents* target = n.need(1, "the shape");
  const auto dims = target == nullptr ? std::nullopt : sizes(n, *target, "the size");
  const auto joined = dims ? n.broadcast_dims(n.dims(0), *dims) : std::nullopt;
  return joined && n.set(0, n.broadcast_to(n.value(0), *joined));
}

bool tile(NodeContext& n) {
  if (!n.arity(2, 2)) return false;
  const Extents* target = n.need(1, "the repeats");
  const auto repeats = target == nullptr ? std::nullopt : sizes(n, *target, "the repeat");
  if (!repeats) return false;
  if (repeats->size() != n.dims(0).size())
    return n.fail("T0713", "it needs one repeat for each dim");
  // Checks the limit before a product of dims overflows.
  double elements = 1;
  for (size_t i = 0; i < repeats->size(); ++i) {
    if ((*repeats)[i].is_constant()) elements *= static_cast<double>((*repeats)[i].constant());
    if (n.dims(0)[i].is_constant()) elements *= static_cast<double>(n.dims(0)[i].constant());
  }
  if (elements > static_cast<double>(limits().elements)) {
    return n.fail("T0102", cat("its result has more elements than the limit of ", limits().elements,
                               "; TENON_LIMIT_ELEMENTS raises it"));
  }
  return n.set(0, n.build("tile", {n.value(0)}, {{"repeats", *repeats}}));
}

// ---- Concat, Split ----

bool concat(NodeContext& n) {
  if (!n.arity(1, SIZE_MAX) || !n.same_types()) return false;
  if (!n.has_attribute("axis")) return n.fail("T0708", "attribute 'axis' is missing");
  const int64_t axis = n.axis(n.integer("axis", 0), n.rank(0));
  for (size_t i = 0; i < n.input_count(); ++i) n.item(i);
  if (!n.ok()) return false;
  Extents known;
  bool all_known = n.rank(0) == 1 && is_in(n.dtype(0), kIndex);
  for (size_t i = 0; all_known && i < n.input_count(); ++i) {
    const Extents* part = n.rank(i) == 1 ? n.known(i) : nullptr;
    all_known = part != nullptr && known.size() + part->size() <= kMaxKnownElements;
    if (all_known) known.insert(known.end(), part->begin(), part->end());
  }
  if (all_known) {
    const auto count = static_cast<int64_t>(known.size());
    return n.set_known(0, std::move(known), {n.dim(count)}, n.dtype(0));
  }
  std::vector<Value> values;
  for (size_t i = 0; i < n.input_count(); ++i) {
    if (n.rank(i) != n.rank(0))
      return n.fail("T0713", cat("its inputs have the ranks ", n.rank(0), " and ", n.rank(i)));
    for (int64_t d = 0; d < n.rank(0); ++d) {
      if (d != axis && !n.require_equal(n.dims(0)[d], n.dims(i)[d], "dims of its inputs"))
        return false;
    }
    values.push_back(n.value(i));
  }
  return n.set(0, values.size() == 1 ? values[0] : n.build("concat", values, {{"dim", axis}}));
}

bool split_into(NodeContext& n, int64_t axis, const Dims& parts) {
  if (!n.ok()) return false;
  if (parts.size() != n.output_count()) {
    return n.fail("T0713", cat("it splits into ", parts.size(), " parts, and has ",
                               n.output_count(), " outputs"));
  }
  Dim total = n.dim(0);
  for (const Dim p : parts) total = total + p;
  if (!total.valid()) return n.fail("T0713", "the sum of its parts is beyond 64 bits");
  if (!n.require_equal(total, n.dims(0)[axis], "the sum of its parts and the dim")) return false;
  const std::vector<Value> operands = {n.value(0)};
  const std::vector<Attr> attrs = {{"dim", axis}, {"sizes", parts}};
  const Node node = n.builder().build_node("split", operands, attrs);
  for (uint32_t i = 0; node && i < parts.size(); ++i) n.set(i, node.result(i));
  return n.ok();
}

// Equal parts; from opset 18 on the last may be smaller.
bool split_evenly(NodeContext& n, int64_t axis, bool last_smaller) {
  const Dim whole = n.dims(0)[axis];
  const auto count = static_cast<int64_t>(n.output_count());
  if (!whole.is_constant()) {
    const Dim each = (whole + n.dim(last_smaller ? count - 1 : 0)) / n.dim(count);
    if (!last_smaller) return split_into(n, axis, Dims(count, each));
    Dims parts;
    for (int64_t i = 0; i < count; ++i)
      parts.push_back(min(each, at_least_zero(n.graph(), whole - each * n.dim(i))));
    return split_into(n, axis, parts);
  }
  const int64_t each = whole.constant() / count + (whole.constant() % count != 0 ? 1 : 0);
  if (!last_smaller && each * count != whole.constant()) {
    return n.fail("T0713", cat("a dim of ", whole.constant(), " cannot be split into ", count,
                               " equal parts"));
  }
  Dims parts;
  int64_t left = whole.constant();
  for (int64_t i = 0; i < count; ++i) {
    parts.push_back(n.dim(std::min(each, left)));
    left -= std::min(each, left);
  }
  return split_into(n, axis, parts);
}

bool split_sizes(NodeContext& n, int64_t axis, const Extents& given) {
  const auto parts = sizes(n, given, "the part");
  return parts && split_into(n, axis, *parts);
}

bool split_attribute(NodeContext& n) {
  if (!n.arity(1, 1, SIZE_MAX)) return false;
  const int64_t axis = n.axis(n.integer("axis", 0), n.rank(0));
  if (!n.ok()) return false;
  if (!n.has_attribute("split")) return split_evenly(n, axis, false);
  Extents parts;
  for (const int64_t part : n.integers("split")) parts.push_back(Extent::of(part));
  return split_sizes(n, axis, parts);
}
bool split(NodeContext& n) {
  if (!n.arity(1, 2, SIZE_MAX)) return false;
  const int64_t axis = n.axis(n.integer("axis", 0), n.rank(0));
  const int64_t count = n.integer("num_outputs", static_cast<int64_t>(n.output_count()));
  if (!n.ok()) return false;
  if (count != static_cast<int64_t>(n.output_count()))
    return n.fail("T0713",
                  cat("'num_outputs' is ", count, ", and it has ", n.output_count(), " outputs"));
  if (!n.has(1)) return split_evenly(n, axis, n.version() >= 18);
  const Extents* given = n.need(1, "the sizes of the parts");
  return given != nullptr && split_sizes(n, axis, *given);
}

// ---- Others ----

bool depth_to_space(NodeContext& n) {
  if (!n.arity(1, 1)) return false;
  const int64_t b = n.integer("blocksize", 0);
  const std::string_view mode = n.text("mode", "DCR");
  const Dims d = n.dims(0);
  if (b < 1 || b > 65536) return n.fail("T0708", "attribute 'blocksize' must be positive");
  if (d.size() != 4) return n.fail("T0713", "it needs an input of rank 4");
  if (mode != "DCR" && mode != "CRD") return n.fail("T0708", "attribute 'mode' must be DCR or CRD");
  const Dim block = n.dim(b), rest = n.quotient({d[1]}, {block, block});
  if (!n.ok()) return false;
  const bool dcr = mode == "DCR";
  const Value split = n.reshape(n.value(0), dcr ? Dims{d[0], block, block, rest, d[2], d[3]}
                                                : Dims{d[0], rest, block, block, d[2], d[3]});
  const Value moved = n.transpose(
      split, dcr ? std::vector<int64_t>{0, 3, 4, 1, 5, 2} : std::vector<int64_t>{0, 1, 4, 2, 5, 3});
  return n.set(0, n.reshape(moved, {d[0], rest, d[2] * block, d[3] * block}));
}

bool space_to_depth(NodeContext& n) {
  if (!n.arity(1, 1)) return false;
  const int64_t b = n.integer("blocksize", 0);
  const std::string_view mode = n.text("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") return n.fail("T0708", "attribute 'mode' must be DCR or CRD");
  const Dims d = n.dims(0);
  if (b < 1 || b > 65536) return n.fail("T0708", "attribute 'blocksize' must be positive");
  if (d.size() != 4) return n.fail("T0713", "it needs an input of rank 4");
  const Dim block = n.dim(b), h = n.quotient({d[2]}, {block}), w = n.quotient({d[3]}, {block});
  if (!n.ok()) return false;
  const Value moved = n.transpose(n.reshape(n.value(0), {d[0], d[1], h, block, w, block}),
                                  mode == "DCR" ? std::vector<int64_t>{0, 3, 5, 1, 2, 4}
                                                : std::vector<int64_t>{0, 1, 3, 5, 2, 4});
  return n.set(0, n.reshape(moved, {d[0], d[1] * block * block, h, w}));
}

// Inference only: returns the input, and a mask that keeps everything.
bool dropout(NodeContext& n) {
  n.number("ratio", 0.5);
  if (n.version() < 7 && n.integer("is_test", 0) == 0)
    return n.fail("T0714", "training mode is not supported; attribute 'is_test' is 0");
  n.integer("seed", 0);
  if (!n.arity(1, 3, 2)) return false;
  if (n.has(2)) {
    const auto training = n.need_constants(2, "whether it trains");
    if (!training) return false;
    if (training->size() != 1 || training->front() != 0)
      return n.fail("T0714", "training mode is not supported");
  }
  if (n.wants(1)) n.set(1, n.builder().full(TENON_PRED, n.dims(0), 1));
  return n.set(0, n.item(0));
}

constexpr auto kTable = std::to_array<OpImporter>({
    {"Shape", 1, shape},
    {"Size", 1, size},
    {"Constant", 1, constant},
    {"ConstantOfShape", 9, constant_of_shape},
    {"Reshape", 5, reshape},
    {"Flatten", 1, flatten},
    {"Squeeze", 1, squeeze_attribute},
    {"Squeeze", 13, squeeze},
    {"Unsqueeze", 1, unsqueeze_attribute},
    {"Unsqueeze", 13, unsqueeze},
    {"Transpose", 1, transpose},
    {"Expand", 8, expand},
    {"Tile", 6, tile},
    {"Concat", 4, concat},
    {"Split", 2, split_attribute},
    {"Split", 13, split},
    {"DepthToSpace", 1, depth_to_space},
    {"SpaceToDepth", 1, space_to_depth},
    {"Dropout", 1, dropout},
});

}  // namespace

std::span<const OpImporter> shape_importers() {
  return kTable;
}

}  // namespace tenon::onnx
