#include "core/conform/compile_graphs.h"

#include <fmt/core.h>

#include "core/conform/open_device.h"

namespace tenon::conform {
namespace {

// A literal of so many different numbers.
std::string numbers(size_t count, uint32_t seed) {
  const Bytes bytes = pattern_bytes(2 * count, seed);
  std::string out;
  for (size_t i = 0; i < count; ++i) {
    const int value = bytes[2 * i] * 256 + bytes[2 * i + 1] - 32768;
    out += fmt::format("{}{}", i == 0 ? "" : ", ", value / 1024.0);
  }
  return out;
}

}  // namespace

std::string pair_graph() {
  return "tenon.tir 1\ngraph @pair(%x: f32[5, 7], %y: f32[5, 7]) -> (a: f32[5, 7]) {\n"
         "  %0 = add(%x, %y) : f32[5, 7]\n  yield %0\n}\n";
}

std::string chain_graph() {
  return "tenon.tir 1\ngraph @chain(%x: f32[33, 9], %y: f32[33, 9], %z: f32[33, 9]) -> "
         "(a: f32[33, 9], b: f32[33, 9], c: f32[33, 9]) {\n"
         "  %0 = add(%x, %y) : f32[33, 9]\n"
         "  %1 = mul(%0, %z) : f32[33, 9]\n"
         "  %2 = max(%1, %x) : f32[33, 9]\n"
         "  %3 = add(%2, %0) : f32[33, 9]\n"
         "  %4 = mul(%3, %3) : f32[33, 9]\n"
         "  yield %0, %2, %4\n}\n";
}

std::string large_graph() {
  return "tenon.tir 1\ngraph @large(%x: f32[512, 512], %y: f32[512, 512]) -> (a: f32[512, 512]) {\n"
         "  %0 = add(%x, %y) : f32[512, 512]\n"
         "  %1 = mul(%0, %y) : f32[512, 512]\n"
         "  %2 = max(%1, %x) : f32[512, 512]\n"
         "  yield %2\n}\n";
}

std::string long_graph(size_t nodes) {
  std::string text = "tenon.tir 1\ngraph @long(%x: f32[64], %y: f32[64]) -> (a: f32[64]) {\n";
  for (size_t i = 0; i < nodes; ++i) {
    text += fmt::format("  %{} = {}(%{}, %{}) : f32[64]\n", i, i % 2 == 0 ? "add" : "max",
                        i == 0 ? "x" : std::to_string(i - 1), i % 3 == 0 ? "y" : "x");
  }
  return text + fmt::format("  yield %{}\n}}\n", nodes - 1);
}

std::string constant_graph(size_t elements) {
  return fmt::format(
      "tenon.tir 1\ngraph @constants(%x: f32[{0}]) -> (a: f32[{0}]) {{\n"
      "  %b = const f32[{0}] [{1}]\n  %c = const f32[{0}] [{2}]\n"
      "  %0 = mul(%x, %b) : f32[{0}]\n  %1 = add(%0, %c) : f32[{0}]\n  yield %1\n}}\n",
      elements, numbers(elements, 1), numbers(elements, 2));
}

std::string symbolic_graph() {
  return "tenon.tir 1\n"
         "graph @symbolic<n, m>(%x: f32[n, m], %y: f32[n, m], %u: f32[m], %v: f32[m, 3, n]) -> "
         "(a: f32[n, m], b: f32[m], c: f32[m, 3, n]) {\n"
         "  %0 = add(%x, %y) : f32[n, m]\n"
         "  %1 = mul(%0, %x) : f32[n, m]\n"
         "  %2 = add(%u, %u) : f32[m]\n"
         "  %3 = mul(%v, %v) : f32[m, 3, n]\n"
         "  yield %1, %2, %3\n}\n";
}

std::string sum_graph() {
  return "tenon.tir 1\ngraph @sums(%x: f32[37, 1999], %w: f32[1999, 21]) -> "
         "(a: f32[37], b: f32[37, 21]) {\n"
         "  %0 = reduce_sum(%x) {dims = [1]} : f32[37]\n"
         "  %1 = dot_general(%x, %w) {a_contract = [1], b_contract = [0]} : f32[37, 21]\n"
         "  yield %0, %1\n}\n";
}

std::string product_graph() {
  return "tenon.tir 1\ngraph @product(%x: f32[24, 24], %y: f32[24, 24]) -> (a: f32[24, 24]) {\n"
         "  %0 = dot_general(%x, %y) {a_contract = [1], b_contract = [0]} : f32[24, 24]\n"
         "  yield %0\n}\n";
}

std::string inner_graph() {
  return "tenon.tir 1\ngraph @inner(%x: f32[6], %y: f32[6], %p: pred[]) -> (a: f32[6]) {\n"
         "  %0 = add(%x, %y) : f32[6]\n"
         "  %1 = switch(%p) : f32[6] regions { {\n"
         "    %2 = add(%0, %y) : f32[6]\n    yield %2\n"
         "  } {\n"
         "    %3 = mul(%0, %y) : f32[6]\n    yield %3\n"
         "  } }\n"
         "  %4 = max(%1, %x) : f32[6]\n  yield %4\n}\n";
}

std::string equal_sizes_graph() {
  return "tenon.tir 1\ngraph @equal_sizes(%n: i32[6, 40], %x: f32[6, 40]) -> (a: f32[6, 40], "
         "b: i32[6, 40], c: f32[6, 40]) {\n"
         "  %0 = convert(%n) {dtype = f32} : f32[6, 40]\n"
         "  %1 = convert(%x) {dtype = i32} : i32[6, 40]\n"
         "  %2 = add(%x, %0) : f32[6, 40]\n"
         "  yield %0, %1, %2\n}\n";
}

std::string widths_graph() {
  return "tenon.tir 1\n"
         "graph @widths(%p: pred[5, 9], %x: f64[5, 9], %y: f64[5, 9], %n: i64[5, 9], %m: i64[5, 9], "
         "%s: i8[5, 9], %f: f32[5, 9]) -> (a: f64[5, 9], b: i64[5, 9], c: pred[5, 9], d: f32[5, 9], "
         "e: i64[5, 9], f: i8[5, 9]) {\n"
         "  %0 = select(%p, %x, %y) : f64[5, 9]\n"
         "  %1 = select(%p, %n, %m) : i64[5, 9]\n"
         "  %2 = convert(%s) {dtype = f64} : f64[5, 9]\n"
         "  %3 = add(%0, %2) : f64[5, 9]\n"
         "  %4 = convert(%3) {dtype = f32} : f32[5, 9]\n"
         "  %5 = convert(%s) {dtype = i64} : i64[5, 9]\n"
         "  %6 = compare(%3, %y) {direction = 1} : pred[5, 9]\n"
         "  %7 = select(%6, %4, %f) : f32[5, 9]\n"
         "  %8 = add(%1, %5) : i64[5, 9]\n"
         "  %9 = select(%6, %s, %s) : i8[5, 9]\n"
         "  yield %3, %8, %6, %7, %1, %9\n}\n";
}

std::string mixed_graph() {
  return "tenon.tir 1\n"
         "graph @mixed(%x: f32[6, 40], %y: f32[6, 40], %n: i32[6, 40], %w: f32[40, 24]) -> "
         "(a: f32[6, 24], b: f32[6, 40], c: f32[6], d: i32[6, 40]) {\n"
         "  %0 = add(%x, %y) : f32[6, 40]\n"
         "  %1 = exp(%0) : f32[6, 40]\n"
         "  %2 = mul(%1, %y) : f32[6, 40]\n"
         "  %3 = sub(%2, %0) : f32[6, 40]\n"
         "  %4 = convert(%n) {dtype = f32} : f32[6, 40]\n"
         "  %5 = max(%3, %4) : f32[6, 40]\n"
         "  %6 = reduce_sum(%5) {dims = [1]} : f32[6]\n"
         "  %7 = dot_general(%5, %w) {a_contract = [1], b_contract = [0]} : f32[6, 24]\n"
         "  %8 = add(%n, %n) : i32[6, 40]\n"
         "  %9 = softmax(%7) {dim = 1} : f32[6, 24]\n"
         "  yield %9, %5, %6, %8\n}\n";
}

}  // namespace tenon::conform
