/* Tenon ABI: scalar programs: the meaning of one element of an element-wise op, as a postfix
 * program. The reference device, kernelgen and every GPU use the same program.
 *
 * A program is an array of 32-bit words. Bits 0-7 of an instruction are its opcode, bits 8-31 its
 * argument `a`. CONST_F and CONST_I are followed by two words, the low half of the 64-bit pattern
 * first. The program leaves one value per result of the op on the stack, the first result deepest.
 *
 * Types: every stack entry has an element type. ARG pushes an entry of the operand's type.
 * Constants and attributes have the working type: the type of operand 0, until WORK sets it to the
 * type of another operand. Binary instructions need equal types on both sides; CMP gives pred;
 * SELECT takes (pred, a, b) with b on top. CONVERT changes the type.
 *
 * Rounding: f16 and bf16 operands are widened to f32 on ARG, the whole program runs in f32, and
 * results are rounded once (nearest even). f32 and f64 programs run in their own type. Integers
 * wrap. An implementation may keep more precision between fused programs, never less.
 *
 * Integers: div truncates, x/0 = -1 (all ones for unsigned), MIN/-1 = MIN, x%0 = x, MIN%-1 = 0, and
 * % takes the sign of the dividend. A shift by >= width gives 0 (SHR_A: the sign, 0 for unsigned
 * types); a negative count counts as >= width. FLOOR, CEIL, TRUNC and ROUND_EVEN do not change
 * integers. Floats: MAX and MIN propagate NaN and order -0 below +0; SIGN(NaN) is NaN, SIGN(-0) is
 * -0. REM is C fmod. CONVERT of float to integer truncates and saturates, and NaN gives 0; CONVERT
 * to pred is x != 0 (NaN is true).
 */
#ifndef TENON_ABI_SCALAR_H_
#define TENON_ABI_SCALAR_H_

#include "tenon/abi/base.h"

#define TENON_SCALAR_WORD(op, a) ((uint32_t)(op) | ((uint32_t)(a) << 8))

/* Leaves. */
#define TENON_S_ARG 1u     /* a: operand ordinal */
#define TENON_S_CONST_F 2u /* 64-bit IEEE double follows, converted to the working type */
#define TENON_S_CONST_I 3u /* 64-bit integer follows, converted to the working type */
#define TENON_S_ATTR \
  4u /* a: ordinal in the op's declared attributes (a number), converted to the working type */
#define TENON_S_PICK 5u /* pushes a copy of the entry a below the top */
#define TENON_S_WORK \
  6u /* a: ordinal of the operand whose type becomes the working type; pushes nothing itself */
#define TENON_S_CONST_MIN 7u /* lowest finite (floats) or smallest value of the working type */
#define TENON_S_CONST_MAX 8u /* highest finite or largest value of the working type */
#define TENON_S_RESULT 9u    /* a: ordinal of a result; only in partial derivatives (ops.h) */

/* Unary: pop one, push one. */
#define TENON_S_NEG 16u
#define TENON_S_ABS 17u
#define TENON_S_SIGN 18u
#define TENON_S_FLOOR 19u
#define TENON_S_CEIL 20u
#define TENON_S_TRUNC 21u
#define TENON_S_ROUND_EVEN 22u
#define TENON_S_SQRT 23u
#define TENON_S_RSQRT 24u
#define TENON_S_EXP 25u
#define TENON_S_EXPM1 26u
#define TENON_S_LOG 27u
#define TENON_S_LOG1P 28u
#define TENON_S_SIN 29u
#define TENON_S_COS 30u
#define TENON_S_TANH 31u
#define TENON_S_LOGISTIC 32u
#define TENON_S_ERF 33u
#define TENON_S_ERFC 34u
#define TENON_S_ERF_INV 35u
#define TENON_S_LGAMMA 36u
#define TENON_S_DIGAMMA 37u
#define TENON_S_NOT 38u /* pred: logical; integers: bitwise */
#define TENON_S_POPCOUNT 39u
#define TENON_S_CLZ 40u
#define TENON_S_IS_NAN 41u         /* gives pred; integers: false */
#define TENON_S_CONVERT 42u        /* a: element type */
#define TENON_S_CONVERT_RESULT 43u /* a: result ordinal; to that result's element type */
#define TENON_S_BITCAST_RESULT 44u /* a: result ordinal; same width */
#define TENON_S_CONVERT_WRAP \
  45u /* a: result ordinal; float to integer modulo 2^n instead of saturating */

/* Binary: pop b, pop a, push a op b. */
#define TENON_S_ADD 64u
#define TENON_S_SUB 65u
#define TENON_S_MUL 66u
#define TENON_S_DIV 67u
#define TENON_S_REM 68u
#define TENON_S_POW 69u
#define TENON_S_ATAN2 70u
#define TENON_S_MAX 71u
#define TENON_S_MIN 72u
#define TENON_S_AND 73u
#define TENON_S_OR 74u
#define TENON_S_XOR 75u
#define TENON_S_SHL 76u
#define TENON_S_SHR_A 77u
#define TENON_S_SHR_L 78u
#define TENON_S_CMP 79u      /* a: one of TENON_CMP_*; gives pred; IEEE: NaN is unequal to all */
#define TENON_S_CMP_ATTR 80u /* a: ordinal of the integer attribute that holds the TENON_CMP_* */

/* Ternary. */
#define TENON_S_SELECT 96u

#define TENON_CMP_EQ 0u
#define TENON_CMP_NE 1u
#define TENON_CMP_LT 2u
#define TENON_CMP_LE 3u
#define TENON_CMP_GT 4u
#define TENON_CMP_GE 5u

#endif
