// The structural hash: 128 bits over a traversal that numbers values and symbols in order of
// definition, so that names, locations and symbol names do not count.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <new>
#include <unordered_map>

#include "core/base/errors/guard.h"
#include "core/base/intern.h"
#include "core/ir/form.h"

namespace tenon::ir {
namespace {

class Hasher {
 public:
  Hasher(const Graph& graph, uint64_t max_constant_bytes)
      : graph_(graph), max_constant_bytes_(max_constant_bytes), state_(XXH3_createState()) {
    XXH3_128bits_reset(state_);
  }
  ~Hasher() { XXH3_freeState(state_); }

  Result<Digest> run() {
    symbols_.assign(graph_.dims().symbol_count(), 0);
    if (max_constant_bytes_ != UINT64_MAX) number_constants();
    TENON_RETURN_IF_ERROR(region(graph_.main()));
    uint64_t sum = 0;  // order-independent sum over the facts
    for (const DimFact& f : graph_.facts()) {
      const uint64_t a = dim_hash(f.a), b = dim_hash(f.b);
      sum += (a * 0x9e3779b97f4a7c15ull) ^ (b + f.rel * 0xff51afd7ed558ccdull);
    }
    number(sum);
    const XXH128_hash_t h = XXH3_128bits_digest(state_);
    return Digest{h.low64, h.high64};
  }

 private:
  void bytes(const void* data, size_t size) { XXH3_128bits_update(state_, data, size); }
  void number(uint64_t v) { bytes(&v, sizeof v); }
  void text(std::string_view s) {
    number(s.size());
    bytes(s.data(), s.size());
  }
  uint64_t dim_hash(Dim d) { return graph_.dims().structural_hash(d, symbols_); }

  void define(Symbol s) {
    const SymbolData& d = graph_.dims().symbol(s);
    symbols_[s] = ++symbol_count_;
    number(static_cast<uint64_t>(d.lo));
    number(static_cast<uint64_t>(d.hi));
    number(static_cast<uint64_t>(d.multiple_of));
  }

  void type(const tenon_type_t& t) {
    number(t.kind | static_cast<uint64_t>(t.dtype) << 16 | static_cast<uint64_t>(t.rank) << 32);
    if (t.object != 0) text(sym_text(t.object));
    for (uint32_t i = 0; i < t.rank; ++i) number(dim_hash(t.dims[i]));
  }

  Status use(Value v) {
    if (v == kNone) {
      number(~uint64_t{0});
      return {};
    }
    if (graph_.value(v).kind != TENON_VALUE_CONSTANT) {
      number(values_[v]);
      return {};
    }
    number(~uint64_t{1});
    type(graph_.type(v));
    if (max_constant_bytes_ != UINT64_MAX) number(places_[v]);
    Blob& blob = *graph_.value(v).blob;
    const std::span<const std::byte> element = blob.splat_element();
    if (blob.size_bytes() > max_constant_bytes_ && element.empty()) return {};
    if (blob.size_bytes() > max_constant_bytes_) {
      text({reinterpret_cast<const char*>(element.data()), element.size()});
      return {};
    }
    TENON_ASSIGN_OR_RETURN(const Digest d, blob.digest());
    number(d.lo);
    number(d.hi);
    return {};
  }

  // Numbered in order of values: two uses of one constant must differ from uses of two constants
  // whose bytes are not read.
  void number_constants() {
    uint64_t count = 0;
    for (Value v = 0; v < graph_.value_limit(); ++v) {
      if (graph_.value(v).kind == TENON_VALUE_CONSTANT) places_[v] = ++count;
    }
    number(count);
  }

  Status attr(const tenon_attr_t& a) {
    text(sym_text(a.name));
    number(a.kind);
    number(a.count);
    switch (a.kind) {
      case TENON_ATTR_I64:
      case TENON_ATTR_DTYPE:
        number(static_cast<uint64_t>(a.u.i));
        break;
      case TENON_ATTR_F64:
        bytes(&a.u.f, sizeof a.u.f);
        break;
      case TENON_ATTR_STRING:
        text({a.u.s.data, a.u.s.size});
        break;
      case TENON_ATTR_I64S:
        bytes(a.u.is, a.count * sizeof(int64_t));
        break;
      case TENON_ATTR_F64S:
        bytes(a.u.fs, a.count * sizeof(double));
        break;
      case TENON_ATTR_STRINGS:
        for (uint64_t i = 0; i < a.count; ++i) text({a.u.ss[i].data, a.u.ss[i].size});
        break;
      case TENON_ATTR_DIMS:
        for (uint64_t i = 0; i < a.count; ++i) number(dim_hash(a.u.dims[i]));
        break;
      case TENON_ATTR_TYPES:
        for (uint64_t i = 0; i < a.count; ++i) type(a.u.types[i]);
        break;
      case TENON_ATTR_BLOB:
        if (a.u.blob != nullptr) {
          TENON_ASSIGN_OR_RETURN(const Digest d, Blob::from(a.u.blob)->digest());
          number(d.lo);
          number(d.hi);
        }
        break;
      default:
        break;
    }
    return {};
  }

  Status node(Node n) {
    const NodeData& d = graph_.node(n);
    text(graph_.op_name(n));
    number(d.op_version);
    number(d.operand_count);
    for (Value v : graph_.operands(n)) TENON_RETURN_IF_ERROR(use(v));
    number(d.symbol_count);
    for (Symbol s : graph_.symbols(n)) define(s);
    number(d.attr_count);
    for (const tenon_attr_t& a : graph_.attrs(n)) TENON_RETURN_IF_ERROR(attr(a));
    number(d.region_count);
    for (Region r : graph_.regions(n)) TENON_RETURN_IF_ERROR(region(r));
    number(d.result_count);
    for (Value v : graph_.results(n)) {
      values_[v] = ++value_count_;
      type(graph_.type(v));
    }
    return {};
  }

  Status region(Region r) {
    const RegionData& d = graph_.region(r);
    number(d.symbols.size());
    for (Symbol s : d.symbols) define(s);
    number(d.arguments.size());
    for (Value v : d.arguments) {
      values_[v] = ++value_count_;
      type(graph_.type(v));
    }
    number(d.node_count);
    for (Node n : graph_.nodes(r)) TENON_RETURN_IF_ERROR(node(n));
    number(d.yields.size());
    for (Value v : d.yields) TENON_RETURN_IF_ERROR(use(v));
    return {};
  }

  const Graph& graph_;
  const uint64_t max_constant_bytes_;
  XXH3_state_t* state_;
  std::unordered_map<Value, uint64_t> values_, places_;
  std::vector<uint64_t> symbols_;
  uint64_t value_count_ = 0, symbol_count_ = 0;
};

}  // namespace

Result<Digest> Graph::structural_hash() const {
  return Hasher(*this, UINT64_MAX).run();
}

Result<Digest> form_hash(const Graph& graph, uint64_t max_constant_bytes) {
  return Hasher(graph, max_constant_bytes).run();
}

namespace {
tenon_code_t hash_slot(void*, tenon_graph_t* graph, uint64_t max_constant_bytes, uint64_t out[2]) {
  return guarded([&]() -> Status {
    TENON_ASSIGN_OR_RETURN(const Digest d, form_hash(*Graph::from(graph), max_constant_bytes));
    out[0] = d.lo;
    out[1] = d.hi;
    return {};
  });
}
}  // namespace

const tenon_host_form_t* host_form_table() {
  static constexpr tenon_host_form_t table = {sizeof(tenon_host_form_t), nullptr, hash_slot};
  return &table;
}

}  // namespace tenon::ir
