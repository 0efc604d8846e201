// Small programs and kernels for the interpreters' own tests.
#pragma once
#include <gtest/gtest.h>

#include <tenon/kernelgen/fuse/fuse.h>
#include <tenon/kernelgen/lower/builder.h>

#include "tests/interpreter/stage_interpreter.h"

namespace tenon::interpreter {

namespace kg = kernelgen;

inline std::vector<kg::ExprId> dims_of(kg::Builder& b, std::initializer_list<int64_t> sizes) {
  std::vector<kg::ExprId> out;
  for (int64_t n : sizes) out.push_back(b.dim(n));
  return out;
}

// A program or kernel with its memory: inputs hold 1, 2, 3...
class Subject {
 public:
  explicit Subject(kg::Kernel k, std::vector<int64_t> sizes = {})
      : kernel(std::move(k)), extents(std::move(sizes)) {
    fill();
  }

  void fill() {
    memory = memory_of_program(kernel, extents);
    for (uint32_t b = 0; b < memory.size(); ++b) {
      if (kernel.buffers[b].role != kg::Role::kIn && kernel.buffers[b].role != kg::Role::kConstant)
        continue;
      double next = 1;
      for (Cell& c : memory[b].cells) {
        if (kg::is_float(memory[b].type))
          c.value.f = next++;
        else
          c.value.i = static_cast<int64_t>(next++);
        c.name = name_of_buffer(b);
      }
    }
  }
  void put(uint32_t buffer, size_t element, Reg value) {
    memory[buffer].cells[element].value = value;
  }
  Reg at(uint32_t buffer, size_t element) const { return memory[buffer].cells[element].value; }
  bool stored(uint32_t buffer, size_t element) const {
    return memory[buffer].cells[element].name != kNotStored;
  }
  std::vector<double> numbers(uint32_t buffer) const {
    std::vector<double> out;
    for (const Cell& c : memory[buffer].cells)
      out.push_back(kg::is_float(memory[buffer].type) ? c.value.f : static_cast<double>(c.value.i));
    return out;
  }

  // Runs it and returns the reports.
  std::string run(const RunOptions& options = {}) {
    Report report;
    run_stages(kernel, extents, places_of_program(kernel, &memory), options, &report);
    return report.text();
  }
  std::string run_as_prepared(const RunOptions& options = {}) {
    Report report;
    run_prepared(kg::prepare(kernel), extents, places_of_program(kernel, &memory), options,
                 &report);
    return report.text();
  }

  kg::Kernel kernel;
  std::vector<int64_t> extents;
  std::vector<Memory> memory;
};

// The only kernel of a program.
inline kg::Kernel only_kernel(kg::Builder& b, const kg::Target& target = kg::Target::scalar()) {
  EXPECT_TRUE(b.ok()) << b.why();
  std::vector<kg::Kernel> kernels = kg::partition(b.take_program(), target);
  EXPECT_EQ(kernels.size(), 1u);
  return std::move(kernels[0]);
}

inline uint32_t buffer_with(const kg::Kernel& k, kg::Role role, size_t number = 0) {
  for (uint32_t b = 0; b < k.buffers.size(); ++b) {
    if (k.buffers[b].role == role && number-- == 0) return b;
  }
  ADD_FAILURE() << "no such buffer";
  return 0;
}

// softmax over the last dim of [rows, columns]. Its exponentials lie in the output, or in a temp if
// the output has another type.
inline kg::Kernel softmax_kernel(int64_t rows, int64_t columns, DType result = TENON_F32) {
  kg::Builder b;
  const uint32_t last[] = {1}, first[] = {0};
  const auto apply = [&](uint16_t op, const kg::Tensor& x, const kg::Tensor& y) {
    return b.map(x.type, x.dims, [&](std::span<const kg::ExprId> i) {
      return b.pool().op(op, {b.load(x, i), b.load(y, i)});
    });
  };
  const kg::Tensor x = b.input(TENON_F32, dims_of(b, {rows, columns}));
  const kg::Tensor top = b.broadcast(b.reduce(x, last, kg::Fold::kMax), x.dims, first);
  const kg::Tensor shifted = apply(TENON_S_SUB, x, top);
  const kg::Tensor e = b.map(x.type, x.dims, [&](std::span<const kg::ExprId> i) {
    return b.pool().op(TENON_S_EXP, {b.load(shifted, i)});
  });
  const kg::Tensor quotients =
      apply(TENON_S_DIV, e, b.broadcast(b.reduce(e, last, kg::Fold::kSum), x.dims, first));
  b.output(result == TENON_F32 ? quotients : b.convert(quotients, result));
  return only_kernel(b);
}

}  // namespace tenon::interpreter
