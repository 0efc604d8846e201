// Makes a unit of OpenCL C report its memory accesses: a call before each one, through a pointer
// that the user of the module sets. See TENON_CLANG_OPENCL_C_WATCHED in compiler.h.
#ifndef TENON_PLUGINS_CPU_COMPILER_OPENCL_WATCH_H_
#define TENON_PLUGINS_CPU_COMPILER_OPENCL_WATCH_H_

#include <llvm/IR/GlobalVariable.h>
#include <llvm/IR/PassManager.h>

namespace tenon::cpu::compiler {

// Runs first, on the code as written: optimisations would remove accesses that are part of a race.
struct WatchAccesses : llvm::PassInfoMixin<WatchAccesses> {
  llvm::PreservedAnalyses run(llvm::Module& module, llvm::ModuleAnalysisManager&);
  static bool isRequired() { return true; }
};

// Whether a variable is in a kernel's local memory, rather than the program's memory.
bool is_local_variable(const llvm::GlobalVariable& variable);

}  // namespace tenon::cpu::compiler
#endif
