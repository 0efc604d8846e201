// Checks a whole program of stages, step by step. Internal to the stage check.
#pragma once
#include <string>

#include <tenon/kernelgen/lower/lower_graph.h>

#include "tests/interpreter/stage_interpreter.h"
#include "tests/random/runner.h"

namespace tenon::random_tests {

class ProgramCheck {
 public:
  // `subject`: the expected results; the program was lowered from a graph with the same interface.
  // `lowered` is not kept.
  ProgramCheck(const Generated& subject, const kernelgen::HostTables& host, tenon_graph_t* graph,
               const kernelgen::Lowered& lowered);

  // Empty if the program gives the expected results, else what is wrong, with the step's name. The
  // program that was checked last is not run again.
  std::string step(const char* name, const kernelgen::Kernel& program);

  // Sizes of the program's extents in one binding.
  const std::vector<int64_t>& extents(size_t binding) const { return extents_[binding]; }
  // Fills the inputs and constants of a program whose buffers have the numbers of the lowered one.
  void fill(size_t binding, std::vector<interpreter::Memory>* memory) const;
  // Empty if the outputs in this memory are right.
  std::string outputs(size_t binding, const std::vector<interpreter::Memory>& memory) const;

 private:
  std::string run(size_t binding, const kernelgen::Kernel& program) const;
  std::string checks(size_t binding, const std::vector<interpreter::Memory>& memory) const;

  // A check of the program in one binding: the value in `buffer` is below the limit, unless the
  // buffer is empty.
  struct Check {
    uint32_t buffer = 0;
    int64_t limit = 0, count = 0;
    std::string text;
  };

  const Generated& subject_;
  const kernelgen::HostTables& host_;
  tenon_graph_t* graph_;
  std::vector<uint32_t> inputs_, constants_, outputs_;  // as Lowered has them
  std::vector<tenon_value_t> constant_values_;
  std::vector<std::vector<Check>> checks_;  // by binding
  std::vector<std::vector<int64_t>> extents_;
  std::vector<kernelgen::Stage> last_;
  std::vector<kernelgen::Buffer> last_buffers_;
};

}  // namespace tenon::random_tests
