// Checks the kernels of a device's program, each in all forms on its way to text. Internal to the
// stage check.
#pragma once
#include <memory>
#include <string>

#include <tenon/kernelgen/device/device_program.h>
#include <tenon/kernelgen/ir/general.h>
#include <tenon/kernelgen/loops/loop_ir.h>
#include <tenon/kernelgen/schedule/prepare.h>

#include "tests/random/stages/program_check.h"
#include "tests/random/stages/stage_check.h"

namespace tenon::random_tests {

class KernelCheck {
 public:
  // overlaid: by buffer of the program, whether a stage replaces elements that others stored.
  // joined: whether several stages store to it.
  KernelCheck(kernelgen::BuiltProgram* built, const kernelgen::Target& target,
              std::vector<bool> overlaid, std::vector<bool> joined, uint64_t seed, bool trees,
              bool texts, StageStatistics* statistics);

  // Runs all steps on the memory of one binding and compares the forms of each kernel. Empty if all
  // agree.
  std::string run(const ProgramCheck& program, size_t binding);

 private:
  // One kernel and a form derived from it.
  struct Form {
    kernelgen::Kernel* kernel = nullptr;
    std::vector<kernelgen::SizeProgram>
        sizes;                     // of its extents, over those of the kernel; empty: the same
    std::vector<uint32_t> origin;  // of its buffers, among those of the kernel
    std::unique_ptr<kernelgen::Prepared> prepared;
    std::unique_ptr<kernelgen::LoopTree> tree;
  };
  struct Forms {
    std::vector<uint32_t> buffer_order, extent_order;
    std::unique_ptr<kernelgen::General> general;
    Form own, any_size;
  };
  struct Launch;

  std::string make_forms(uint32_t kernel);
  std::string complete(Form* form);
  std::string run_forms(const Launch& launch, const Form& form, bool general);
  std::string run_step(const kernelgen::ProgramStep& step, std::vector<interpreter::Memory>* memory,
                       std::span<const int64_t> symbols);
  std::string compare_forms(const Launch& launch, const Forms& forms);
  template <class F>
  std::string compare(const Launch& launch, const Form& form, const char* step, bool in_place,
                      bool flat, F run);
  std::vector<double> spread(const Launch& launch, uint32_t b);
  std::vector<std::pair<uint32_t, uint32_t>> shared_operands(const Launch& launch) const;

  kernelgen::BuiltProgram& built_;
  const kernelgen::Target& target_;
  std::vector<bool> overlaid_, joined_;
  uint64_t seed_;
  bool trees_, texts_;
  StageStatistics& statistics_;
  std::vector<std::unique_ptr<Forms>> forms_;  // by kernel
  uint32_t clock_ = 0;
  std::string text_;  // of the last form checked
};

}  // namespace tenon::random_tests
