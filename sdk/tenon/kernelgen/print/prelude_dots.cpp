// Dot products along memory: a row with keys, each of which is contiguous.
#include "tenon/kernelgen/print/prelude.h"

namespace tenon::kernelgen {
namespace {

std::string number(int64_t v) {
  return std::to_string(v);
}

// Lanes of the two vectors whose sum holds, in half as many places per key, what a and b hold: of
// pairs within 16 bytes, then of halves of 16 bytes, then of blocks of 16 bytes. After all steps
// lane l is the sum of vector l. Each is one instruction on x86.
std::string folded_lanes(uint32_t lanes, uint32_t step, bool second) {
  std::string out;
  const auto pick = [&](bool of_b, uint32_t lane) {
    out += ", " + number(int64_t{of_b ? lanes : 0} + lane);
  };
  for (uint32_t l = 0; l < lanes; ++l) {
    const uint32_t block = l / 4 * 4, in = l % 4;
    if (step == 0) pick(in % 2 != 0, block + in / 2 + (second ? 2 : 0));
    if (step == 1) pick(in >= 2, block + in % 2 + (second ? 2 : 0));
    if (step > 1) pick(l >= lanes / 2, l % (lanes / 2) / 4 * 8 + in + (second ? 4 : 0));
  }
  return out;
}

}  // namespace

// Eight keys at a time have a chain of sums each. What is left of the features is one more vector
// that ends with the last, without the lanes that have been added before. Keys beyond the last
// repeat it.
std::string Prelude::need_dots(DType t, uint32_t lanes) {
  const std::string name = "dots_" + suffix(t, lanes);
  if (!known_.insert(name).second) return name;
  const std::string V = type(t, lanes), P = type(TENON_PRED, lanes), E = memory_type(t),
                    L = number(lanes);
  const auto load = [&](const std::string& at) { return "*(const " + V + "_u*)(" + at + ")"; };
  const auto sum = [](uint32_t i) { return "s" + number(i); };
  std::string iota;
  for (uint32_t l = 0; l < lanes; ++l) iota += (l ? ", " : "") + number(l);
  std::string s =
      "static __attribute__((noinline)) void " + name + "(const " + E + "* q, const " + E +
      "* k, i64 ks, i64 n, i64 keys, " + E + "* c) {\n  const i64 whole = n - n % " + L +
      "; const " + P + " rest = (" + P + "){" + iota + "} >= (" + P + ")(i32)(" + L + " - n % " +
      L + "); const " + V + " zero = (" + V + ")0;\n  for (i64 j = 0; j < " + "keys; j += " + L +
      ") {\n    const i64 last = keys - 1 - j; const " + E + "* const at = k + j * ks;\n   ";
  for (uint32_t i = 0; i < lanes; ++i) s += " " + V + " " + sum(i) + " = zero;";
  for (uint32_t first = 0; first < lanes; first += 8) {
    const uint32_t end = first + 8 < lanes ? first + 8 : lanes;
    std::string keys, whole, rest;
    for (uint32_t i = first; i < end; ++i) {
      const std::string k = "k" + number(i);
      keys += " const " + E + "* " + k + " = at + (last < " + number(i) + " ? last : " + number(i) +
              ") * ks;";
      whole += " " + sum_of(t, lanes, sum(i), "x", load(k + " + d"));
      rest += " " + sum_of(t, lanes, sum(i), "x",
                           "SEL(" + V + ", rest, " + load(k + " + n - " + L) + ", zero)");
    }
    s += "\n    {\n     " + keys + "\n      for (i64 d = 0; d < whole; d += " + L + ") { const " +
         V + " x = " + load("q + d") + ";" + whole + " }\n      if (whole < n) { const " + V +
         " x = SEL(" + V + ", rest, " + load("q + n - " + L) + ", zero);" + rest + " }\n    }";
  }
  for (uint32_t left = lanes, step = 0; left > 1; left /= 2, ++step) {
    s += "\n   ";
    for (uint32_t i = 0; i < left / 2; ++i) {
      const std::string pair = sum(2 * i) + ", " + sum(2 * i + 1);
      s += " " + sum(i) + " = __builtin_shufflevector(" + pair + folded_lanes(lanes, step, false) +
           ") + __builtin_shufflevector(" + pair + folded_lanes(lanes, step, true) + ");";
    }
  }
  functions_ += s + "\n    *(" + V + "_u*)(c + j) = s0;\n  }\n}\n";
  return name;
}

}  // namespace tenon::kernelgen
