// Operations of a loop tree on whole tiles: transposes, interleaved vectors, register tiles of
// products and convolutions, sorts.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/interpreter/tree_run.h"

namespace tenon::interpreter {

using kernelgen::is_float;
using kernelgen::Node;
using kernelgen::size_of;
using kernelgen::Space;

namespace {

// Each memory has a number, and its elements lie around the middle of an address range of its own.
constexpr int kMemoryBits = 44;
constexpr int64_t kMiddle = int64_t{1} << (kMemoryBits - 1);

}  // namespace

int64_t encode(const Address& a) {
  const int64_t memory = a.space == Space::kScratch ? 0 : int64_t{a.ref} + 1;
  return ((memory + 1) << kMemoryBits) + kMiddle + a.bytes;
}

Address decode(int64_t number) {
  const int64_t memory = (number >> kMemoryBits) - 1,
                bytes = (number & ((int64_t{1} << kMemoryBits) - 1)) - kMiddle;
  if (memory == 0) return {Space::kScratch, 0, bytes};
  return {Space::kBuffer, static_cast<uint32_t>(memory - 1), bytes};
}

void TreeRun::address_of(const Node& n) {
  // Arguments that share memory have the same address.
  const uint32_t buffer = n.space == Space::kBuffer ? buffer_of_[n.ref] : 0;
  const auto first = std::ranges::find(buffer_of_, buffer);
  const uint32_t ref =
      n.space == Space::kBuffer ? static_cast<uint32_t>(first - buffer_of_.begin()) : 0;
  each_item([&](uint32_t k) {
    set_number(n.dst, k,
               encode({n.space, ref, number(n.args[0], k, "an address") * size_of(n.type)}));
  });
}

Lane TreeRun::read_address(int64_t number, int64_t more, DType type, uint32_t item) {
  const Address a = decode(number);
  if (a.space == Space::kBuffer && a.ref >= buffer_of_.size())
    return fact("follows a number that is not an address"), zero();
  const int64_t size = size_of(type);
  if (a.bytes % size != 0) return fact("follows an address between two elements"), zero();
  return read(a.space, a.ref, type, a.bytes / size + more, item);
}

// Sums are kept in double precision, integers in 64 bits.
Lane TreeRun::product_sum(Lane sum, Lane a, Lane b, DType type) const {
  if (is_float(type))
    sum.value.f += a.value.f * b.value.f;
  else
    sum.value.i =
        static_cast<int64_t>(static_cast<uint64_t>(sum.value.i) +
                             static_cast<uint64_t>(a.value.i) * static_cast<uint64_t>(b.value.i));
  sum.known = sum.known && a.known && b.known;
  return sum;
}

Lane TreeRun::rounded(Lane x, DType type) const {
  if (is_float(type))
    x.value.f = op::scalar_round(type, x.value.f);
  else
    x.value.i = op::scalar_wrap(type, x.value.i);
  return x;
}

void TreeRun::transpose(const Node& n) {
  each_item([&](uint32_t k) {
    const int64_t from = number(n.args[0], k, "an address"),
                  stride = number(n.stride, k, "a stride");
    const int64_t to = number(n.args[1], k, "an address"), line = number(n.args[2], k, "a stride");
    for (int64_t l = 0; l < n.bits; ++l) {
      for (int64_t r = 0; r < n.bits; ++r)
        write(Space::kScratch, 0, n.type, to + l * line + r,
              read(n.space, n.ref, n.type, from + r * stride + l, k), k);
    }
  });
}

void TreeRun::interleave(const Node& n) {
  const int64_t count = static_cast<int64_t>(n.list.size());
  each_item([&](uint32_t k) {
    const int64_t to = number(n.args[0], k, "an address");
    for (int64_t i = 0; i < count; ++i) {
      const ValueId from = n.list[static_cast<size_t>(i)];
      for (uint32_t l = 0; l < lanes(from); ++l)
        write(n.space, n.ref, n.type, to + int64_t{l} * count + i, lane(from, k, l), k);
    }
  });
}

// The integer of few bits of a step and column.
Lane TreeRun::quantum(const Node& n, int64_t step, int64_t column, uint32_t item) {
  const DType byte = tree_.buffers[static_cast<uint32_t>(n.b_buffer)].type;
  const int64_t word = n.few_bits == 4 ? 8 : 4, pair = n.few_bits == 4 ? 2 : 1;
  const int64_t line = n.quads ? step / word : step / pair,
                place = n.quads ? 4 * column + step % 4 : column,
                half = n.quads ? step / 4 % 2 : step % 2;
  Lane q = read(
      Space::kBuffer, static_cast<uint32_t>(n.b_buffer), byte,
      number(n.args[0], item, "an address") + line * number(n.stride, item, "a stride") + place,
      item);
  if (n.few_bits == 4) q.value.i = q.value.i >> (4 * half) & 15;
  return q;
}

std::pair<Lane, Lane> TreeRun::zero_and_scale(const Node& n, int64_t step, int64_t column,
                                              uint32_t item) {
  const int64_t stride = number(n.stride, item, "a stride") / (n.quads ? 4 : 1),
                block = step / number(n.args[3], item, "steps of a block");
  const auto of_block = [&](int32_t buffer, ValueId at) {
    return read(Space::kBuffer, static_cast<uint32_t>(buffer), TENON_F32,
                number(at, item, "an address") + block * stride + column, item);
  };
  Lane zero{Reg{.f = 0}, true};
  if (n.zero_buffer == -1) zero = lane(n.list_b[1], item);
  if (n.zero_buffer >= 0) zero = of_block(n.zero_buffer, n.list_b[1]);
  return {zero, of_block(n.scale_buffer, n.list_b[0])};
}

// That integer, with its zero and scale.
Lane TreeRun::weight(const Node& n, int64_t step, int64_t column, uint32_t item) {
  const Lane q = quantum(n, step, column, item);
  const auto [zero, scale] = zero_and_scale(n, step, column, item);
  Lane out{Reg{.f = (static_cast<double>(q.value.i) - zero.value.f) * scale.value.f},
           q.known && zero.known && scale.known};
  return rounded(out, TENON_F32);
}

namespace {

// Facts about each block of digits.
constexpr int64_t kFacts = 8;

// The scale of a block's digits; -1 where they would lose too much.
double scale_of(const std::vector<double>& block) {
  double most = 0;
  for (double x : block) {
    if (!std::isfinite(x)) return -1;
    most = std::max(most, std::fabs(x));
  }
  if (most == 0) return 0;
  int exponent = 0;
  std::frexp(most, &exponent);
  if (exponent < -96) return -1;
  const double scale = std::ldexp(1.0, exponent - 30);
  for (double x : block) {
    const double kept = std::nearbyint(x / scale) * scale;
    if (std::fabs(x - kept) > std::ldexp(std::fabs(x), -18)) return -1;
  }
  return scale;
}

}  // namespace

void TreeRun::digits(const Node& n) {
  each_item([&](uint32_t k) {
    const int64_t count = number(n.args[2], k, "a count");
    if (count % n.bits != 0) fact("makes digits of a part of a block");
    for (int64_t b = 0; b < count / n.bits && !report_.full(); ++b) digits_of_block(n, k, b);
  });
}

void TreeRun::digits_of_block(const Node& n, uint32_t k, int64_t b) {
  const int64_t from = number(n.args[0], k, "an address") + b * n.bits,
                to = number(n.args[1], k, "an address") + b * n.bits,
                facts = number(n.args[3], k, "an address") + b * kFacts;
  std::vector<double> block;
  bool known = true;
  for (int64_t i = 0; i < n.bits; ++i) {
    const Lane x = read(n.space, n.ref, TENON_F32, from + i, k);
    known = known && x.known;
    block.push_back(x.known ? x.value.f : 0);
  }
  const double scale = scale_of(block);
  std::vector<uint32_t> words(block.size());
  double sums[4] = {};
  for (size_t i = 0; i < block.size() && scale > 0; ++i) {
    int64_t rest = static_cast<int64_t>(std::nearbyint(block[i] / scale));
    for (size_t j = 0; j < 4; ++j) {
      const int64_t digit = ((rest + 128) & 255) - 128;
      rest = (rest - digit) / 256;
      sums[j] += static_cast<double>(digit);
      words[i / 4 * 4 + j] |= static_cast<uint32_t>(digit & 255) << (8 * (i % 4));
    }
  }
  for (size_t i = 0; i < words.size(); ++i)
    write(Space::kScratch, 0, TENON_I32, to + static_cast<int64_t>(i),
          {Reg{.i = static_cast<int32_t>(words[i])}, known}, k);
  write(Space::kScratch, 0, TENON_F32, facts, {Reg{.f = scale}, known}, k);
  for (int64_t j = 0; j < 4; ++j)
    write(Space::kScratch, 0, TENON_F32, facts + 1 + j, {Reg{.f = sums[j]}, known}, k);
}

// The sum over one block of digits.
Lane TreeRun::block_of_digits(const Node& n, size_t row, int64_t column, int64_t block, Lane scale,
                              uint32_t k) {
  const int64_t words = number(n.list_d[2 * row], k, "an address"),
                facts = number(n.list_d[2 * row + 1], k, "an address") + block * kFacts,
                first = block * n.digits;
  const auto [zero, of_weights] = zero_and_scale(n, first, column, k);
  Lane out{Reg{.f = 0}, scale.known && zero.known && of_weights.known};
  for (int64_t j = 0; j < 4; ++j) {
    const Lane all = read(Space::kScratch, 0, TENON_F32, facts + 1 + j, k);
    double sum = -zero.value.f * all.value.f;
    out.known = out.known && all.known;
    for (int64_t i = first; i < first + n.digits; ++i) {
      const Lane q = quantum(n, i, column, k),
                 word = read(Space::kScratch, 0, TENON_I32, words + i / 4 * 4 + j, k);
      sum += static_cast<double>(q.value.i) *
             static_cast<double>(static_cast<int8_t>(word.value.i >> (8 * (i % 4))));
      out.known = out.known && q.known && word.known;
    }
    out.value.f += std::ldexp(sum, static_cast<int>(8 * j));
  }
  out.value.f *= scale.value.f * of_weights.value.f;
  return out;
}

// The sum over the blocks that have digits, as these give it.
Lane TreeRun::sum_of_digits(const Node& n, size_t row, int64_t column, uint32_t k) {
  const int64_t steps = number(n.args[2], k, "the length of a sum"),
                a = number(n.list[row], k, "an address"), a_step = number(n.args[1], k, "a stride"),
                facts = number(n.list_d[2 * row + 1], k, "an address");
  Lane sum{Reg{.f = 0}, true};
  for (int64_t b = 0; b < steps / n.digits && !report_.full(); ++b) {
    const Lane scale = read(Space::kScratch, 0, TENON_F32, facts + b * kFacts, k);
    if (scale.known && scale.value.f < 0) {
      for (int64_t i = b * n.digits; i < (b + 1) * n.digits; ++i)
        sum = product_sum(sum, read(n.space, n.ref, TENON_F32, a + i * a_step, k),
                          weight(n, i, column, k), TENON_F32);
      continue;
    }
    const Lane block = block_of_digits(n, row, column, b, scale, k);
    sum.value.f += block.value.f;
    sum.known = sum.known && block.known;
  }
  return sum;
}

void TreeRun::mma(const Node& n) {
  // A step is several products of narrower operands.
  const DType a_type = kernelgen::operand_type(n.type, n.steps, false),
              b_type = n.read != TENON_DTYPE_NONE ? n.read
                                                  : kernelgen::operand_type(n.type, n.steps, true);
  const int64_t each = n.steps, columns = n.bits * n.lanes;
  const Space b_space = n.b_buffer < 0 ? Space::kScratch : Space::kBuffer;
  const uint32_t b_ref = n.b_buffer < 0 ? 0 : static_cast<uint32_t>(n.b_buffer);
  each_item([&](uint32_t k) {
    const int64_t steps = number(n.args[2], k, "the length of a sum"),
                  a_step = number(n.args[1], k, "a stride");
    const int64_t b = number(n.args[0], k, "an address"), b_step = number(n.stride, k, "a stride");
    for (size_t r = 0; r < n.list.size(); ++r) {
      const int64_t a = number(n.list[r], k, "an address");
      for (int64_t c = 0; c < columns; ++c) {
        Lane sum = zero();
        if (is_float(n.type)) sum.value.f = 0;
        if (n.digits != 0) sum = sum_of_digits(n, r, c, k);
        // Also where the sum by digits is not finite.
        const bool plain = n.digits == 0 || (sum.known && !std::isfinite(sum.value.f));
        if (plain && n.digits != 0) sum.value.f = 0;
        for (int64_t s = 0; plain && s < steps && !report_.full(); ++s) {
          for (int64_t p = 0; p < each; ++p) {
            const Lane x = read(n.space, n.ref, a_type, a + s * a_step + p, k),
                       y = n.few_bits != 0
                               ? weight(n, s, c, k)
                               : read(b_space, b_ref, b_type, b + s * b_step + c * each + p, k);
            sum = product_sum(sum, x, y, n.type);
          }
        }
        write(Space::kLocal, n.op, n.type, static_cast<int64_t>(r) * columns + c,
              rounded(sum, n.type), k);
      }
    }
  });
}

// Places without a key hold nothing that may be used.
void TreeRun::dots(const Node& n) {
  each_item([&](uint32_t k) {
    const int64_t keys = number(n.args[1], k, "the number of keys"),
                  features = number(n.args[2], k, "the length of a sum");
    const int64_t first = number(n.args[0], k, "an address"),
                  apart = number(n.stride, k, "a stride");
    if (keys < 1 || keys > n.bits) return fact("has " + std::to_string(keys) + " keys");
    if (features < n.lanes) return fact("has sums of " + std::to_string(features));
    for (size_t r = 0; r < n.list.size(); ++r) {
      const int64_t row = number(n.list[r], k, "an address");
      for (int64_t c = 0; c < n.bits && !report_.full(); ++c) {
        Lane sum{Reg{.f = 0}, true};
        for (int64_t d = 0; c < keys && d < features; ++d) {
          const Lane a = read(n.space, n.ref, n.type, row + d, k),
                     b = read(Space::kBuffer, static_cast<uint32_t>(n.b_buffer), n.type,
                              first + c * apart + d, k);
          sum = product_sum(sum, a, b, n.type);
        }
        write(Space::kLocal, n.op, n.type, static_cast<int64_t>(r) * n.bits + c,
              c < keys ? rounded(sum, n.type) : Lane{}, k);
      }
    }
  });
}

void TreeRun::taps(const Node& n) {
  const DType a_type = kernelgen::operand_type(n.type, n.steps, false),
              b_type = kernelgen::operand_type(n.type, n.steps, true);
  const int64_t columns = n.bits * n.lanes, each = n.steps;
  each_item([&](uint32_t k) {
    const int64_t table = number(n.args[0], k, "an address"),
                  offsets = number(n.args[1], k, "an address");
    const int64_t count = number(n.args[2], k, "the number of taps"),
                  weights = number(n.args[3], k, "an address");
    const int64_t steps = number(n.list[0], k, "the length of a sum"),
                  apart = number(n.stride, k, "a stride");
    for (int64_t r = 0; r < n.ref; ++r) {
      Lane none = zero();
      if (is_float(n.type)) none.value.f = 0;
      std::vector<Lane> sums(static_cast<size_t>(columns), none);
      for (int64_t t = 0; t < count && !report_.full(); ++t) {
        const Lane row = read(Space::kScratch, 0, TENON_I64, table + t * n.ref + r, k),
                   offset = read(Space::kScratch, 0, TENON_I64, offsets + t, k);
        if (!row.known || !offset.known) return fact("an address is not known");
        for (int64_t i = 0; i < steps * each; ++i) {
          const Lane a = read_address(row.value.i, i, a_type, k);
          for (int64_t c = 0; c < columns; ++c) {
            const Lane w =
                read(Space::kBuffer, static_cast<uint32_t>(n.b_buffer), b_type,
                     weights + offset.value.i + i / each * apart + c * each + i % each, k);
            sums[static_cast<size_t>(c)] = product_sum(sums[static_cast<size_t>(c)], a, w, n.type);
          }
        }
      }
      for (int64_t c = 0; c < columns; ++c)
        write(Space::kLocal, n.op, n.type, r * columns + c,
              rounded(sums[static_cast<size_t>(c)], n.type), k);
    }
  });
}

// Element-wise along the columns. In runs, a tap is a line of positions that the rows share.
void TreeRun::channels(const Node& n) {
  const int64_t columns = n.bits * n.lanes, runs = std::max<int64_t>(1, n.run);
  const int64_t places = n.run != 0 ? (int64_t{n.ref} - 1) * n.run_step + n.run : n.ref;
  each_item([&](uint32_t k) {
    const int64_t table = number(n.args[0], k, "an address"),
                  offsets = number(n.args[1], k, "an address");
    const int64_t count = number(n.args[2], k, "the number of taps"),
                  weights = number(n.args[3], k, "an address");
    const int64_t width = number(n.list[0], k, "the number of columns"),
                  first = number(n.stride, k, "a column");
    const int64_t apart = n.run != 0 ? number(n.list[1], k, "a stride") : 0;
    for (int64_t r = 0; r < n.ref; ++r) {
      // Whole vectors are stored; lanes beyond the last column are zero times their weight.
      for (int64_t c = 0; c < std::min<int64_t>(columns, (width + n.lanes - 1) / n.lanes * n.lanes);
           ++c) {
        Lane sum{Reg{.f = 0}, true};
        for (int64_t t = 0; t < count && !report_.full(); ++t) {
          const Lane offset = read(Space::kScratch, 0, TENON_I64, offsets + t, k);
          if (!offset.known) return fact("an address is not known");
          for (int64_t i = 0; i < runs; ++i) {
            const int64_t place = n.run != 0 ? r * n.run_step + i : r;
            const Lane row = read(Space::kScratch, 0, TENON_I64, table + t * places + place, k);
            if (!row.known) return fact("an address is not known");
            const Lane w = read(Space::kBuffer, static_cast<uint32_t>(n.b_buffer), n.type,
                                weights + offset.value.i + i * apart + c, k);
            const Lane x = c < width ? read_address(row.value.i, first + c, n.read, k)
                                     : Lane{Reg{.f = 0}, true};
            sum = product_sum(sum, w, x, n.type);
          }
        }
        write(Space::kLocal, n.op, n.type, r * columns + c, rounded(sum, n.type), k);
      }
    }
  });
}

void TreeRun::sort(const Node& n) {
  each_item([&](uint32_t k) {
    const int64_t keys = number(n.args[0], k, "an address"),
                  places = number(n.args[1], k, "an address"),
                  count = number(n.stride, k, "a count");
    std::vector<std::pair<Lane, Lane>> list;
    for (int64_t i = 0; i < count; ++i) {
      list.push_back({read(Space::kScratch, 0, n.type, keys + i, k),
                      read(Space::kScratch, 0, TENON_I64, places + i, k)});
      if (!list.back().first.known) return fact("sorts a key that is not known");
    }
    std::vector<size_t> order(list.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      const auto x = static_cast<uint64_t>(list[a].first.value.i),
                 y = static_cast<uint64_t>(list[b].first.value.i);
      return x != y ? x < y : a < b;
    });
    for (int64_t i = 0; i < count; ++i) {
      write(Space::kScratch, 0, n.type, keys + i, list[order[static_cast<size_t>(i)]].first, k);
      write(Space::kScratch, 0, TENON_I64, places + i, list[order[static_cast<size_t>(i)]].second,
            k);
      // The work space of merging; afterwards its contents are unknown.
      write(Space::kScratch, 0, n.type, number(n.args[2], k, "an address") + i, Lane{}, k);
      write(Space::kScratch, 0, TENON_I64, number(n.args[3], k, "an address") + i, Lane{}, k);
    }
  });
}

void TreeRun::any_nan(const Node& n) {
  each_item([&](uint32_t k) {
    const int64_t width = (number(n.args[0], k, "a count") + n.lanes - 1) / n.lanes * n.lanes;
    Lane found{Reg{.i = 0}, true};
    for (int64_t r = 0; r < n.ref; ++r) {
      for (int64_t c = 0; c < width; ++c) {
        const Lane x = read(Space::kLocal, n.op, n.type, r * n.bits + c, k);
        found.known = found.known && x.known;
        if (std::isnan(x.value.f)) found.value.i = 1;
      }
    }
    set(n.dst, k, 0, found);
  });
}

}  // namespace tenon::interpreter
