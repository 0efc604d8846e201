// Helper functions of generated text, instantiated on demand: one per operation, type and lane
// count, and only those that the text calls. Internal to kernelgen.
#ifndef TENON_KERNELGEN_PRINT_PRELUDE_H_
#define TENON_KERNELGEN_PRINT_PRELUDE_H_

#include <set>
#include <string>
#include <string_view>

#include "tenon/kernelgen/ir/ir.h"
#include "tenon/kernelgen/ir/target.h"

namespace tenon::kernelgen {

// Steps of a contraction or convolution that one chain of additions accumulates before it is added
// to the tile. Rounding errors then grow with the square root of the block length and of the number
// of blocks, not with the length of the sum. The extra additions cost one to two per cent of the
// time.
inline constexpr int64_t kSumBlock = 128;

// The steps of one chain, as an expression of the text. Sums of little more than a block are
// halved, because a block and a short rest would be little better than one chain.
std::string sum_block(const std::string& steps);

// A register tile with weights of 4 or 8 bits. zeros: "panels", "one" or "none". quads: a lane has
// a word of four steps of 8 bits, or of eight of 4 bits, the first four in the low halves of its
// bytes.
struct FewBitsTile {
  uint32_t rows = 1, vectors = 1, bits = 4;
  bool is_signed = false, quads = false;
  std::string zeros;
};

// Functions are written once for vectors and scalars, C++ and OpenCL C, in text with these tokens:
//   $F $I $U $M   float type; signed and unsigned integer of its width; type of a comparison
//   $D            the f64 float type; $N lanes; $n the suffix of names, as in exp_f32x16
//   $S(m,a,b)     m ? a : b; $B(T,x) bits as T; $C(T,x) value converted to T
//   @name(        the function `name` of the same type and lanes; @name<f64>( of another type
class Prelude {
 public:
  explicit Prelude(const Target& target) : target_(target) {}

  // Returns the name of the function. Adds its text, and all that it needs, once.
  std::string need(std::string_view function, DType type, uint32_t lanes);
  // Conversion functions have two types.
  std::string need_convert(DType from, DType to, uint32_t lanes, bool wrap);
  // Conversion of f32 to an integer of 8 or 16 bits that is NaN (0) or in its range already.
  std::string need_narrowing(DType to, uint32_t lanes);
  // The register tile: rows of a times vectors of b over the steps, stored to a tile. steps:
  // operands per lane and step; 2 of bf16 or i16 (vdpbf16ps, pmaddwd), 4 of bytes (vpdpbusd).
  // weights: the type of b, if it is narrower and widened in registers. Never inlined, so that it
  // has all registers to itself.
  std::string need_mma(DType type, uint32_t lanes, uint32_t rows, uint32_t vectors, uint32_t steps,
                       DType weights = TENON_DTYPE_NONE);
  // The same with weights (b - zero) scale of few bits.
  std::string need_mma_few_bits(uint32_t lanes, const FewBitsTile& tile);
  // The same with rows as digits: arguments are the rows, then the digits and the facts of each.
  std::string need_mma_digits(uint32_t lanes, const FewBitsTile& tile);
  // Makes the digits of `k` floats in blocks of `h`, and 8 facts of each block: what the last digit
  // counts, or -1 where the block has to be multiplied in floats; the sums of the four digits.
  std::string need_digits(uint32_t lanes);
  // Dot products of a row with keys that lie apart, several keys at a time: whole vectors of
  // results.
  std::string need_dots(DType type, uint32_t lanes);
  // The register tile for convolutions: rows at addresses per tap, with `k` words each; or
  // element-wise along the columns, where the
  // input has the type `read`.
  std::string need_taps(DType type, uint32_t lanes, uint32_t rows, uint32_t vectors,
                        uint32_t steps);
  std::string need_depthwise(DType type, DType read, uint32_t lanes, uint32_t rows,
                             uint32_t vectors);
  // The same for rows `step` apart in runs of `run` taps.
  std::string need_depthwise_runs(DType type, DType read, uint32_t lanes, uint32_t rows,
                                  uint32_t vectors, uint32_t run, uint32_t step);
  // A stable merge sort of keys and their numbers, with work space for as many.
  std::string need_sort(DType key);
  // The first places of the same order, by keeping the best so far.
  std::string need_select(DType key);
  // Whether a tile holds a NaN. Arguments: rows, their distance, columns (rounded up to vectors).
  std::string need_any_nan(DType type, uint32_t lanes);
  // Returns the name of a type, which is declared if it is a vector.
  std::string type(DType t, uint32_t lanes);
  std::string memory_type(DType t) const;
  std::string text() const { return header() + types_ + functions_; }
  const std::string& why() const { return why_; }
  // Whether HOLD keeps a value in a register of its own; elsewhere it does nothing.
  bool holds() const { return target_.isa == "avx512"; }
  // Whether some text needs f64, which the target lacks; it is then the reason why.
  bool needs_f64() const { return needs_f64_; }

 private:
  // A vector of channels of the input as `type`: the text, given a pointer and whether a mask `m`
  // applies.
  std::string need_channels(DType type, DType read, uint32_t lanes, bool masked);
  std::string header() const;
  std::string suffix(DType t, uint32_t lanes) const;
  std::string expand(std::string_view text, DType t, uint32_t lanes);
  void add(const std::string& name, const std::string& text);
  void need_f64(const std::string& user);
  std::string backwards_text(std::string_view f, DType t, uint32_t lanes);
  std::string memory_text(std::string_view function, DType t, uint32_t lanes);
  std::string word_vector(DType acc, uint32_t lanes, uint32_t steps);
  std::string word_product(DType acc, uint32_t lanes, uint32_t steps, const std::string& c,
                           const std::string& b);
  std::string byte_product(uint32_t lanes, const std::string& sum, const std::string& bytes,
                           const std::string& digits);
  std::string sum_of(DType type, uint32_t lanes, const std::string& c, const std::string& x,
                     const std::string& y);
  std::string widened(uint32_t lanes, const FewBitsTile& tile, const std::string& integer,
                      const std::string& place);
  std::string digits_of_block(uint32_t lanes, const FewBitsTile& tile, uint32_t row, uint32_t first,
                              uint32_t wide);
  std::string integer_text(std::string_view function, DType t, uint32_t lanes);

  const Target& target_;
  std::set<std::string> known_;
  std::string types_, functions_, why_;
  bool needs_f64_ = false;
};

// The text of a math function for floats, or empty; math_f64 for 8-byte types.
std::string_view math_text(std::string_view function, DType type, const Target& target,
                           uint32_t lanes);

}  // namespace tenon::kernelgen
#endif
