// QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear.
#include <array>

#include "frontends/onnx/ops/quantise/quantise.h"

namespace tenon::onnx {
namespace {

constexpr std::string_view kMicrosoft = "com.microsoft";

// Reads axis and block_size where scales have more than one element.
std::optional<Along> read_along(NodeContext& n) {
  Along out;
  const int64_t axis = n.integer("axis", 1);
  out.block = n.integer("block_size", 0);
  if (out.block < 0) {
    n.fail("T0708", cat("attribute 'block_size' is ", out.block, ", and must not be negative"));
    return {};
  }
  bool several = out.block > 0;
  for (const Dim d : n.dims(1)) several |= !d.is(1);
  if (!n.ok()) return {};
  if (several) out.axis = n.axis(axis, n.rank(0));
  if (several && out.block == 0 && n.rank(1) != 1)
    n.fail("T0713", cat("its scale has rank ", n.rank(1), ", and needs 0 or 1"));
  return n.ok() ? std::optional(out) : std::nullopt;
}

// An attribute that names an element type; `otherwise` where it is absent or 0.
tenon_dtype_t named_type(NodeContext& n, std::string_view name, tenon_dtype_t otherwise) {
  const int64_t given = n.integer(name, 0);
  if (given == 0) return otherwise;
  const tenon_dtype_t type = given > 0 && given < 1000 ? dtype_of_onnx(static_cast<int32_t>(given))
                                                       : tenon_dtype_t{TENON_DTYPE_NONE};
  if (type == TENON_DTYPE_NONE)
    n.fail("T0710",
           cat("attribute '", name, "' is ", given, ", an element type that is not supported"));
  return type;
}

bool quantize_linear(NodeContext& n) {
  if (!n.arity(2, 3)) return false;
  n.integer("saturate", 1);  // read again where a type saturates or not
  if (!check_scale(n, 1, ScaleUse::kQuantise)) return false;
  const auto along = read_along(n);
  if (!along) return false;
  const tenon_dtype_t named = named_type(n, "output_dtype", TENON_DTYPE_NONE);
  const tenon_dtype_t type = zero_type(n, 2, named != TENON_DTYPE_NONE ? named : TENON_U8);
  if (n.ok() && named != TENON_DTYPE_NONE && named != type)
    return n.fail("T0710", cat("attribute 'output_dtype' is ", dtype_name(named),
                               ", its zero point has ", dtype_name(type)));
  const tenon_dtype_t precision = named_type(n, "precision", n.dtype(1));
  if (!n.ok() || !is_float(precision))
    return n.fail("T0710", cat("it divides in ", dtype_name(precision), ", and needs floats"));
  return set_quantised(n, n.convert(n.value(0), precision), 1, 2, type, *along);
}

bool dequantize_linear(NodeContext& n) {
  if (!n.arity(2, 3)) return false;
  const auto along = read_along(n);
  if (!along) return false;
  const tenon_dtype_t type = named_type(n, "output_dtype", n.dtype(1));
  const Value real = n.convert(dequantised(n, Quantised{}, *along), type);
  return n.set(0, real);
}

bool dynamic_quantize_linear(NodeContext& n) {
  if (!n.arity(1, 1, 3)) return false;
  if (n.dtype(0) != TENON_F32)
    return n.fail("T0710",
                  cat("its input has element type ", dtype_name(n.dtype(0)), ", and needs f32"));
  const Value x = n.value(0);
  if (!x.valid()) return n.ok();
  const Dynamic made = quantise_dynamically(n.builder(), x);
  return n.set(0, made.q) && n.set(1, made.scale) && n.set(2, made.zero);
}

constexpr auto kTable = std::to_array<OpImporter>({
    {"QuantizeLinear", 10, quantize_linear},
    {"DequantizeLinear", 10, dequantize_linear},
    {"QuantizeLinear", 1, quantize_linear, kMicrosoft},
    {"DequantizeLinear", 1, dequantize_linear, kMicrosoft},
    {"DynamicQuantizeLinear", 11, dynamic_quantize_linear},
});

}  // namespace

std::span<const OpImporter> quantise_importers() {
  return kTable;
}

}  // namespace tenon::onnx
