// Math functions of generated text, for vectors and scalars. They call no library. Sources: Cephes
// (exp, log, atan, single precision), fdlibm (double logarithm, sine, cosine), and our own
// Chebyshev fits where noted. Errors, tested in accuracy_test: f32 within 4 ulp, f64 within 8 ulp
// unless a comment says otherwise.
//
// Compilers contract nothing by themselves: a product and a sum are rounded once where the text
// says
// @mad, on targets that have the instruction (docs/adr/0074-one-rounding-where-asked.md).
#include <iterator>

#include "tenon/kernelgen/print/prelude.h"

namespace tenon::kernelgen {
namespace {

struct Function {
  std::string_view name, text;
};

// LLVM's instruction selection for AVX-512 can give a masked vpternlog with a memory operand the
// immediate for another operand order (llvm-project issue 157929, pull request 209782; versions 19
// to 22). This made a select of two bitwise operations with a constant wrong. So the constant here
// comes from a register, and where one register holds the result, the result is computed before any
// select uses it (HOLD).
constexpr std::string_view kCopysignAvx512 =
    "FN $F copysign_$n($F a, $F b) { u64 k = 1ul << (sizeof($E) * 8 - 1); __asm__(\"\" : "
    "\"+r\"(k)); $U s = ($U)(k); $U r = ($U)(($B($U, a) & ~s) | ($B($U, b) & s)); HOLD(r); return "
    "$B($F, r); }\n";

// ---- Both widths ----

constexpr Function kBoth[] = {
    {"neg", "FN $F neg_$n($F x) { return -x; }\n"},
    {"add", "FN $F add_$n($F a, $F b) { return a + b; }\n"},
    {"sub", "FN $F sub_$n($F a, $F b) { return a - b; }\n"},
    {"mul", "FN $F mul_$n($F a, $F b) { return a * b; }\n"},
    {"div", "FN $F div_$n($F a, $F b) { return a / b; }\n"},
    {"abs", "FN $F abs_$n($F x) { return $B($F, ($U)($B($U, x) & (($U)~($U)0 >> 1))); }\n"},
    // Magnitude of a, sign of b.
    {"copysign",
     "FN $F copysign_$n($F a, $F b) { $U s = ($U)~(($U)~($U)0 >> 1); return $B($F, ($U)(($B($U, a) "
     "& ~s) | ($B($U, b) & s))); }\n"},
    {"sign", "FN $F sign_$n($F x) { return $S(x > ($F)0, 1, $S(x < ($F)0, -1, x)); }\n"},
    // NaN wins; -0 is below +0. Only the comparisons with a wait for a, which is the state in a
    // reduction. A NaN in a stays because a maximum instruction returns its second operand.
    {"max",
     "FN $F max_$n($F a, $F b) { $F r = $S(b > a, b, a); r = $S(a == b, $B($F, ($U)($B($U, a) & "
     "$B($U, b))), r); "
     "return $S(b != b, b, r); }\n"},
    {"min",
     "FN $F min_$n($F a, $F b) { $F r = $S(b < a, b, a); r = $S(a == b, $B($F, ($U)($B($U, a) | "
     "$B($U, b))), r); "
     "return $S(b != b, b, r); }\n"},
    // With a number b that is not NaN, nor 0 for the first two; NaN in a stays.
    {"maxc", "FN $F maxc_$n($F a, $F b) { return $S(b > a, b, a); }\n"},
    {"minc", "FN $F minc_$n($F a, $F b) { return $S(b < a, b, a); }\n"},
    {"max0", "FN $F max0_$n($F a, $F b) { return $S(b > a, b, a) + b; }\n"},
    {"rsqrt", "FN $F rsqrt_$n($F x) { return ($F)1 / @sqrt(x); }\n"},
    {"logistic",
     "FN $F logistic_$n($F x) { $F e = @exp(-@abs(x)); $F d = ($F)1 / (($F)1 + e); return $S(x >= "
     "($F)0, d, e * d); }\n"},
    // tanh |x| = t / (t + 2) with t = expm1(2 |x|). The select is inside copysign, here and below:
    // clang 19 folds a select between x and copysign(t, x) to a masked vpternlog with the wrong
    // truth table if the bits of the result are used (bf16 results).
    {"tanh",
     "FN $F tanh_$n($F x) { $F a = @abs(x); a = $S(a > ($F)22, 22, a); $F t = @expm1(a + a); "
     "return @copysign($S(x != x, x, t / (t + ($F)2)), x); }\n"},
    // log(1 + x) = log(u) + (x - (u - 1)) / u corrects the rounding of u = 1 + x.
    {"log1p",
     "FN $F log1p_$n($F x) { $F u = ($F)1 + x; $F c = (x - (u - ($F)1)) / u; c = $S((u > ($F)0) & "
     "(u < $INF), c, 0); "
     "return $S(x == ($F)0, x, @log(u) + c); }\n"},
    // C fmod, exact, lane by lane.
    {"rem1",
     "FN $F rem1_$n($F a, $F b) { if (!(@abs(a) < $INF) || b != b || b == 0) return $NAN; "
     "$F x = a < 0 ? -a : a, y = b < 0 ? -b : b; if (x >= y) { $F t = y; while (t <= x * ($F)0.5) "
     "t += t; "
     "while (t >= y) { if (x >= t) x -= t; t *= ($F)0.5; } } return @copysign(x, a); }\n"},
};

// ---- f32 ----

constexpr Function kF32[] = {
    // A result of 0 is a product with 0, not one that underflows, which takes hundreds of cycles.
    {"exp",
     "FN $F exp_$n($F x) { $M none = x < ($F)-103.98f; x = $S(x > ($F)89.f, 89.f, x); x = $S(x < "
     "($F)-104.5f, -104.5f, x); $F n = @mad(x, 1.44269504088896341f, 12582912.f) - 12582912.f; $F "
     "r = @mad(-n, 0.693359375f, x); r = @mad(n, 2.12194440e-4f, r); $F p = @mad(1.9875691500e-4f, "
     "r, 1.3981999507e-3f); p = @mad(p, r, 8.3334519073e-3f); p = @mad(p, r, 4.1665795894e-2f); p "
     "= @mad(p, r, 1.6666665459e-1f); p = @mad(p, r, 5.0000001201e-1f); p = @mad(p, r * r, r) + "
     "1.f; $I i = $C($I, $S(x != x, 0, n)); $I h = i >> 1; return p * $B($F, ($I)((h + 127) << "
     "23)) * $S(none, 0, $B($F, ($I)((i - h + 127) << 23))); }\n"},
    {"expm1",
     "FN $F expm1_$n($F x) { $F y = $S(x > ($F)60.f, 60.f, x); y = $S(y < ($F)-30.f, -30.f, y); $F "
     "n = @mad(y, 1.44269504088896341f, 12582912.f) - 12582912.f; $F r = @mad(-n, 0.693359375f, "
     "y); r = @mad(n, 2.12194440e-4f, r); $F p = @mad(1.9875691500e-4f, r, 1.3981999507e-3f); p = "
     "@mad(p, r, 8.3334519073e-3f); p = @mad(p, r, 4.1665795894e-2f); p = @mad(p, r, "
     "1.6666665459e-1f); p = @mad(p, r, 5.0000001201e-1f); p = @mad(p, r * r, r); $F s = $B($F, "
     "($I)(($C($I, $S(y != y, 0, n)) + 127) << 23)); $F e = @mad(s, p, s - 1.f); e = $S(n == "
     "($F)0, $S(x == ($F)0, x, p), e); return $S(x > ($F)60.f, @exp(x), e); }\n"},
    {"log",
     "FN $F log_$n($F x) { $M tiny = x < ($F)0x1p-126f; $F y = $S(tiny, x * 0x1p23f, x); $I b = "
     "$B($I, y); $I e = ((b - 0x3f3504f3) >> 23); $F k = $C($F, e) - $S(tiny, 23.f, 0.f); $F f = "
     "$B($F, ($I)(b - (e << 23))) - 1.f; $F z = f * f; $F p = @mad(7.0376836292e-2f, f, "
     "-1.1514610310e-1f); p = @mad(p, f, 1.1676998740e-1f); p = @mad(p, f, -1.2420140846e-1f); p = "
     "@mad(p, f, 1.4249322787e-1f); p = @mad(p, f, -1.6668057665e-1f); p = @mad(p, f, "
     "2.0000714765e-1f); p = @mad(p, f, -2.4999993993e-1f); p = @mad(p, f, 3.3333331174e-1f); p = "
     "p * f * z; p = @mad(k, -2.12194440e-4f, p); p = @mad(-0.5f, z, p); $F r = f + p; r = @mad(k, "
     "0.693359375f, r); r = $S(x == ($F)0, -$INF, r); r = $S(x < ($F)0, $NAN, r); return $S((x == "
     "$INF) | (x != x), x, r); }\n"},
    // x less its nearest integer is exact.
    {"exp2",
     "FN $F exp2_$n($F x) { $M none = x < ($F)-150.f; x = $S(x > ($F)129.f, 129.f, x); x = "
     "$S(x < ($F)-151.f, -151.f, x); $F n = (x + 12582912.f) - 12582912.f; $F r = (x - n) * "
     "0.69314718056f; $F p = @mad(1.9875691500e-4f, r, 1.3981999507e-3f); p = @mad(p, r, "
     "8.3334519073e-3f); p = @mad(p, r, 4.1665795894e-2f); p = @mad(p, r, 1.6666665459e-1f); p "
     "= @mad(p, r, 5.0000001201e-1f); p = @mad(p, r * r, r) + 1.f; $I i = $C($I, $S(x != x, 0, "
     "n)); $I h = i >> 1; return p * $B($F, ($I)((h + 127) << 23)) * $S(none, 0, $B($F, "
     "($I)((i - h + 127) << 23))); }\n"},
    // N. Juffa's single precision erfc: a polynomial of (a - 2) / (a + 2) for exp(a^2) erfc(a) (1 +
    // 2
    // a) - 1. The square is that of the upper bits, which is exact, and the rest is another factor.
    {"erfc",
     "FN $F erfc_$n($F x) { $F a = @abs(x); a = $S(a > ($F)11.f, 11.f, a); $F q = (a - 2.f) / "
     "(a + 2.f); $F p = @mad(-4.01139259e-4f, q, -1.23075210e-3f); p = @mad(p, q, "
     "1.31355342e-3f); p = @mad(p, q, 8.63227434e-3f); p = @mad(p, q, -8.05991981e-3f); p = "
     "@mad(p, q, -5.42046614e-2f); p = @mad(p, q, 1.64055392e-1f); p = @mad(p, q, "
     "-1.66031361e-1f); p = @mad(p, q, -9.27639827e-2f); p = @mad(p, q, 2.76978403e-1f); $F r "
     "= (p + 1.f) / @mad(2.f, a, 1.f); $F h = $B($F, ($I)($B($I, a) & ~(($I)0xfff))); r = r * "
     "@exp(-(h * h)) * @exp((h - a) * (h + a)); r = $S(x < ($F)0, 2.f - r, r); return $S(x != "
     "x, x, r); }\n"},
    // N. Juffa's inverse of erf: polynomials of log(1 - x^2).
    {"erf_inv",
     "FN $F erf_inv_$n($F x) { $F a = @abs(x); $F t = @log((1.f - a) * (1.f + a)); $F p = "
     "@mad(3.03697567e-10f, t, 2.93243101e-8f); p = @mad(p, t, 1.22150334e-6f); p = @mad(p, t, "
     "2.84108955e-5f); p = @mad(p, t, 3.93552968e-4f); p = @mad(p, t, 3.02698812e-3f); p = "
     "@mad(p, t, 4.83185798e-3f); p = @mad(p, t, -2.64646143e-1f); p = @mad(p, t, "
     "8.40016484e-1f); $F q = @mad(5.43877832e-9f, t, 1.43285448e-7f); q = @mad(q, t, "
     "1.22774793e-6f); q = @mad(q, t, 1.12963626e-7f); q = @mad(q, t, -5.61530760e-5f); q = "
     "@mad(q, t, -1.47697632e-4f); q = @mad(q, t, 2.31468678e-3f); q = @mad(q, t, "
     "1.15392581e-2f); q = @mad(q, t, -2.32015476e-1f); q = @mad(q, t, 8.86226892e-1f); $F y = "
     "x * $S(t < ($F)-6.125f, p, q); return $S(a == ($F)1, @copysign(($F)$INF, x), y); }\n"},
    // The arctangent of a quotient up to 1, whose argument is reduced by pi/4 from tan(pi/8) on.
    {"atan2",
     "FN $F atan2_$n($F y, $F x) { $F a = @abs(x), b = @abs(y); $F low = $S(a < b, a, b), high "
     "= $S(a < b, b, a); $F t = low / high; t = $S(low == high, 1.f, t); t = $S(high == ($F)0, "
     "0.f, t); $M far = t > ($F)0.414213562f; $F u = $S(far, (t - 1.f) / (t + 1.f), t), z = u "
     "* u; $F r = @mad(u * z, @mad(z, @mad(z, @mad(z, 8.05374449538e-2f, -1.38776856032e-1f), "
     "1.99777106478e-1f), -3.33329491539e-1f), u); r = $S(far, 0.785398163f + r, r); r = $S(a "
     "< b, 1.57079633f - r, r); r = $S($B($I, x) < ($I)0, 3.14159265f - r, r); r = "
     "@copysign(r, y); return $S((x != x) | (y != y), x + y, r); }\n"},
    // N. Juffa's single precision erf: a polynomial below 0.93, 1 - exp(polynomial) above.
    {"erf",
     "FN $F erf_$n($F a) { $F t = @abs(a); $F s = a * a; t = $S(t > ($F)4.5f, 4.5f, t); $F s2 = t "
     "* t; $F r = @mad(-1.72853470e-5f, t, 3.83197126e-4f); $F u = @mad(-3.88396438e-3f, t, "
     "2.42546219e-2f); r = @mad(r, s2, u); r = @mad(r, t, -1.06777877e-1f); r = @mad(r, t, "
     "-6.34846687e-1f); r = @mad(r, t, -1.28717512e-1f); r = @mad(r, t, -t); r = @copysign(1.f - "
     "@exp(r), a); $F q = @mad(-5.96761703e-4f, s, 4.99119423e-3f); q = @mad(q, s, "
     "-2.67681349e-2f); q = @mad(q, s, 1.12819925e-1f); q = @mad(q, s, -3.76125336e-1f); q = "
     "@mad(q, s, 1.28379166e-1f); q = @mad(q, a, a); return $S(a != a, a, $S(t > ($F)0.927734375f, "
     "r, q)); }\n"},
    // The logarithm and the power in f64, to a few bits more than the result has.
    {"pow",
     "FN $F pow_$n($F x, $F y) { $F a = @abs(x); $D d = $C($D, a); $D f = @logm<f64>(d) - 1.0; "
     "$D s = f / (2.0 + f); $D z = s * s; $D l = @mad<f64>(z, 7.6923076923e-2, "
     "9.0909090909e-2); l = @mad<f64>(z, l, 1.1111111111e-1); l = @mad<f64>(z, l, "
     "1.4285714286e-1); l = @mad<f64>(z, l, 0.2); l = @mad<f64>(z, l, 3.3333333333e-1); s = s "
     "+ s; l = @mad<f64>(s * z, l, s); l = @mad<f64>(@logk<f64>(d), 0.69314718055994531, l); "
     "$D p = $C($D, y) * l; p = $SD(p < ($D)-110.0, -110.0, p); p = $SD(p > ($D)110.0, 110.0, "
     "p); $D n = @mad<f64>(p, 1.4426950408889634, 6755399441055744.0) - 6755399441055744.0; $D "
     "r = @mad<f64>(n, -0.69314718055994531, p); $D t = @mad<f64>(r, 2.4801587302e-5, "
     "1.9841269841e-4); t = @mad<f64>(t, r, 1.3888888889e-3); t = @mad<f64>(t, r, "
     "8.3333333333e-3); t = @mad<f64>(t, r, 4.1666666667e-2); t = @mad<f64>(t, r, "
     "1.6666666667e-1); t = @mad<f64>(t, r, 0.5); t = @mad<f64>(t, r * r, r) + 1.0; t = t * "
     "@pow2i<f64>(@int<f64>($SD(n == n, n, 0.0))); $F e = $C($F, t); e = $S(a == ($F)0, $S(y < "
     "($F)0, $INF, 0.f), e); e = $S(a == $INF, $S(y < ($F)0, 0.f, $INF), e); $M whole = "
     "(@abs(y) >= ($F)0x1p24f) | (@round_even(y) == y); $F halved = y * 0.5f; $M odd = whole & "
     "(@abs(y) < ($F)0x1p24f) & (@round_even(halved) != halved); $M negative = $B($I, x) < "
     "($I)0; e = $S(negative & odd, -e, e); e = $S((x < ($F)0) & (a != $INF) & (whole == 0), "
     "$NAN, e); e = $S((a == ($F)1) & (@abs(y) == $INF), 1.f, e); e = $S((x != x) | (y != y), "
     "x + y, e); return $S((x == ($F)1) | (y == ($F)0), 1.f, e); }\n"},
    // In f64, too.
    {"sin", "FN $F sin_$n($F a) { return $C($F, @sin<f64>($C($D, a))); }\n"},
    {"cos", "FN $F cos_$n($F a) { return $C($F, @cos<f64>($C($D, a))); }\n"},
    {"lgamma", "FN $F lgamma_$n($F a) { return $C($F, @lgamma<f64>($C($D, a))); }\n"},
    {"digamma", "FN $F digamma_$n($F a) { return $C($F, @digamma<f64>($C($D, a))); }\n"},
    // Rounding where the instruction set has none: numbers from 2^23 on are integers already.
    {"round_even0",
     "FN $F round_even0_$n($F x) { $F a = @abs(x); $F r = (a + 8388608.f) - 8388608.f; "
     "return @copysign($S(a < ($F)8388608.f, r, a), x); }\n"},
};

// ---- f32 without f64 ----

// For one element at a time.
constexpr Function kF32Alone[] = {
    // The quotient by pi/2 modulo 4, and 62 bits of the fraction, from the bits of 2/pi. The
    // closest
    // f32 to a multiple of pi/2 leaves more than 24 of them.
    {"reduce",
     "TABLE u32 pi_bits_$n[8] = {0, 0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, "
     "0xdb629599u, 0x3c439041u, 0xfe5163abu};\n"
     "FN f32 reduce_$n(f32 x, OWNED i32* quadrant) { f32 a = x < 0 ? -x : x; "
     "if (a < 0.785398163f) { *quadrant = 0; return x; } "
     "u32 b = BITS(u32, a); u64 m = (b & 0x7fffffu) | 0x800000u; u32 at = (b >> 23) - 120; "
     "u32 w = at >> 5, sh = at & 31; "
     "u64 low = ((u64)pi_bits_$n[w + 2] << 32 | pi_bits_$n[w + 3]) << sh >> 32; "
     "u64 high = ((u64)pi_bits_$n[w] << 32 | pi_bits_$n[w + 1]) << sh | "
     "(u64)pi_bits_$n[w + 2] >> (32 - sh); "
     "u64 p = m * high + (m * low >> 32); i64 f = (i64)(p << 2); "
     "i32 q = (i32)(p >> 62) + (f < 0 ? 1 : 0); f32 r = (f32)f * 8.51530395e-20f; "
     "*quadrant = x < 0 ? -q : q; return x < 0 ? -r : r; }\n"},
    {"sinr",
     "FN f32 sinr_$n(f32 x, i32 q) { f32 z = x * x; f32 s = @mad(x * z, @mad(z, @mad(-z, "
     "1.9515295891e-4f, 8.3321608736e-3f), -1.6666654611e-1f), x); f32 c = 1.f - @mad(0.5f, z, -(z "
     "* z * @mad(z, @mad(z, 2.443315711809948e-5f, -1.388731625493765e-3f), "
     "4.166664568298827e-2f))); f32 r = q & 1 ? c : s; return q & 2 ? -r : r; }\n"},
    {"sin",
     "FN f32 sin_$n(f32 x) { if (!(@abs(x) < $INF)) return $NAN; if (x == 0) return x; i32 q; "
     "f32 r = @reduce(x, &q); return @sinr(r, q); }\n"},
    {"cos",
     "FN f32 cos_$n(f32 x) { if (!(@abs(x) < $INF)) return $NAN; i32 q; f32 r = @reduce(x, &q); "
     "return @sinr(r, q + 1); }\n"},
    // The arctangent of a quotient up to 1, whose argument is reduced by pi/4 from tan(pi/8) on.
    {"atan2",
     "FN f32 atan2_$n(f32 y, f32 x) { if (x != x || y != y) return x + y; f32 a = @abs(x), b = "
     "@abs(y); f32 low = a < b ? a : b, high = a < b ? b : a; f32 t = high == 0 ? 0.f : low == "
     "high ? 1.f : low / high; bool far = t > 0.414213562f; f32 u = far ? (t - 1.f) / (t + 1.f) : "
     "t, z = u * u; f32 r = @mad(u * z, @mad(z, @mad(z, @mad(z, 8.05374449538e-2f, "
     "-1.38776856032e-1f), 1.99777106478e-1f), -3.33329491539e-1f), u); r = far ? 0.785398163f + r "
     ": r; r = a < b ? 1.57079633f - r : r; r = BITS(i32, x) < 0 ? 3.14159265f - r : r; return "
     "@copysign(r, y); }\n"},
};

// ---- f64 ----

constexpr Function kF64[] = {
    {"pow2i", "FN $F pow2i_$n($I i) { return $B($F, ($I)((i + 1023) << 52)); }\n"},
    // A small integer stored in a double, as an integer: the low bits of x + 1.5 * 2^52.
    {"int", "FN $I int_$n($F x) { return ($I)(($B($I, x + 6755399441055744.0) << 13) >> 13); }\n"},
    {"exp",
     "FN $F exp_$n($F x) { x = $S(x > ($F)710.0, 710.0, x); x = $S(x < ($F)-746.0, -746.0, x); $F "
     "n = @mad(x, 1.4426950408889634074, 6755399441055744.0) - 6755399441055744.0; $F r = @mad(-n, "
     "6.93147180369123816490e-01, x); r = @mad(-n, 1.90821492927058770002e-10, r); $F z = r * r; "
     "$F p = @mad(@mad(1.26177193074810590878e-4, z, 3.02994407707441961300e-2), z, "
     "9.99999999999999999910e-1); p = p * r; $F q = @mad(@mad(@mad(3.00198505138664455042e-6, z, "
     "2.52448340349684104192e-3), z, 2.27265548208155028766e-1), z, 2.0); $F e = @mad(2.0, p / (q "
     "- p), 1.0); $I i = @int($S(x != x, 0.0, n)); $I h = i >> 1; return e * @pow2i(h) * @pow2i(i "
     "- h); }\n"},
    {"expm1",
     "FN $F expm1_$n($F x) { $F y = $S(x > ($F)100.0, 100.0, x); y = $S(y < ($F)-60.0, -60.0, y); "
     "$F n = @mad(y, 1.4426950408889634074, 6755399441055744.0) - 6755399441055744.0; $F r = "
     "@mad(-n, 6.93147180369123816490e-01, y); r = @mad(-n, 1.90821492927058770002e-10, r); $F z = "
     "r * r; $F p = @mad(@mad(1.26177193074810590878e-4, z, 3.02994407707441961300e-2), z, "
     "9.99999999999999999910e-1); p = p * r; $F q = @mad(@mad(@mad(3.00198505138664455042e-6, z, "
     "2.52448340349684104192e-3), z, 2.27265548208155028766e-1), z, 2.0); p = 2.0 * (p / (q - p)); "
     "$F s = @pow2i(@int($S(y != y, 0.0, n))); $F e = @mad(s, p, s - 1.0); e = $S(n == ($F)0, $S(x "
     "== ($F)0, x, p), e); return $S(x > ($F)100.0, @exp(x), e); }\n"},
    // k and m of x = 2^k * m with m in [sqrt(1/2), sqrt(2)), for positive normal and denormal x.
    {"logk",
     "FN $F logk_$n($F x) { $M tiny = x < ($F)0x1p-1022; $F y = $S(tiny, x * 0x1p52, x); $I b = "
     "$B($I, y); "
     "$I e = (b - 0x3fe6a09e667f3bcd) >> 52; return $B($F, ($I)(e + 0x4338000000000000)) - "
     "6755399441055744.0 - "
     "$S(tiny, 52.0, 0.0); }\n"},
    {"logm",
     "FN $F logm_$n($F x) { $M tiny = x < ($F)0x1p-1022; $F y = $S(tiny, x * 0x1p52, x); $I b = "
     "$B($I, y); "
     "$I e = (b - 0x3fe6a09e667f3bcd) >> 52; return $B($F, ($I)(b - (e << 52))); }\n"},
    {"logr",
     "FN $F logr_$n($F s) { $F z = s * s; $F w = z * z; $F a = w * @mad(w, @mad(w, "
     "1.531383769920937332e-01, 2.222219843214978396e-01), 3.999999999940941908e-01); return "
     "@mad(z, @mad(w, @mad(w, @mad(w, 1.479819860511658591e-01, 1.818357216161805012e-01), "
     "2.857142874366239149e-01), 6.666666666666735130e-01), a); }\n"},
    {"log",
     "FN $F log_$n($F x) { $F k = @logk(x); $F f = @logm(x) - 1.0; $F s = f / (2.0 + f); $F h = "
     "0.5 * f * f; $F r = @mad(k, 6.93147180369123816490e-01, -((h - @mad(s, h + @logr(s), k * "
     "1.90821492927058770002e-10)) - f)); r = $S(x == ($F)0, -$INF, r); r = $S(x < ($F)0, $NAN, "
     "r); return $S((x == $INF) | (x != x), x, r); }\n"},
    {"hi", "FN $F hi_$n($F x) { return $B($F, ($I)($B($I, x) & ~(($I)0x7ffffff))); }\n"},
    // exp(y log x) with the logarithm in two parts: 2 s needs more bits than the rest of its
    // series. Whole powers of whole numbers are whole: what is cut to an integer afterwards must
    // not be a bit below.
    {"pow",
     "FN $F pow_$n($F x, $F y) { $F a = @abs(x); $F k = @logk(a); $F m = @logm(a); $F f = m - 1.0; "
     "$F d = f + 2.0; $F s = f / d; $F sh = @hi(s); $F dh = @hi(d); $F dl = (2.0 - (dh - f)) ; dl "
     "= f - (dh - 2.0); $F sl = @mad(-sh, dl, @mad(-sh, dh, f)) / d; $F z = s * s; $F r = s * "
     "@logr(s); $F h = k * 6.93147180369123816490e-01; $F hi = @mad(2.0, sh, h); $F lo = @mad(2.0, "
     "sh, h - hi); lo = @mad(k, 1.90821492927058770002e-10, @mad(2.0, sl, lo) + r); $F L = hi + "
     "lo; lo = (hi - L) + lo; $F Lh = @hi(L); $F Ll = (L - Lh) + lo; $F yh = @hi(y); $F yl = y - "
     "yh; $F p = y * L; $F q = @mad(yl, L, @mad(yh, Ll, @mad(yh, Lh, -p))); q = $S((@abs(p) < "
     "($F)1e300), q, 0.0); q = $S(@abs(q) < ($F)1.0, q, 0.0); $F e = @exp(p); e = $S(@abs(e) < "
     "$INF, @mad(e, q, e), e); e = $S(a == ($F)0, $S(y < ($F)0, $INF, 0.0), e); e = $S(a == $INF, "
     "$S(y < ($F)0, 0.0, $INF), e); $M whole = (@abs(y) >= ($F)0x1p53) | (@round_even(y) == y); $M "
     "exact = whole & (y > ($F)0) & (e < ($F)0x1p51) & (@round_even(a) == a); e = $S(exact, "
     "@round_even(e), e); $F halved = y * 0.5; $M odd = whole & (@abs(y) < ($F)0x1p53) & "
     "(@round_even(halved) != halved); $M negative = $B($I, x) < ($I)0; e = $S(negative & odd, -e, "
     "e); e = $S((x < ($F)0) & (a != $INF) & (whole == 0), $NAN, e); e = $S((a == ($F)1) & "
     "(@abs(y) == $INF), 1.0, e); e = $S((x != x) | (y != y), x + y, e); return $S((x == ($F)1) | "
     "(y == ($F)0), 1.0, e); }\n"},
    // Arguments beyond 2^20: the quotient by pi/2 modulo 4 from the bits of 2/pi, lane by lane.
    {"reduce1",
     "TABLE u64 pi_bits_$n[20] = {0xa2f9836e4e441529ul, 0xfc2757d1f534ddc0ul, "
     "0xdb6295993c439041ul, 0xfe5163abdebbc561ul, 0xb7246e3a424dd2e0ul, 0x06492eea09d1921cul, "
     "0xfe1deb1cb129a73eul, 0xe88235f52ebb4484ul, 0xe99c7026b45f7e41ul, 0x3991d639835339f4ul, "
     "0x9c845f8bbdf9283bul, 0x1ff897ffde05980ful, 0xef2f118b5a0a6d1ful, 0x6d367ecf27cb09b7ul, "
     "0x4f463f669e5fea2dul, 0x7527bac7ebe5f17bul, 0x3d0739f78a5292eaul, 0x6bfb5fb11f8d5d08ul, "
     "0x56033046fc7b6babul, 0xf0cfbc209af4361dul};\n"
     "FN f64 reduce1_$n(f64 x, OWNED i64* quadrant) { u64 b = BITS(u64, x); "
     "i64 e = (i64)(b >> 52 & 2047) - 1075; u64 m = (b & 0xfffffffffffffull) | "
     "0x10000000000000ull; "
     // The window of 256 bits whose top two bits are the quotient modulo 4.
     "i64 at = e - 2, word = at >> 6; u64 sh = at & 63; u64 w[4]; "
     "for (int i = 0; i < 4; ++i) { i64 k = word + i; u64 hi = k >= 0 && k < 20 ? pi_bits_$n[k] : "
     "0, lo = k >= -1 && k < 19 ? pi_bits_$n[k + 1] : 0; "
     "w[i] = sh ? hi << sh | lo >> (64 - sh) : hi; } "
     "u64 p[4] = {0, 0, 0, 0}; u64 carry = 0; "
     "for (int i = 3; i >= 0; --i) { u64 a0 = w[i] & 0xffffffffull, a1 = w[i] >> 32, b0 = m & "
     "0xffffffffull, b1 = m >> 32; "
     "u64 t = a0 * b0, u = a1 * b0 + (t >> 32), v = a0 * b1 + (u & 0xffffffffull); "
     "u64 low = v << 32 | (t & 0xffffffffull), high = a1 * b1 + (u >> 32) + (v >> 32); "
     "p[i] = low + carry; carry = high + (p[i] < low); } "
     "u64 top = p[0], next = p[1]; "
     "i64 q = (i64)(top >> 62); u64 f = top << 2 | next >> 62; u64 g = next << 2; "
     "f64 s = 1; if (f >> 63) { q += 1; f = ~f; g = ~g; s = -1; } "
     "f64 r = s * ((f64)f * 0x1p-64 + (f64)g * 0x1p-128) * 1.57079632679489661923; "
     "if (b >> 63) { r = -r; q = -q; } *quadrant = q & 3; return r; }\n"},
    {"reduce0",
     "FN $F reduce0_$n($F x, OWNED $I* quadrant) { $F n = @mad(x, 6.36619772367581382433e-01, "
     "6755399441055744.0) - 6755399441055744.0; $F r = @mad(-n, 1.57079632673412561417e+00, x); $F "
     "w = n * 6.07710050630396597660e-11; $F t = r - w; $F l = (r - t) - w; r = t; w = n * "
     "2.02226624871116645580e-21; t = r - w; l = l + ((r - t) - w); r = t; r = r + @mad(-n, "
     "8.47842766036889956997e-32, l); *quadrant = @int($S(@abs(x) < ($F)0x1p20, n, 0.0)) & 3; "
     "return r; }\n"},
    {"sinr",
     "FN $F sinr_$n($F x, $I q) { $F z = x * x; $F s = @mad(z, @mad(z, @mad(z, @mad(z, "
     "1.58969099521155010221e-10, -2.50507602534068634195e-08), 2.75573137070700676789e-06), "
     "-1.98412698298579493134e-04), 8.33333333332248946124e-03); s = @mad(x * z, @mad(z, s, "
     "-1.66666666666666324348e-01), x); $F c = @mad(z, @mad(z, @mad(z, @mad(z, @mad(z, "
     "-1.13596475577881948265e-11, 2.08757232129817482790e-09), -2.75573143513906633035e-07), "
     "2.48015872894767294178e-05), -1.38888888888741095749e-03), 4.16666666666666019037e-02); $F h "
     "= 0.5 * z; $F w = 1.0 - h; c = w + @mad(z * z, c, (1.0 - w) - h); $F r = $S((q & 1) != "
     "($I)0, c, s); return $S((q & 2) != ($I)0, -r, r); }\n"},
    {"sin",
     "FN $F sin_$n($F x) { $I q; $F r = @reduce(x, &q); r = @sinr(r, q); r = $S(x == ($F)0, x, r); "
     "return $S(@abs(x) < $INF, r, $NAN); }\n"},
    {"cos",
     "FN $F cos_$n($F x) { $I q; $F r = @reduce(x, &q); r = @sinr(r, q + 1); return $S(@abs(x) < "
     "$INF, r, $NAN); }\n"},
    {"atan",
     "FN $F atan_$n($F x) { $F a = @abs(x); $M big = a > ($F)2.41421356237309504880; $M mid = a > "
     "($F)0.66; $F t = $S(big, -1.0 / a, $S(mid, (a - 1.0) / (a + 1.0), a)); $F y = $S(big, "
     "1.57079632679489661923, $S(mid, 7.85398163397448309616e-1, 0.0)); $F l = $S(big, "
     "6.123233995736765886130e-17, $S(mid, 3.061616997868382943065e-17, 0.0)); $F z = t * t; $F p "
     "= @mad(@mad(@mad(@mad(-8.750608600031904122785e-1, z, -1.615753718733365076637e1), z, "
     "-7.500855792314704667340e1), z, -1.228866684490136173410e2), z, -6.485021904942025371773e1); "
     "$F q = @mad(@mad(@mad(@mad(z + 2.485846490142306297962e1, z, 1.650270098316988542046e2), z, "
     "4.328810604912902668951e2), z, 4.853903996359136964868e2), z, 1.945506571482613964425e2); "
     "return @copysign(y + (t + @mad(t, z * p / q, l)), x); }\n"},
    {"atan2",
     "FN $F atan2_$n($F y, $F x) { $F ay = @abs(y), ax = @abs(x); $M both = (ay == $INF) & (ax == "
     "$INF); "
     "$F q = $S(both, 1.0, ay / ax); q = $S((ay == ($F)0) & (ax == ($F)0), 0.0, q); $F r = "
     "@atan(q); "
     "$M left = $B($I, x) < ($I)0; r = $S(left, 3.14159265358979323846 - (r - "
     "1.2246467991473531772e-16), r); "
     "return $S((x != x) | (y != y), x + y, @copysign(r, y)); }\n"},
    // erf(x) / x over x^2 on [0, 1], and exp(x^2) erfc(x) (1 + 2 x) over (x - 3) / (x + 3) on [1,
    // 28]: Chebyshev fits.
    {"erfs",
     "FN $F erfs_$n($F x) { $F z = x * x; $F p = ($F)5.957176147748911404e-11; p = @mad(p, z, "
     "-1.137284885679167367e-9); p = @mad(p, z, 1.465977527404743581e-8); p = @mad(p, z, "
     "-1.635031270105469501e-7); p = @mad(p, z, 1.646100048412136803e-6); p = @mad(p, z, "
     "-0.00001492559526683118157); p = @mad(p, z, 0.0001205533111164271092); p = @mad(p, z, "
     "-0.0008548326980833789905); p = @mad(p, z, 0.005223977624818014467); p = @mad(p, z, "
     "-0.02686617064507679325); p = @mad(p, z, 0.1128379167095487867); p = @mad(p, z, "
     "-0.3761263890318374806); p = @mad(p, z, 1.128379167095512574); return x * p; }\n"},
    {"erfcp",
     "FN $F erfcp_$n($F x) { $F u = (x - 3.0) / (x + 3.0); u = (u - 0.153225806451612903) * "
     "1.53086419753086419753; $F p = ($F)4.345222915646862168e-13; p = @mad(p, u, "
     "-2.451735619265352558e-12); p = @mad(p, u, -8.843789421887663535e-12); p = @mad(p, u, "
     "3.443215261272436164e-11); p = @mad(p, u, 1.204364074646901514e-10); p = @mad(p, u, "
     "-3.435197206333450222e-10); p = @mad(p, u, -1.459068593427327363e-9); p = @mad(p, u, "
     "3.732406572005400897e-9); p = @mad(p, u, 1.706889440994904293e-8); p = @mad(p, u, "
     "-5.228123657607416922e-8); p = @mad(p, u, -1.868551964969990757e-7); p = @mad(p, u, "
     "9.154675294210946868e-7); p = @mad(p, u, 1.31799229512580583e-6); p = @mad(p, u, "
     "-0.00001696334242435611136); p = @mad(p, u, 0.00002571290833754416529); p = @mad(p, u, "
     "0.0002112596422936413278); p = @mad(p, u, -0.001558428627282714114); p = @mad(p, u, "
     "0.005712114428959617271); p = @mad(p, u, -0.01364285865726505981); p = @mad(p, u, "
     "0.01976949081361388504); p = @mad(p, u, -0.001068196529363419594); p = @mad(p, u, "
     "-0.09315327640320651947); p = @mad(p, u, 1.231516844260439458); $F h = @hi(x); $F e = "
     "@exp(-(h * h)) * @exp((h - x) * (h + x)); return $S(x > ($F)27.3, 0.0, e * p / @mad(2.0, x, "
     "1.0)); }\n"},
    {"erf",
     "FN $F erf_$n($F x) { $F a = @abs(x); $F b = $S(a < ($F)1, 1.0, $S(a > ($F)6.5, 6.5, a)); "
     "$F r = @copysign(1.0 - @erfcp(b), x); r = $S(a < ($F)1, @erfs($S(a < ($F)1, x, 0.0)), r); "
     "return $S(x != x, x, r); }\n"},
    {"erfc",
     "FN $F erfc_$n($F x) { $F a = @abs(x); $F b = $S(a < ($F)1, 1.0, $S(a > ($F)28, 28.0, a)); $F "
     "r = @erfcp(b); "
     "r = $S(x < ($F)0, 2.0 - r, r); r = $S(a < ($F)1, 1.0 - @erfs($S(a < ($F)1, x, 0.0)), r); "
     "return $S(x != x, x, r); }\n"},
    // Starts from M. Giles's approximation or, outside its range, from the expansion of erfc. Then
    // Halley steps on erf, or on erfc where 1 - |x| is small.
    {"erf_inv",
     "FN $F erf_inv_$n($F x) { $F a = @abs(x); $F w = -@log((1.0 - a) * (1.0 + a)); $F v = w - "
     "2.5; $F p = @mad(2.81022636e-08, v, 3.43273939e-07); p = @mad(p, v, -3.5233877e-06); p = "
     "@mad(p, v, -4.39150654e-06); p = @mad(p, v, 0.00021858087); p = @mad(p, v, -0.00125372503); "
     "p = @mad(p, v, -0.00417768164); p = @mad(p, v, 0.246640727); p = @mad(p, v, 1.50140941); $F "
     "s = @sqrt(w) - 3.0; $F q = @mad(-0.000200214257, s, 0.000100950558); q = @mad(q, s, "
     "0.00134934322); q = @mad(q, s, -0.00367342844); q = @mad(q, s, 0.00573950773); q = @mad(q, "
     "s, -0.0076224613); q = @mad(q, s, 0.00943887047); q = @mad(q, s, 1.00167406); q = @mad(q, s, "
     "2.83297682); $F y = $S(w < ($F)5, p, q) * a; $F l = $S(w > ($F)16, w, 16.0) + "
     "0.69314718055994530942; y = $S(w > ($F)16, @sqrt(@mad(-0.5, @log(l * "
     "3.14159265358979323846), l)), y); y = $S(y < ($F)6.2, y, 6.2); $F c = 1.0 - a; for (int i = "
     "0; i < 3; ++i) { $F f = $S(a < ($F)0.5, @erf(y) - a, c - @erfc(y)); $F d = f * @exp(y * y) * "
     "0.88622692545275801365; y = y - d / @mad(y, d, 1.0); } y = $S(a == ($F)1, $INF, y); y = $S(a "
     "> ($F)1, $NAN, y); y = $S(a == ($F)0, a, y); return @copysign($S(x != x, x, y), x); }\n"},
    // sin(pi x) and cos(pi x) with exact reduction.
    {"sinpi",
     "FN $F sinpi_$n($F x) { $F n = @round_even(x + x); $F r = @mad(-0.5, n, x) * "
     "3.14159265358979323846; $F m = @mad(-4.0, @floor(n * 0.25), n); return @sinr(r, @int(m)); "
     "}\n"},
    {"cospi",
     "FN $F cospi_$n($F x) { $F n = @round_even(x + x); $F r = @mad(-0.5, n, x) * "
     "3.14159265358979323846; $F m = @mad(-4.0, @floor(n * 0.25), n); return @sinr(r, @int(m) + "
     "1); }\n"},
    // log gamma of x >= 1/2: Stirling's series from 10 on; below 10, reduced to it by the product x
    // (x + 1) ... Absolute error 4e-15 near the zeros at 1 and 2.
    {"lgammap",
     "FN $F lgammap_$n($F x) { $F p = $B($F, ($I)($B($I, x) & 0)) + 1.0; $F y = x; for (int i = 0; "
     "i < 10; ++i) { $M low = y < ($F)10; p = $S(low, p * y, p); y = $S(low, y + 1.0, y); } $F z = "
     "1.0 / y, w = z * z; $F s = @mad(-w, 1.3924322169059011, 1.7964437236883057e-1); s = @mad(w, "
     "s, -2.9550653594771241e-2); s = @mad(w, s, 6.4102564102564103e-3); s = @mad(w, s, "
     "-1.9175269175269175e-3); s = @mad(w, s, 8.4175084175084175e-4); s = @mad(w, s, "
     "-5.9523809523809524e-4); s = @mad(w, s, 7.9365079365079365e-4); s = @mad(w, s, "
     "-2.7777777777777778e-3); s = @mad(w, s, 8.3333333333333333e-2) * z; $F r = @mad(y - 0.5, "
     "@log(y), -y) + 0.91893853320467274178 + s; r = r - @log(p); r = $S(y > ($F)1e15, y * "
     "(@log(y) - 1.0), r); return $S((x == ($F)1) | (x == ($F)2), 0.0, $S(x == $INF, x, r)); }\n"},
    {"lgamma",
     "FN $F lgamma_$n($F x) { $M low = x < ($F)0.5; $F r = @lgammap($S(low, 1.0 - x, x)); "
     "$F s = @abs(@sinpi(x)); $F q = 1.14472988584940017414 - @log(s) - r; q = $S(@floor(x) == x, "
     "$INF, q); "
     "q = $S(@abs(x) < ($F)1e-20, -@log(@abs(x)), q); r = $S(low, q, r); "
     "return $S(x != x, x, $S(x == -$INF, $INF, r)); }\n"},
    {"digamma",
     "FN $F digamma_$n($F x) { $M low = x < ($F)0.5; $F y = $S(low, 1.0 - x, x); $F r = y * 0.0; r "
     "= $S(y == $INF, 0.0, r); for (int i = 0; i < 10; ++i) { $M small = y < ($F)10; r = $S(small, "
     "r - 1.0 / y, r); y = $S(small, y + 1.0, y); } $F w = 1.0 / (y * y); $F s = "
     "8.3333333333333333e-2; s = @mad(w, s, -2.1092796092796093e-2); s = @mad(w, s, "
     "7.5757575757575758e-3); s = @mad(w, s, -4.1666666666666667e-3); s = @mad(w, s, "
     "3.9682539682539683e-3); s = @mad(w, s, -8.3333333333333333e-3); s = @mad(w, s, "
     "8.3333333333333333e-2); r = @mad(-w, s, r + @log(y) - 0.5 / y); $F c = "
     "3.14159265358979323846 * @cospi(x) / @sinpi(x); r = $S(low, r - c, r); r = $S((x <= ($F)0) & "
     "(@floor(x) == x), $NAN, r); r = $S(x == ($F)0, ($F)-1 / x, r); return $S(x != x, x, r); }\n"},
    {"round_even0",
     "FN $F round_even0_$n($F x) { $F a = @abs(x); $F r = (a + 4503599627370496.0) - "
     "4503599627370496.0; "
     "return @copysign($S(a < ($F)4503599627370496.0, r, a), x); }\n"},
};

// Rounding to integers by round_even0, for instruction sets without a rounding instruction.
constexpr Function kRoundingByHand[] = {
    {"round_even", "FN $F round_even_$n($F x) { return @round_even0(x); }\n"},
    {"floor",
     "FN $F floor_$n($F x) { $F r = @round_even0(x); return @copysign($S(r > x, r - ($F)1, r), x); "
     "}\n"},
    {"ceil",
     "FN $F ceil_$n($F x) { $F r = @round_even0(x); return @copysign($S(r < x, r + ($F)1, r), x); "
     "}\n"},
    {"trunc",
     "FN $F trunc_$n($F x) { $F a = @abs(x); $F r = @round_even0(a); return @copysign($S(r > a, r "
     "- ($F)1, r), x); }\n"},
};
constexpr Function kRoundingVector[] = {
    {"round_even", "FN $F round_even_$n($F x) { return __builtin_elementwise_roundeven(x); }\n"},
    {"floor", "FN $F floor_$n($F x) { return __builtin_elementwise_floor(x); }\n"},
    {"ceil", "FN $F ceil_$n($F x) { return __builtin_elementwise_ceil(x); }\n"},
    {"trunc", "FN $F trunc_$n($F x) { return __builtin_elementwise_trunc(x); }\n"},
};

// a * b + c, rounded once where that is as fast as the product alone.
constexpr std::string_view kMadTwice = "FN $F mad_$n($F a, $F b, $F c) { return a * b + c; }\n";
constexpr std::string_view kMadOnce =
    "FN $F mad_$n($F a, $F b, $F c) { return __builtin_elementwise_fma(a, b, c); }\n";
constexpr std::string_view kMadMetal = "FN $F mad_$n($F a, $F b, $F c) { return fma(a, b, c); }\n";
// Only the vendor's compiler knows.
constexpr std::string_view kMadOpenCl =
    "FN $F mad_$n($F a, $F b, $F c) { return MAD_$E(a, b, c); }\n";
constexpr std::string_view kMulPairText =
    "FN $F mul_pair_$n($F x, $F a, $F b) { return __builtin_elementwise_fma(x, a, x * b); }\n";
constexpr std::string_view kSqrtCpp =
    "FN $F sqrt_$n($F x) { return __builtin_elementwise_sqrt(x); }\n";
constexpr std::string_view kSqrtOpenCl = "FN $F sqrt_$n($F x) { return sqrt(x); }\n";
constexpr std::string_view kRemVector =
    "FN $F rem_$n($F a, $F b) { $F r; for (int l = 0; l < $N; ++l) r[l] = @rem1<one>(a[l], "
    "b[l]); "
    "return r; }\n";
// One quotient n, cut to an integer q, and a - q b. q is at most one too large, because n was
// rounded up to an integer; then b is added again. Up to these bounds q is exact, and so is the
// difference, which is a multiple of the last place of b and no larger than b: with one rounding
// for both operations, or in f64, which holds q b for f32. Lanes with larger quotients, infinities,
// NaN or b = 0 take the long way; a loop, since they are rare.
constexpr std::string_view kRemF32Fma =
    "FN $F rem_$n($F a, $F b) { $F x = @abs(a), y = @abs(b), n = x / y, q = @trunc(n); $F r = "
    "__builtin_elementwise_fma(-q, y, x); r = $S(r < ($F)0, r + y, r); r = @copysign($S(x < y, x, "
    "r), a); $M near = n < ($F)0x1p22f; if (__builtin_reduce_and(near) == 0) for (int l = 0; l < "
    "$N; ++l) { if (near[l] == 0) r[l] = @rem1<one>(a[l], b[l]); } return r; }\n";
constexpr std::string_view kRemF64Fma =
    "FN $F rem_$n($F a, $F b) { $F x = @abs(a), y = @abs(b), n = x / y, q = @trunc(n); $F r = "
    "__builtin_elementwise_fma(-q, y, x); r = $S(r < ($F)0, r + y, r); r = @copysign($S(x < y, x, "
    "r), a); $M near = n < ($F)0x1p51; if (__builtin_reduce_and(near) == 0) for (int l = 0; l < "
    "$N; ++l) { if (near[l] == 0) r[l] = @rem1<one>(a[l], b[l]); } return r; }\n";
constexpr std::string_view kRemF32 =
    "FN $F rem_$n($F a, $F b) { $D x = @abs<f64>($C($D, a)), y = @abs<f64>($C($D, b)), n = x / y, "
    "q = @trunc<f64>(n); $D d = x - q * y; d = $SD(d < ($D)0, d + y, d); d = $SD(x < y, x, d); $F "
    "r = @copysign($C($F, d), a); $M near = $C($M, n < ($D)0x1p28); if (__builtin_reduce_and(near) "
    "== 0) for (int l = 0; l < $N; ++l) { if (near[l] == 0) r[l] = @rem1<one>(a[l], b[l]); } "
    "return r; }\n";
constexpr std::string_view kRemScalar = "FN $F rem_$n($F a, $F b) { return @rem1(a, b); }\n";

// With one rounding for both operations, pi/2 in three parts leaves a fraction that is right to the
// last place up to 71476; beyond, lanes take the long way in f64, in a loop, since they are rare.
// The quotient is in the low bits of what it was rounded by.
constexpr std::string_view kTrigF32 =
    "FN $F trig_$n($F x, OWNED $I* quadrant) { $F j = @mad(x, 0.636619747f, 12582912.f); *quadrant "
    "= $B($I, j); j = j - 12582912.f; $F r = @mad(j, -1.57079601e+00f, x); r = @mad(j, "
    "-3.13916473e-07f, r); return @mad(j, -5.39030253e-15f, r); }\n";
constexpr std::string_view kTrigPolyF32 =
    "FN $F trigp_$n($F r, $I q) { $F z = r * r; $F c = @mad(2.44677067e-5f, z, -1.38877297e-3f); c "
    "= @mad(c, z, 4.16666567e-2f); c = @mad(c, z, -0.5f); c = @mad(c, z, 1.f); $F s = "
    "@mad(2.84040971e-6f, z, -1.98564914e-4f); s = @mad(s, z, 8.33339710e-3f); s = @mad(s, z, "
    "-1.66666672e-1f); s = @mad(s, r * z, r); r = $S((q & 1) != ($I)0, c, s); return $S((q & 2) != "
    "($I)0, -r, r); }\n";
constexpr std::string_view kSinF32 =
    "FN $F sin_$n($F x) { $I q; $F t = @trig(x, &q); $F r = @trigp(t, q); r = $S(x == ($F)0, x, "
    "r); "
    "$M near = @abs(x) < ($F)71476.f; if (__builtin_reduce_and(near) == 0) for (int l = 0; l < $N; "
    "++l) { if (near[l] == 0) r[l] = @sin<one>(x[l]); } return r; }\n";
constexpr std::string_view kCosF32 =
    "FN $F cos_$n($F x) { $I q; $F t = @trig(x, &q); $F r = @trigp(t, q + 1); $M near = @abs(x) < "
    "($F)71476.f; if (__builtin_reduce_and(near) == 0) for (int l = 0; l < $N; ++l) { if (near[l] "
    "== 0) r[l] = @cos<one>(x[l]); } return r; }\n";

// vscalefps does both scalings of the exponent and every special case at once. Lanes whose result
// is 0 are left out, because a result that underflows takes a core hundreds of cycles, and masked
// scores are all such lanes.
constexpr std::string_view kExpAvx512 =
    "FN $F exp_$n($F x) { typedef int M __attribute__((vector_size(64))); unsigned short some = "
    "(unsigned short)~__builtin_ia32_cvtd2mask512((M)(x < ($F)-103.98f)); x = $S(x > ($F)89.f, "
    "89.f, x); x = $S(x < ($F)-104.5f, -104.5f, x); $F n = @mad(x, 1.44269504088896341f, "
    "12582912.f) - 12582912.f; $F r = @mad(-n, 0.693359375f, x); r = @mad(n, 2.12194440e-4f, r); "
    "$F p = @mad(1.9875691500e-4f, r, 1.3981999507e-3f); p = @mad(p, r, 8.3334519073e-3f); p = "
    "@mad(p, r, 4.1665795894e-2f); p = @mad(p, r, 1.6666665459e-1f); p = @mad(p, r, "
    "5.0000001201e-1f); p = @mad(p, r * r, r) + 1.f; typedef float G "
    "__attribute__((vector_size(64))); return ($F)__builtin_ia32_scalefps512_mask((G)p, (G)n, "
    "(G){}, some, 4); }\n";

constexpr std::string_view kExp2Avx512 =
    "FN $F exp2_$n($F x) { typedef int M __attribute__((vector_size(64))); unsigned short some = "
    "(unsigned short)~__builtin_ia32_cvtd2mask512((M)(x < ($F)-150.f)); x = $S(x > ($F)129.f, "
    "129.f, x); x = $S(x < ($F)-151.f, -151.f, x); $F n = (x + 12582912.f) - 12582912.f; $F r = (x "
    "- n) * 0.69314718056f; $F p = @mad(1.9875691500e-4f, r, 1.3981999507e-3f); p = @mad(p, r, "
    "8.3334519073e-3f); p = @mad(p, r, 4.1665795894e-2f); p = @mad(p, r, 1.6666665459e-1f); p = "
    "@mad(p, r, 5.0000001201e-1f); p = @mad(p, r * r, r) + 1.f; typedef float G "
    "__attribute__((vector_size(64))); return ($F)__builtin_ia32_scalefps512_mask((G)p, (G)n, "
    "(G){}, some, 4); }\n";

// A loop, since it is rare and its body long: unrolled, a chain of sines takes clang minutes.
constexpr std::string_view kReduceVector =
    "FN $F reduce_$n($F x, OWNED $I* quadrant) { $I k; $F r = @reduce0(x, &k); "
    "for (int l = 0; l < $N; ++l) { f64 a = x[l] < 0 ? -x[l] : x[l]; "
    "if (a >= 0x1p20 && a < $INF) { i64 q; r[l] = @reduce1<one>(x[l], &q); k[l] = q; } } *quadrant "
    "= k; return r; }\n";
constexpr std::string_view kReduceScalar =
    "FN $F reduce_$n($F x, OWNED $I* quadrant) { f64 a = x < 0 ? -x : x; "
    "if (a >= 0x1p20 && a < $INF) return @reduce1(x, quadrant); return @reduce0(x, quadrant); }\n";

template <size_t n>
std::string_view find(const Function (&table)[n], std::string_view name) {
  for (const Function& f : table) {
    if (f.name == name) return f.text;
  }
  return {};
}

// A lane at a time only where f64 has no multiplication and addition in one.
std::string_view remainder_text(DType type, const Target& target, uint32_t lanes) {
  if (lanes == 1) return kRemScalar;
  if (type == TENON_F32) return target.fma ? kRemF32Fma : kRemF32;
  return target.fma ? kRemF64Fma : kRemVector;
}

// Sines of vectors of f32 where both operations of a sum of products are rounded once.
std::string_view trigonometric_text(std::string_view name) {
  if (name == "sin") return kSinF32;
  if (name == "cos") return kCosF32;
  if (name == "trig") return kTrigF32;
  return name == "trigp" ? kTrigPolyF32 : std::string_view();
}

std::string_view mad_text(const Target& target) {
  if (target.dialect == Dialect::kOpenCl) return kMadOpenCl;
  if (target.dialect == Dialect::kMetal) return kMadMetal;
  return target.fma ? kMadOnce : kMadTwice;
}

}  // namespace

std::string_view math_text(std::string_view name, DType type, const Target& target,
                           uint32_t lanes) {
  const bool opencl = target.spaces();
  if (name == "mad") return mad_text(target);
  if (name == "mul_pair") return kMulPairText;
  if (name == "sqrt") return opencl ? kSqrtOpenCl : kSqrtCpp;
  if (name == "rem") return remainder_text(type, target, lanes);
  if (!target.fp64 && type == TENON_F32 && lanes == 1) {
    if (const std::string_view alone = find(kF32Alone, name); !alone.empty()) return alone;
  }
  if (type == TENON_F32 && lanes > 1 && target.fma) {
    if (const std::string_view text = trigonometric_text(name); !text.empty()) return text;
  }
  if (name == "reduce") return lanes > 1 ? kReduceVector : kReduceScalar;
  if (name == "exp" && type == TENON_F32 && lanes == 16 && target.isa == "avx512")
    return kExpAvx512;
  if (name == "exp2" && lanes == 16 && target.isa == "avx512") return kExp2Avx512;
  if (name == "copysign" && lanes > 1 && target.isa == "avx512") return kCopysignAvx512;
  const bool rounds = target.isa == "avx512" || target.isa == "avx2" || target.isa == "neon";
  std::string_view t = rounds ? find(kRoundingVector, name) : find(kRoundingByHand, name);
  if (t.empty()) t = find(kBoth, name);
  if (t.empty()) t = type == TENON_F32 ? find(kF32, name) : find(kF64, name);
  return t;
}

}  // namespace tenon::kernelgen
