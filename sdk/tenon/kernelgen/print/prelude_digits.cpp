// Register tiles with weights of 4 and 8 bits: widened to floats, or multiplied as bytes by the
// digits of floats (docs/adr/0062-digits-of-floats.md).
#include <algorithm>
#include <vector>

#include "tenon/kernelgen/print/prelude.h"

namespace tenon::kernelgen {
namespace {

std::string number(int64_t v) {
  return std::to_string(v);
}

std::string replaced(const std::string& text, char token, int64_t by) {
  std::string out;
  for (char c : text) out += c == token ? number(by) : std::string(1, c);
  return out;
}

// The text once for each i below count, with # for i and @ for its first lane.
std::string each(uint32_t count, uint32_t lanes, const std::string& text) {
  std::string out;
  for (uint32_t i = 0; i < count; ++i)
    out += replaced(replaced(text, '#', i), '@', int64_t{i} * lanes);
  return out;
}

// The same for each row ($) and vector (#), with @ for its place in the tile.
std::string tile(uint32_t rows, uint32_t vectors, uint32_t lanes, const std::string& text) {
  std::string out;
  for (uint32_t r = 0; r < rows; ++r) {
    for (uint32_t v = 0; v < vectors; ++v)
      out +=
          replaced(replaced(replaced(text, '$', r), '#', v), '@', int64_t{r * vectors + v} * lanes);
  }
  return out;
}

std::string name_of_tile(const char* kind, const FewBitsTile& t) {
  return std::string(kind) + number(t.bits) + (t.is_signed ? "s" : "u") + number(t.rows) + "x" +
         number(t.vectors) + "_" + t.zeros + (t.quads ? "_quads" : "");
}

// The parameters of the weights, from b on.
std::string weights_of(const FewBitsTile& t, const std::string& byte) {
  return "const " + byte + "* b, i64 bs, i64 k, i64 g, const f32* sp, " +
         (t.zeros == "none"  ? ""
          : t.zeros == "one" ? "f32 z, "
                             : "const f32* zp, ") +
         "f32* c";
}

// The steps that one word of a lane holds in quads.
uint32_t steps_of_word(const FewBitsTile& t) {
  return t.bits == 4 ? 8 : 4;
}

}  // namespace

// Adds the products of the weights in `integer` with the floats at `place`.
std::string Prelude::widened(uint32_t lanes, const FewBitsTile& t, const std::string& integer,
                             const std::string& place) {
  const std::string V = type(TENON_F32, lanes);
  const std::string zero = t.zeros == "none" ? "" : t.zeros == "one" ? " - z" : " - z#";
  return "{" +
         each(t.vectors, lanes,
              " const " + V + " w# = (__builtin_convertvector(" + integer + ", " + V + ")" + zero +
                  ") * s#;") +
         tile(t.rows, t.vectors, lanes,
              " " + sum_of(TENON_F32, lanes, "c$_#", "a$[" + place + "]", "w#")) +
         " }\n        ";
}

std::string Prelude::need_mma_few_bits(uint32_t lanes, const FewBitsTile& t) {
  const std::string name = name_of_tile("mmaq", t) + "_" + suffix(TENON_F32, lanes);
  if (!known_.insert(name).second) return name;
  const DType byte = t.is_signed ? TENON_I8 : TENON_U8;
  const std::string V = type(TENON_F32, lanes), I = type(TENON_I32, lanes), Q = type(byte, lanes),
                    U = type(TENON_U32, lanes), B = memory_type(byte);
  std::string s = "static __attribute__((noinline)) void " + name + "(" +
                  each(t.rows, lanes, "const f32* a#, ") + "i64 as, " + weights_of(t, B) +
                  ") {\n  i64 i = 0; const i64 ss = bs / " + number(t.quads ? 4 : 1) +
                  ", most = (" + number(kSumBlock) +
                  " / g + 1) * g;\n  do {\n    const i64 e = k - i > most ? i + most : k; "
                  "const i64 first = i;\n   " +
                  tile(t.rows, t.vectors, lanes, " " + V + " c$_# = (" + V + ")0;") +
                  "\n    while (i < e) {\n     " +
                  each(t.vectors, lanes, " const " + V + " s# = *(const " + V + "_u*)(sp + @);");
  if (t.zeros == "panels")
    s += each(t.vectors, lanes, " const " + V + " z# = *(const " + V + "_u*)(zp + @);") +
         " zp += ss;";
  const uint32_t steps = t.quads ? steps_of_word(t) : t.bits == 4 ? 2 : 1;
  s += " sp += ss;\n      for (const i64 end = i + g; i < end; i += " + number(steps) +
       ") {\n        const i64 o = i * as;" +
       each(t.vectors, lanes,
            t.quads ? " const " + U + " q# = *(const " + U + "_u*)(b + 4 * @);"
                    : " const " + I + " q# = __builtin_convertvector(*(const " + Q +
                          "_u*)(b + @), " + I + ");") +
       "\n        ";
  if (!t.quads) {
    s += t.bits == 4 ? widened(lanes, t, "q# & 15", "o") + widened(lanes, t, "q# >> 4", "o + as")
                     : widened(lanes, t, "q#", "o");
  } else {
    // The low halves of a word's bytes are its first four steps.
    for (uint32_t i = 0; i < steps; ++i) {
      const std::string by = number(8 * (i % 4) + i / 4 * 4), mask = t.bits == 4 ? "15" : "255";
      s += widened(lanes, t, "(" + I + ")(q# >> " + by + " & " + mask + ")",
                   "o + " + number(i) + " * as");
    }
  }
  s += "b += bs;\n      }\n    }\n    if (first == 0) {\n     " +
       tile(t.rows, t.vectors, lanes, " *(" + V + "_u*)(c + @) = c$_#;") + "\n    } else {\n     " +
       tile(t.rows, t.vectors, lanes, " *(" + V + "_u*)(c + @) += c$_#;") +
       "\n    }\n  } while (i < k);\n}\n";
  functions_ += s;
  return name;
}

// ---- Digits ----

std::string Prelude::need_digits(uint32_t lanes) {
  const std::string name = "digits_" + suffix(TENON_F32, lanes);
  if (!known_.insert(name).second) return name;
  const std::string V = type(TENON_F32, lanes), I = type(TENON_I32, lanes),
                    U = type(TENON_U32, lanes), B = type(TENON_I8, 4 * lanes),
                    round = need("round_even", TENON_F32, lanes),
                    abs = need("abs", TENON_F32, lanes), n = number(lanes);
  // The digits of four steps, one beside another, become four words of one digit each.
  std::string order;
  for (uint32_t i = 0; i < 4 * lanes; ++i)
    order += ", " + number(i / 16 * 16 + i % 4 * 4 + i / 4 % 4);
  functions_ += "static __attribute__((noinline)) void " + name +
                "(const f32* x, i64 k, i64 h, i32* d, f32* facts) {\n"
                "  for (i64 at = 0; at < k; at += h, x += h, d += h, facts += 8) {\n    " +
                I + " m = (" + I + ")0;\n    for (i64 i = 0; i < h; i += " + n + ") { const " + I +
                " y = *(const " + I +
                "_u*)(x + i) & 0x7fffffff; m = y > m ? y : m; }\n"
                "    const i32 most = __builtin_reduce_max(m), e = most >> 23;\n"
                // NaN, infinities, and numbers whose quotients by 2^30 are not normal.
                "    const i32 floats = e == 255 || (e < 30 && most != 0);\n"
                "    const f32 up = floats || most == 0 ? 0 : BITS(f32, (283 - e) << 23);\n    " +
                I + " lost = (" + I + ")0, sums = (" + I +
                ")0;\n    for (i64 i = 0; i < h && !floats; i += " + n + ") {\n      const " + V +
                " y = *(const " + V + "_u*)(x + i) * up, r = " + round +
                "(y);\n      lost |= " + abs + "(y - r) > " + abs + "(y) * 0x1p-18f;\n" +
                // Quotients that are 0 beside a number that is far larger.
                "      lost |= (y == (" + V + ")0) & ((*(const " + I +
                "_u*)(x + i) & 0x7fffffff) != 0);\n      const " + U + " w = ((" + U +
                ")__builtin_convertvector(r, " + I + ") + 0x80808080u) ^ 0x80808080u;\n" +
                "      const " + I + " words = (" + I + ")__builtin_shufflevector((" + B + ")w, (" +
                B + ")w" + order + ");\n      *(" + I + "_u*)(d + i) = words;\n      sums = " +
                byte_product(lanes, "sums", "(" + I + ")0 + 0x01010101", "words") +
                ";\n    }\n    const i32 marked = floats | __builtin_reduce_or(lost);\n"
                "    facts[0] = marked ? -1.f : most == 0 ? 0.f : BITS(f32, (e - 29) << 23);\n"
                "    i32 t[" +
                n + "]; *(" + I +
                "_u*)t = sums;\n    for (i64 j = 0; j < 4; ++j) {\n"
                "      i32 sum = 0; for (i64 l = j; l < " +
                n +
                "; l += 4) sum += t[l];\n"
                "      facts[1 + j] = marked ? 0.f : (f32)sum;\n    }\n"
                "    for (i64 i = 0; i < h && marked; ++i) d[i] = 0;\n  }\n}\n";
  return name;
}

// The instruction on vectors of words, as an expression: sum + unsigned bytes * signed bytes.
std::string Prelude::byte_product(uint32_t lanes, const std::string& sum, const std::string& bytes,
                                  const std::string& digits) {
  const std::string W = "wordsx" + number(lanes);
  word_vector(TENON_I32, lanes, 4);
  return "(" + type(TENON_I32, lanes) + ")__builtin_ia32_vpdpbusd" + number(int64_t{lanes} * 32) +
         "((" + W + ")(" + sum + "), (" + W + ")(" + bytes + "), (" + W + ")(" + digits + "))";
}

// One block of one row and `wide` vectors from `first` on: the four sums of each, then their value.
// A broadcast digit serves all these vectors, and their sums fit the registers.
std::string Prelude::digits_of_block(uint32_t lanes, const FewBitsTile& t, uint32_t row,
                                     uint32_t first, uint32_t wide) {
  const std::string V = type(TENON_F32, lanes), I = type(TENON_I32, lanes),
                    U = type(TENON_U32, lanes), steps = number(steps_of_word(t)), r = number(row);
  const auto vectors = [&](const std::string& text) {
    std::string out;
    for (uint32_t v = first; v < first + wide; ++v)
      out += replaced(replaced(text, '#', v), '@', int64_t{v} * lanes);
    return out;
  };
  const auto digits = [&](const std::string& text) {
    std::string out;
    for (int64_t j = 0; j < 4; ++j) out += replaced(text, '$', j);
    return out;
  };
  std::string s = "        {\n          const u8* p = b; const i32* q = d" + r + " + i;" +
                  digits(vectors(" " + I + " x#_$ = (" + I + ")0;")) +
                  "\n          for (i64 n = 0; n < h; n += " + steps + ") {\n           " +
                  vectors(" const " + U + " w# = *(const " + U + "_u*)(p + 4 * @);");
  for (int64_t half = 0; half < int64_t{steps_of_word(t)} / 4; ++half) {
    const std::string bytes = t.bits == 8 ? "w#"
                              : half == 0 ? "w# & 0x0f0f0f0fu"
                                          : "w# >> 4 & 0x0f0f0f0fu";
    s += "\n            {" + vectors(" const " + U + " u# = " + bytes + ";");
    for (int64_t j = 0; j < 4; ++j) {
      const std::string digit = replaced("x#_$", '$', j);
      s += "\n              { const " + I + " y = (" + I + ")0 + q[" + number(4 * half + j) + "];" +
           vectors(" " + digit + " = " + byte_product(lanes, digit, "u#", "y") + ";") + " }";
    }
    s += "\n            }";
  }
  s += "\n            p += bs; q += " + steps + ";\n          }\n         ";
  // Loaded here, because the sums of digits need the registers.
  s += vectors(" const " + V + " s# = *(const " + V + "_u*)(sp + @);" +
               (t.zeros == "panels" ? " const " + V + " z# = *(const " + V + "_u*)(zp + @);" : ""));
  // Exact, less than 2^24 each.
  const std::string mad = need("mad", TENON_F32, lanes), zero = t.zeros == "one" ? "-z" : "-z#",
                    x = "__builtin_convertvector(x#_$, " + V + ")";
  s += digits(vectors(
      " const " + V + " t#_$ = " +
      (t.zeros == "none" ? x : mad + "(" + zero + ", f" + r + "[$ + 1], " + x + ")") + ";"));
  const auto joined = [&](const std::string& high, const char* low) {
    return mad + "(" + high + ", 256.f, " + low + ")";
  };
  const std::string value = joined(joined(joined("t#_3", "t#_2"), "t#_1"), "t#_0");
  return s +
         vectors(" " + sum_of(TENON_F32, lanes, "e" + r + "_#", value + " * f" + r + "[0]", "s#")) +
         "\n        }\n";
}

std::string Prelude::need_mma_digits(uint32_t lanes, const FewBitsTile& t) {
  const std::string name = name_of_tile("mmad", t) + "_" + suffix(TENON_F32, lanes);
  if (!known_.insert(name).second) return name;
  FewBitsTile row = t;
  row.rows = 1;
  const std::string V = type(TENON_F32, lanes), I = type(TENON_I32, lanes),
                    floats = need_mma_few_bits(lanes, t), of_row = need_mma_few_bits(lanes, row),
                    wide = number(int64_t{t.vectors} * lanes);
  const std::string zero_of_block = t.zeros == "none" ? "" : t.zeros == "one" ? "z, " : "zp, ";
  const auto one_each = [&](const std::string& text) { return each(t.rows, lanes, text); };
  const auto all = [&](const std::string& text) { return tile(t.rows, t.vectors, lanes, text); };
  std::string s = "static __attribute__((noinline)) void " + name + "(" +
                  one_each("const f32* a#, ") + one_each("const i32* d#, const f32* f#, ") +
                  "i64 as, i64 h, " + weights_of(t, "u8") + ") {\n ";
  s += " const u8* const panel = b; const f32* const scales = sp;";
  if (t.zeros == "panels") s += " const f32* const zeros = zp;";
  s += "\n  for (i64 i = 0; i < " + wide + " * " + number(t.rows) + "; ++i) c[i] = 0;\n";
  // Sums in blocks, as in other tiles; a step is a block here.
  s += "  const i64 most = " + number(kSumBlock) +
       " * g;\n  for (i64 i = 0; i < k;) {\n    const i64 end = k - i > most ? i + most : k;\n   " +
       all(" " + V + " e$_# = (" + V + ")0;") +
       "\n    while (i < end) {\n      for (const i64 last = i + g; i < last; i += h) {\n";
  const uint32_t wide_part = target_.registers >= 32 ? 4 : 2;
  for (uint32_t r = 0; r < t.rows; ++r) {
    for (uint32_t v = 0; v < t.vectors; v += wide_part)
      s += digits_of_block(lanes, t, r, v, std::min(wide_part, t.vectors - v));
  }
  s += one_each("        if (f#[0] < 0) {\n          f32 x[" + wide + "]; " + of_row +
                "(a# + i * as, as, b, bs, h, h, sp, " + zero_of_block +
                "x);\n          for (i64 l = 0; l < " + wide + "; ++l) c[# * " + wide +
                " + l] += x[l];\n        }\n");
  s += "        b += h / " + number(steps_of_word(t)) + " * bs;" + one_each(" f# += 8;") +
       "\n      }\n      sp += bs / 4;" + (t.zeros == "panels" ? " zp += bs / 4;" : "") +
       "\n    }\n   " + all(" *(" + V + "_u*)(c + @) += e$_#;") + "\n  }\n  " + I + " finite = (" +
       I + ")-1;\n ";
  s += all(" { const " + V + " x = *(const " + V + "_u*)(c + @); finite &= x - x == (" + V +
           ")0; }");
  s += "\n  if (!__builtin_reduce_and(finite)) " + floats + "(" + one_each("a#, ") +
       "as, panel, bs, k, g, scales, " + (t.zeros == "panels" ? "zeros, " : zero_of_block) +
       "c);\n}\n";
  functions_ += s;
  return name;
}

}  // namespace tenon::kernelgen
