// Shared by the control-flow ops: the rules that relate a node's operands to the arguments and
// yields of its regions, and helpers of references that copy arrays.
#ifndef TENON_PLUGINS_OPS_CONTROL_H_
#define TENON_PLUGINS_OPS_CONTROL_H_

#include <algorithm>
#include <optional>

#include "common.h"

namespace tenon::ops {

// Every element type of whole bytes; no tokens, no objects.
inline constexpr tenon_dtypes_t kTensor = kWhole & ~dtype_bit(TENON_DTYPE_NONE);

inline Region region_of(const InferQuery& q, uint32_t i) {
  return Region(q.raw().graph, q.raw().regions[i]);
}

inline tenon_symbol_view_t symbol_view(tenon_graph_t* graph, tenon_symbol_t symbol) {
  auto out = sized<tenon_symbol_view_t>();
  (void)graph_api().symbol_view(graph_api().self, graph, symbol, &out);
  return out;
}

// The symbol, if the dim is a symbol and nothing more.
inline std::optional<tenon_symbol_t> bare_symbol(Dim d) {
  if (!d.valid() || d.is_constant()) return {};
  auto view = sized<tenon_dim_view_t>();
  if (graph_api().dim_view(graph_api().self, d.graph(), d.raw(), &view) != TENON_OK) return {};
  if (view.op != TENON_DIM_SYMBOL) return {};
  return view.symbol;
}

// Whether a dim of a value of `region` mentions a symbol that is defined only inside the region.
inline bool is_inner(Region region, Dim d) {
  if (!d.valid() || d.is_constant()) return false;
  auto view = sized<tenon_dim_view_t>();
  if (graph_api().dim_view(graph_api().self, d.graph(), d.raw(), &view) != TENON_OK) return true;
  if (view.op == TENON_DIM_CONSTANT) return false;
  if (view.op != TENON_DIM_SYMBOL) {
    return is_inner(region, Dim(d.graph(), view.a)) || is_inner(region, Dim(d.graph(), view.b));
  }
  const tenon_symbol_view_t symbol = symbol_view(d.graph(), view.symbol);
  if (symbol.node != TENON_NONE) return Node(d.graph(), symbol.node).view().parent == region.id();
  return symbol.region == region.id();
}

// Whether a dim of a region's argument is left open: it is a symbol that the region itself defines.
inline bool is_open(Region region, Dim d) {
  const auto symbol = bare_symbol(d);
  return symbol && symbol_view(d.graph(), *symbol).node == TENON_NONE && is_inner(region, d);
}

inline std::string type_words(const TypeView& type) {
  return cat(type.kind() == TENON_KIND_TENSOR ? dtype_name(type.dtype()) : "no tensor", " of rank ",
             type.rank());
}

// Requires equal kind, element type and rank.
inline Status require_form(const InferQuery& q, std::string_view label, const TypeView& a,
                           const TypeView& b, std::string_view what) {
  if (a.kind() == b.kind() && a.dtype() == b.dtype() && a.rank() == b.rank()) return {};
  return q.fail(label, cat(what, ": ", type_words(a), " and ", type_words(b)));
}

// Requires that argument `index` of a region can receive a value of type `given`. With `open`, a
// dim may be a symbol of the region that no other argument's type mentions: it accepts any size.
inline Status require_argument(const InferQuery& q, std::string_view label, Region region,
                               uint32_t index, const TypeView& given, bool open) {
  const std::vector<Value> arguments = region.arguments();
  const TypeView type = arguments[index].type();
  const std::string what = cat("argument ", index, " and its value");
  TENON_TRY(require_form(q, label, type, given, what));
  for (uint32_t d = 0; d < type.rank(); ++d) {
    if (!open || !is_open(region, type.dim(d))) {
      if (is_inner(region, type.dim(d))) {
        return q.fail(label, cat("dim ", d, " of argument ", index, " is a symbol of the region"));
      }
      TENON_TRY(q.require_equal(label, type.dim(d), given.dim(d), cat("dim ", d, " of ", what)));
      continue;
    }
    int uses = 0;
    for (const Value& v : arguments) {
      for (const Dim& other : v.dims()) uses += other == type.dim(d) ? 1 : 0;
    }
    if (uses != 1)
      return q.fail(label,
                    cat("dim ", d, " of argument ", index, " is a symbol that occurs twice"));
  }
  return {};
}

// Requires that a region's arguments are the `count` operands from `first` on.
inline Status require_arguments(const InferQuery& q, std::string_view label, Region region,
                                uint32_t first, uint32_t count, bool open) {
  const tenon_region_view_t view = region.view();
  if (view.argument_count != count) {
    return q.fail(label,
                  cat("a region has ", view.argument_count, " arguments for ", count, " values"));
  }
  for (uint32_t i = 0; i < count; ++i) {
    TENON_TRY(require_argument(q, label, region, i, q.type(first + i), open));
  }
  return {};
}

// Requires that yield `index` can become the same argument of the next iteration.
inline Status require_carried(const InferQuery& q, std::string_view label, Region region,
                              uint32_t index) {
  const TypeView argument = region.arguments()[index].type();
  const TypeView yield = region.yields()[index].type();
  TENON_TRY(require_form(q, label, argument, yield, cat("argument and yield ", index)));
  for (uint32_t d = 0; d < argument.rank(); ++d) {
    if (is_open(region, argument.dim(d))) continue;
    // A size that changes between iterations is compared in each iteration (T0324); a fact would
    // bind the symbol for good.
    if (is_inner(region, yield.dim(d)) &&
        compare(TENON_REL_EQ, argument.dim(d), yield.dim(d)) != TENON_NO)
      continue;
    TENON_TRY(q.require_equal(label, argument.dim(d), yield.dim(d),
                              cat("dim ", d, " of argument and yield ", index)));
  }
  return {};
}

// The dims of a yield. Requires that they have the same meaning outside the region.
inline Status require_outside(const InferQuery& q, std::string_view label, Region region,
                              const Value& yield, Dims* out) {
  *out = yield.dims();
  for (size_t d = 0; d < out->size(); ++d) {
    if (is_inner(region, (*out)[d]))
      return q.fail(label, cat("dim ", d, " of a yield is known only inside the region"));
  }
  return {};
}

// A data-dependent dim, known only after the run.
inline Dim fresh_dim(const InferQuery& q, int64_t lo, int64_t hi, int64_t multiple_of = 1) {
  tenon_symbol_t symbol = 0;
  if (graph_api().symbol_fresh(graph_api().self, q.raw().graph, lo, hi, multiple_of, &symbol) !=
      TENON_OK) {
    return Dim::invalid();
  }
  return Dim(q.raw().graph, symbol_view(q.raw().graph, symbol).dim);
}

// The known range of a dim.
struct DimRange {
  int64_t lo = 0, hi = std::numeric_limits<int64_t>::max();
};
inline DimRange range_of(Dim d) {
  if (d.is_constant()) return {d.constant(), d.constant()};
  auto view = sized<tenon_dim_view_t>();
  if (!d.valid() || graph_api().dim_view(graph_api().self, d.graph(), d.raw(), &view) != TENON_OK)
    return {};
  return {std::max<int64_t>(view.lo, 0), view.hi};
}

// ---- References ----

using Arrays = std::vector<tenon_array_t>;

// Records for `count` results.
inline Arrays rooms_for(uint32_t count) {
  return Arrays(count, sized<tenon_array_t>());
}
// The operands from the first one on.
inline Arrays operands_from(const Eval& e, uint32_t first, uint32_t end) {
  Arrays all;
  for (uint32_t i = first; i < end; ++i) all.push_back(*tenon_array_at(e.raw().inputs, i));
  return all;
}

// Runs a region. `out` is valid until the same region has run twice more.
inline Status run_region(const Eval& e, uint32_t region, const Arrays& in, Arrays* out) {
  if (e.cancelled()) return TENON_CANCELLED;
  return e.raw().run_region(e.raw().host, region, in.data(), static_cast<uint32_t>(in.size()),
                            out->data(), static_cast<uint32_t>(out->size()));
}

// Copies an array to output i.
inline Status give_output(const Eval& e, uint32_t i, const tenon_array_t& from) {
  if (tenon_array_at(e.raw().outputs, i)->data == nullptr) {
    TENON_TRY(e.raw().alloc_output(e.raw().host, i, from.dims, from.rank));
  }
  const Array to = e.output(i), source(from);
  each_index(source.dims(), [&](const Index& at) { to.copy_from(at, source, at); });
  return {};
}

// Slice `at` along dim 0.
inline tenon_array_t slice_at(const tenon_array_t& from, int64_t at) {
  tenon_array_t out = from;
  out.rank -= 1;
  out.dims += 1;
  out.strides_bytes += 1;
  out.data = static_cast<std::byte*>(from.data) + at * from.strides_bytes[0];
  return out;
}

}  // namespace tenon::ops

#endif
