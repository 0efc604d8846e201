// Random numbers. ONNX leaves the generator open; here a node draws the same numbers at each call,
// from its seed and its place in the model, so that runs can be repeated and compared.
#include <array>
#include <bit>

#include <fmt/format.h>

#include "frontends/onnx/graph/importer.h"

namespace tenon::onnx {
namespace {

// The key of a node: its seed, or where it is. FNV-1a, since a key needs no more than to differ.
Value key_of(NodeContext& n) {
  const auto seed = static_cast<float>(n.number("seed", 0));
  uint32_t place = 2166136261u;
  for (const char c : n.has_attribute("seed") ? std::string() : n.place())
    place = (place ^ static_cast<unsigned char>(c)) * 16777619u;
  const uint32_t words[] = {std::bit_cast<uint32_t>(seed), place};
  const int64_t two[] = {2};
  return n.builder().constant(TENON_U32, two, words, sizeof words);
}
Value first_block(NodeContext& n) {
  return n.builder().scalar_int(TENON_U64, 0);
}

// The attribute dtype, an ONNX number; `otherwise` where it is not given.
tenon_dtype_t type_of(NodeContext& n, tenon_dtype_t otherwise) {
  if (!n.has_attribute("dtype")) return otherwise;
  const int64_t given = n.integer("dtype", 0);
  const tenon_dtype_t type =
      given > 0 && given < 64 ? dtype_of_onnx(static_cast<int32_t>(given)) : TENON_DTYPE_NONE;
  if (type == TENON_DTYPE_NONE)
    n.fail("T0710", fmt::format("attribute 'dtype' is {}, which is not supported", given));
  return type;
}

bool drawn(NodeContext& n) {
  const bool like = n.op().ends_with("Like"), normal = n.op().starts_with("RandomNormal");
  if (!n.arity(like ? 1 : 0, like ? 1 : 0)) return false;
  const tenon_dtype_t given = like ? n.dtype(0) : tenon_dtype_t{TENON_F32};
  const tenon_dtype_t type = type_of(n, given);
  if (n.ok() && !is_float(type)) return n.fail("T0710", "its result must be of floats");
  Dims shape;
  if (like) shape = n.dims(0);
  if (!like && !n.has_attribute("shape")) return n.fail("T0708", "attribute 'shape' is missing");
  for (const int64_t size : like ? std::vector<int64_t>() : n.integers("shape")) {
    if (size < 0) return n.fail("T0708", cat("attribute 'shape' has the negative size ", size));
    shape.push_back(n.dim(size));
  }
  const Value key = key_of(n), block = first_block(n);
  if (normal) {
    return n.set(0, n.build("normal", {key, block},
                            {{"shape", shape},
                             {"dtype", dtype(type)},
                             {"mean", n.number("mean", 0)},
                             {"std", n.number("scale", 1)}}));
  }
  return n.set(0, n.build("uniform", {key, block},
                          {{"shape", shape},
                           {"dtype", dtype(type)},
                           {"low", n.number("low", 0)},
                           {"high", n.number("high", 1)}}));
}

bool bernoulli(NodeContext& n) {
  if (!n.arity(1, 1)) return false;
  const tenon_dtype_t type = type_of(n, n.dtype(0));
  const Value hit = n.build("bernoulli", {n.value(0), key_of(n), first_block(n)});
  return n.set(0, n.convert(hit, type));
}

// Its rows are logarithms of weights, of which only differences count.
bool multinomial(NodeContext& n) {
  if (!n.arity(1, 1)) return false;
  const tenon_dtype_t type = type_of(n, TENON_I32);
  const int64_t count = n.integer("sample_size", 1);
  if (n.rank(0) != 2) return n.fail("T0713", "its input needs rank 2");
  if (count < 1) return n.fail("T0708", "attribute 'sample_size' must be positive");
  const Value weights = n.build("softmax", {n.value(0)}, {{"dim", 1}});
  return n.set(0, n.build("multinomial", {weights, key_of(n), first_block(n)},
                          {{"count", Dims{n.dim(count)}}, {"dtype", dtype(type)}}));
}

constexpr auto kTable = std::to_array<OpImporter>({
    {"RandomNormal", 1, drawn},
    {"RandomUniform", 1, drawn},
    {"RandomNormalLike", 1, drawn},
    {"RandomUniformLike", 1, drawn},
    {"Bernoulli", 15, bernoulli},
    {"Multinomial", 7, multinomial},
});

}  // namespace

std::span<const OpImporter> random_importers() {
  return kTable;
}

}  // namespace tenon::onnx
