// Register tiles of convolutions. Rows are pixels, each with one address per tap of the filter.
// Padding is an address of zeros, so borders and strides do not appear here. Each function is added
// once, when a kernel calls it.
#include "tenon/kernelgen/print/prelude.h"

namespace tenon::kernelgen {
namespace {

std::string number(int64_t v) {
  return std::to_string(v);
}

std::string accumulator(uint32_t r, uint32_t v) {
  return "c" + number(r) + "_" + number(v);
}

std::string row_pointers(const std::string& element, uint32_t rows, const std::string& offset) {
  std::string s;
  for (uint32_t r = 0; r < rows; ++r) {
    s += " const " + element + "* a" + number(r) + " = (const " + element + "*)ap[t * " +
         number(rows) + " + " + number(r) + "]" + offset + ";";
  }
  return s;
}

}  // namespace

std::string Prelude::need_taps(DType t, uint32_t lanes, uint32_t rows, uint32_t vectors,
                               uint32_t steps) {
  const bool words = steps > 1;
  const std::string name = (steps == 4 ? "tapsb"
                            : words    ? "tapsh"
                                       : "taps") +
                           number(rows) + "x" + number(vectors) + "_" + suffix(t, lanes);
  if (!known_.insert(name).second) return name;
  // Integers wrap.
  const DType u = words ? DType{TENON_U32} : t;
  const std::string V = type(u, lanes), C = memory_type(u),
                    E = words ? memory_type(operand_type(t, steps, false)) : C,
                    F = words ? memory_type(operand_type(t, steps, true)) : C,
                    B = words ? word_vector(t, lanes, steps) : V;
  const std::string load = lanes > 1 ? "*(const " + B + "_u*)" : "*(const " + B + "*)";
  std::string s = "static __attribute__((noinline)) void " + name +
                  "(const i64* ap, const i64* bt, const " + F + "* b, i64 taps, i64 k, i64 bs, " +
                  C + "* c) {\n ";
  for (uint32_t r = 0; r < rows; ++r) {
    for (uint32_t v = 0; v < vectors; ++v)
      s += " " + V + " " + accumulator(r, v) + " = (" + V + ")0;";
  }
  auto each = [&](const std::string& assign, bool clear) {
    std::string out;
    for (uint32_t r = 0; r < rows; ++r) {
      for (uint32_t v = 0; v < vectors; ++v) {
        const std::string to = "*(" + V + (lanes > 1 ? "_u" : "") + "*)(c + " +
                               number(int64_t{r * vectors + v} * lanes) + ")";
        out += " " + to + assign + accumulator(r, v) + ";" +
               (clear ? " " + accumulator(r, v) + " = (" + V + ")0;" : "");
      }
    }
    return out;
  };
  // As in matrix products, sums are added to the tile after a block of steps, so that rounding
  // errors do not grow with the filter.
  s += "\n  i64 n = 0; int joined = 0; const i64 most = " + sum_block("taps * k") +
       ";\n  for (i64 t = 0; t < taps; ++t) {\n   " + row_pointers(E, rows, "") + "\n    const " +
       F + "* p = b + bt[t];";
  s += "\n    for (i64 i = 0; i < k;) {\n      const i64 e = k - i > most - n ? i + most - n : k; "
       "n += e - i;\n      for (; i < e; ++i) {\n        " +
       B + " x;";
  for (uint32_t v = 0; v < vectors; ++v)
    s += " const " + B + " b" + number(v) + " = " + load + "(p + " +
         number(int64_t{v} * lanes * steps) + ");";
  for (uint32_t r = 0; r < rows; ++r) {
    s += words ? "\n        x = (" + B + ")((wordsx" + number(lanes) + "){} + *(const word_u*)(a" +
                     number(r) + " + " + number(steps) + " * i));"
               : "\n        x = (" + V + ")(a" + number(r) + "[i]);";
    for (uint32_t v = 0; v < vectors; ++v) {
      const std::string c = accumulator(r, v), b = "b" + number(v);
      s += " " + (words ? word_product(t, lanes, steps, c, b) : sum_of(t, lanes, c, "x", b));
    }
  }
  s += "\n        p += bs;\n      }\n      if (n < most) continue;\n      n = 0;\n      if "
       "(joined) {\n       " +
       each(" +=", true) + "\n      } else {\n       " + each(" = ", true) +
       "\n        joined = 1;\n      }\n    }\n  }\n  if (joined) {\n   " + each(" +=", false) +
       "\n  } else {\n   " + each(" = ", false) + "\n  }";
  functions_ += s + "\n}\n";
  return name;
}

// A function that loads `lanes` channels and widens them; masked: only those below `n`.
std::string Prelude::need_channels(DType t, DType read, uint32_t lanes, bool masked) {
  const std::string load = need(masked ? "ldm" : "ld", read, lanes);
  if (read == t) return load;
  const std::string name = "widen_" + load + "_" + std::string(name_of(t)), V = type(t, lanes),
                    widen = need_convert(read, t, lanes, false);
  if (!known_.insert(name).second) return name;
  const std::string narrow = type(read, lanes), p = "(const " + memory_type(read) + "* p";
  functions_ += "FN " + V + " " + name + p +
                (masked ? ", " + type(TENON_PRED, lanes) + " m, " + V + ") { return " + widen +
                              "(" + load + "(p, m, (" + narrow + ")0)); }\n"
                        : ") { return " + widen + "(" + load + "(p)); }\n");
  return name;
}

// Integers wrap, so tiles add unsigned ones.
std::string Prelude::need_depthwise(DType t, DType read, uint32_t lanes, uint32_t rows,
                                    uint32_t vectors) {
  if (t == TENON_I32) t = TENON_U32;
  const std::string name = "channels" + number(rows) + "x" + number(vectors) + "_" +
                           std::string(name_of(read)) + "_" + suffix(t, lanes);
  if (!known_.insert(name).second) return name;
  const std::string V = type(t, lanes), E = memory_type(t), R = memory_type(read),
                    M = type(TENON_PRED, lanes);
  const std::string ld = need_channels(t, read, lanes, false),
                    ldm = need_channels(t, read, lanes, true), of_b = need("ld", t, lanes);
  std::string iota;
  for (uint32_t l = 0; l < lanes; ++l) iota += (l ? ", " : "") + number(l);
  auto step = [&](bool masked) {
    std::string body = "  {\n   ";
    for (uint32_t r = 0; r < rows; ++r)
      body += " " + V + " " + accumulator(r, 0) + " = (" + V + ")0;";
    body += "\n    for (i64 t = 0; t < taps; ++t) {\n     " + row_pointers(R, rows, " + o + v");
    body += "\n      const " + V + " w = " + of_b + "(b + bt[t] + v);";
    for (uint32_t r = 0; r < rows; ++r) {
      const std::string a = "a" + number(r);
      body += " " + sum_of(t, lanes, accumulator(r, 0), "w",
                           masked ? ldm + "(" + a + ", m, (" + V + ")0)" : ld + "(" + a + ")");
    }
    body += "\n    }\n   ";
    for (uint32_t r = 0; r < rows; ++r) {
      body += " *(" + V + "_u*)(c + " + number(int64_t{r} * vectors * lanes) +
              " + v) = " + accumulator(r, 0) + ";";
    }
    return body + "\n  }\n";
  };
  functions_ += "static __attribute__((noinline)) void " + name +
                "(const i64* ap, const i64* bt, const " + E + "* b, i64 taps, i64 n, i64 o, " + E +
                "* c) {\n  i64 v = 0;\n  for (; v + " + number(lanes) +
                " <= n; v += " + number(lanes) + ")\n" + step(false) +
                "  if (v < n) {\n    const " + M + " m = (" + M + "){" + iota + "} < (" + M +
                ")(i32)(n - v);\n" + step(true) + "  }\n}\n";
  return name;
}

// The rows of a strip read overlapping parts of one image line: each place is loaded once and used
// by every row that reads it.
std::string Prelude::need_depthwise_runs(DType t, DType read, uint32_t lanes, uint32_t rows,
                                         uint32_t vectors, uint32_t run, uint32_t step) {
  if (t == TENON_I32) t = TENON_U32;
  const std::string name = "runs" + number(rows) + "x" + number(vectors) + "of" + number(run) +
                           "by" + number(step) + "_" + std::string(name_of(read)) + "_" +
                           suffix(t, lanes);
  if (!known_.insert(name).second) return name;
  const std::string V = type(t, lanes), E = memory_type(t), R = memory_type(read),
                    M = type(TENON_PRED, lanes);
  const std::string ld = need_channels(t, read, lanes, false),
                    ldm = need_channels(t, read, lanes, true), of_b = need("ld", t, lanes);
  const uint32_t places = (rows - 1) * step + run;
  std::string iota;
  for (uint32_t l = 0; l < lanes; ++l) iota += (l ? ", " : "") + number(l);
  auto strip = [&](bool masked) {
    std::string body = "  {\n   ";
    for (uint32_t r = 0; r < rows; ++r)
      body += " " + V + " " + accumulator(r, 0) + " = (" + V + ")0;";
    body += "\n    for (i64 t = 0; t < lines; ++t) {\n      const i64* a = ap + t * " +
            number(places) + "; const " + E + "* w = b + bt[t] + v;\n     ";
    for (uint32_t k = 0; k < run; ++k)
      body += " const " + V + " w" + number(k) + " = " + of_b + "(w + " + number(k) + " * ws);";
    for (uint32_t at = 0; at < places; ++at) {
      const std::string from = "(const " + R + "*)a[" + number(at) + "] + o + v";
      body += "\n      { const " + V +
              " x = " + (masked ? ldm + "(" + from + ", m, (" + V + ")0)" : ld + "(" + from + ")") +
              ";";
      for (uint32_t k = 0; k < run; ++k) {
        if (at < k || (at - k) % step != 0 || (at - k) / step >= rows) continue;
        body += " " + sum_of(t, lanes, accumulator((at - k) / step, 0), "w" + number(k), "x");
      }
      body += " }";
    }
    body += "\n    }\n   ";
    for (uint32_t r = 0; r < rows; ++r) {
      body += " *(" + V + "_u*)(c + " + number(int64_t{r} * vectors * lanes) +
              " + v) = " + accumulator(r, 0) + ";";
    }
    return body + "\n  }\n";
  };
  functions_ +=
      "static __attribute__((noinline)) void " + name + "(const i64* ap, const i64* bt, const " +
      E + "* b, i64 lines, i64 n, i64 o, i64 ws, " + E + "* c) {\n  i64 v = 0;\n  for (; v + " +
      number(lanes) + " <= n; v += " + number(lanes) + ")\n" + strip(false) +
      "  if (v < n) {\n    const " + M + " m = (" + M + "){" + iota + "} < (" + M +
      ")(i32)(n - v);\n" + strip(true) + "  }\n}\n";
  return name;
}

std::string Prelude::need_any_nan(DType t, uint32_t lanes) {
  const std::string name = "any_nan_" + suffix(t, lanes);
  if (!known_.insert(name).second) return name;
  const std::string V = type(t, lanes), M = type(TENON_PRED, lanes), E = memory_type(t);
  functions_ +=
      "static __attribute__((noinline)) i32 " + name + "(const " + E +
      "* c, i64 rows, i64 stride, i64 n) {\n  " + M + " bad = (" + M +
      ")0;\n  for (i64 r = 0; r < rows; ++r)\n    for (i64 v = 0; v < n; v += " + number(lanes) +
      ") {\n      const " + V + " x = *(const " + V +
      "_u*)(c + r * stride + v);\n      bad |= x != x;\n    }\n  return "
      "__builtin_reduce_or(bad) != 0;\n}\n";
  return name;
}

}  // namespace tenon::kernelgen
