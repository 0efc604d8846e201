#include "control/control_program.h"

#include <cstring>

#include "native/native_ops.h"
#include "tenon/cpp/plugin.hpp"

namespace tenon::cpu {
namespace {

constexpr uint64_t kCountMax = uint64_t{1} << 24;

// One traversal of the record serves writing and reading, so fields are listed once.
class Writer {
 public:
  static constexpr bool kReads = false;
  bool ok() const { return true; }
  template <class T>
  void number(T& v) {
    out_.append(reinterpret_cast<const char*>(&v), sizeof v);
  }
  void text(std::string& s) {
    uint64_t n = s.size();
    number(n);
    out_ += s;
  }
  uint64_t count(uint64_t n) {
    number(n);
    return n;
  }
  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

class Reader {
 public:
  static constexpr bool kReads = true;
  explicit Reader(std::string_view bytes) : rest_(bytes) {}
  bool ok() const { return ok_; }
  bool whole() const { return ok_ && rest_.empty(); }
  template <class T>
  void number(T& v) {
    v = T{};
    if (rest_.size() < sizeof v) {
      ok_ = false;
      return;
    }
    memcpy(&v, rest_.data(), sizeof v);
    rest_.remove_prefix(sizeof v);
  }
  void text(std::string& s) {
    const uint64_t n = count(0);
    s = std::string(rest_.substr(0, n));
    rest_.remove_prefix(n);
  }
  // No list has more entries than bytes remain.
  uint64_t count(uint64_t) {
    uint64_t n = 0;
    number(n);
    if (n > kCountMax * 64 || n > rest_.size()) ok_ = false;
    return ok_ ? n : 0;
  }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

template <class W, class T, class Each>
void list(W& w, std::vector<T>& items, Each&& each) {
  const uint64_t n = w.count(items.size());
  if constexpr (W::kReads) items.clear();
  for (uint64_t i = 0; i < n && w.ok(); ++i) {
    if constexpr (W::kReads) items.emplace_back();
    each(w, items[i]);
  }
}
template <class W, class T>
void numbers(W& w, std::vector<T>& items) {
  list(w, items, [](W& each, T& v) { each.number(v); });
}
template <class W>
void size(W& w, kernelgen::SizeProgram& p) {
  numbers(w, p.words);
}
template <class W>
void sizes(W& w, std::vector<ControlSize>& items) {
  list(w, items, [](W& each, ControlSize& s) {
    each.number(s.symbol);
    each.number(s.index);
    each.number(s.dim);
  });
}
template <class W>
void value(W& w, ControlValue& v) {
  w.number(v.kind);
  w.number(v.data_dependent);
  w.number(v.mixed);
  w.number(v.index);
  w.number(v.element_bytes);
  w.number(v.dtype);
  list(w, v.dims, [](W& each, kernelgen::SizeProgram& p) { size(each, p); });
}
template <class W>
void part(W& w, ControlPart& p) {
  w.number(p.kind);
  w.number(p.artifact);
  for (auto* items : {&p.inputs, &p.outputs, &p.symbols, &p.constants, &p.regions})
    numbers(w, *items);
  sizes(w, p.defines);
  w.number(p.carried);
  w.number(p.reverse);
  w.number(p.max_trip);
  size(w, p.length);
  w.text(p.native);
  numbers(w, p.parameters);
  w.text(p.place);
}
template <class W>
void region(W& w, ControlRegion& r) {
  numbers(w, r.arguments);
  numbers(w, r.yields);
  sizes(w, r.opens);
  sizes(w, r.checks);
  list(w, r.parts, [](W& each, ControlPart& p) { part(each, p); });
}
template <class W>
void fact(W& w, ControlFact& f) {
  w.number(f.rel);
  size(w, f.a);
  size(w, f.b);
  numbers(w, f.symbols);
  w.text(f.place);
}
template <class W>
void program(W& w, ControlProgram& p) {
  w.number(p.symbol_count);
  w.number(p.input_count);
  w.number(p.constant_count);
  numbers(w, p.main_symbols);
  numbers(w, p.out_symbols);
  numbers(w, p.bounds);
  numbers(w, p.lows);
  numbers(w, p.multiples);
  list(w, p.values, [](W& each, ControlValue& v) { value(each, v); });
  list(w, p.regions, [](W& each, ControlRegion& r) { region(each, r); });
  list(w, p.facts, [](W& each, ControlFact& f) { fact(each, f); });
  list(w, p.artifacts, [](W& each, std::string& s) { each.text(s); });
}

bool below(const std::vector<uint32_t>& items, uint64_t limit) {
  for (uint32_t i : items) {
    if (i >= limit) return false;
  }
  return true;
}

// Checks that indices are in range, so that a run needs no checks.
class Checker {
 public:
  explicit Checker(const ControlProgram& p) : p_(p) {}
  bool run() const {
    if (p_.symbol_count > kCountMax || p_.bounds.size() != p_.symbol_count ||
        p_.lows.size() != p_.symbol_count || p_.multiples.size() != p_.symbol_count ||
        p_.regions.empty() || !below(p_.main_symbols, p_.symbol_count) ||
        !below(p_.out_symbols, p_.symbol_count)) {
      return false;
    }
    for (const ControlValue& v : p_.values) {
      if (v.kind > ControlValue::Kind::kLocal || v.dims.size() > TENON_RANK_MAX) return false;
      if (v.kind == ControlValue::Kind::kInput && v.index >= p_.input_count) return false;
      if (v.kind == ControlValue::Kind::kConstant && v.index >= p_.constant_count) return false;
    }
    for (const ControlFact& f : p_.facts) {
      if (!below(f.symbols, p_.symbol_count)) return false;
    }
    for (uint32_t r = 0; r < p_.regions.size(); ++r) {
      const ControlRegion& region = p_.regions[r];
      if (!below(region.arguments, p_.values.size()) || !below(region.yields, p_.values.size()))
        return false;
      if (!sizes_fit(region.opens, region.arguments) ||
          !sizes_fit(region.checks, region.arguments) || !sizes_fit(region.checks, region.yields)) {
        return false;
      }
      for (const ControlPart& part : region.parts) {
        if (!fits(part, r)) return false;
      }
    }
    return true;
  }

 private:
  bool sizes_fit(const std::vector<ControlSize>& sizes, const std::vector<uint32_t>& values) const {
    for (const ControlSize& s : sizes) {
      if (s.symbol >= p_.symbol_count || s.index >= values.size() ||
          s.dim >= p_.values[values[s.index]].dims.size()) {
        return false;
      }
    }
    return true;
  }
  bool fits(const ControlPart& part, uint32_t region) const {
    if (part.kind > ControlPart::Kind::kBarrier || !below(part.inputs, p_.values.size()) ||
        !below(part.outputs, p_.values.size()) || !sizes_fit(part.defines, part.outputs)) {
      return false;
    }
    if (part.kind == ControlPart::Kind::kKernels) {
      return part.artifact < p_.artifacts.size() && below(part.symbols, p_.symbol_count) &&
             below(part.constants, p_.constant_count);
    }
    if (part.kind == ControlPart::Kind::kNative) return part.regions.empty() && native_fits(part);
    if (part.kind == ControlPart::Kind::kBarrier)
      return part.regions.empty() && part.inputs.size() == part.outputs.size();
    // Regions come after the one that contains them, so there are no cycles.
    for (uint32_t r : part.regions) {
      if (r <= region || r >= p_.regions.size() || !counts_fit(part, r)) return false;
    }
    const size_t wanted = part.kind == ControlPart::Kind::kWhile  ? 2
                          : part.kind == ControlPart::Kind::kScan ? 1
                                                                  : 0;
    return wanted == 0 ? !part.regions.empty() && !part.inputs.empty()
                       : part.regions.size() == wanted;
  }
  bool native_fits(const ControlPart& part) const {
    const NativeOp* op = find_native(part.native);
    if (op == nullptr) return false;
    NativeSignature signature;
    signature.parameters = part.parameters;
    const auto describe = [this](const std::vector<uint32_t>& values,
                                 std::vector<NativeType>* out) {
      for (uint32_t v : values) {
        const ControlValue& value = p_.values[v];
        out->push_back(
            {static_cast<tenon_dtype_t>(value.dtype), static_cast<uint32_t>(value.dims.size())});
        if (value.dtype >= elements::kDtypeEnd ||
            value.element_bytes != dtype_bytes(static_cast<tenon_dtype_t>(value.dtype)))
          return false;
      }
      return true;
    };
    return describe(part.inputs, &signature.inputs) && describe(part.outputs, &signature.outputs) &&
           op->takes(signature);
  }
  bool counts_fit(const ControlPart& part, uint32_t r) const {
    const ControlRegion& region = p_.regions[r];
    switch (part.kind) {
      case ControlPart::Kind::kSwitch:
        return region.arguments.size() + 1 == part.inputs.size() &&
               region.yields.size() == part.outputs.size();
      case ControlPart::Kind::kWhile:
        if (region.arguments.size() != part.inputs.size() ||
            part.outputs.size() < part.inputs.size())
          return false;
        return r == part.regions[0] ? region.yields.size() == 1
                                    : region.yields.size() == part.outputs.size();
      case ControlPart::Kind::kScan:
        return region.arguments.size() == part.inputs.size() &&
               region.yields.size() == part.outputs.size() && part.carried <= part.inputs.size() &&
               part.carried <= part.outputs.size();
      case ControlPart::Kind::kKernels:
      case ControlPart::Kind::kNative:
      case ControlPart::Kind::kBarrier:
        break;
    }
    return false;
  }
  const ControlProgram& p_;
};

}  // namespace

std::string ControlProgram::bytes() const {
  Writer w;
  ControlProgram copy = *this;  // The traversal takes a mutable program, because reading fills it.
  program(w, copy);
  return w.take();
}

Status ControlProgram::read(std::string_view bytes, ControlProgram& out) {
  Reader r(bytes);
  program(r, out);
  if (!r.whole() || !Checker(out).run()) {
    return fail(TENON_DATA_LOSS, "The artifact's record of control flow is malformed.");
  }
  return {};
}

}  // namespace tenon::cpu
