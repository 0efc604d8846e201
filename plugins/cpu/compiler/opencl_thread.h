// Makes state of an OpenCL C unit thread-local, which the language cannot express: the work-item
// state, and variables in local memory, because the items of a group run on one thread.
#ifndef TENON_PLUGINS_CPU_COMPILER_OPENCL_THREAD_H_
#define TENON_PLUGINS_CPU_COMPILER_OPENCL_THREAD_H_

#include <llvm/IR/PassManager.h>

namespace tenon::cpu::compiler {

inline constexpr const char* kItemState = "__tenon_item";
// Where C++ for work items has its variables in local memory.
inline constexpr const char* kLocalSection = "tenon.local";

// Makes those variables thread-local.
struct VariablesPerThread : llvm::PassInfoMixin<VariablesPerThread> {
  llvm::PreservedAnalyses run(llvm::Module& module, llvm::ModuleAnalysisManager&);
  static bool isRequired() { return true; }
};

// Moves each access to the address of a thread-local variable into a function of its own, called
// like any other. When code generation places the call of __tls_get_addr itself, it assumes that
// xmm16 to xmm31 are preserved (clang 19). But the first call on a thread allocates, and the
// process's malloc and memset may use these registers. Runs after WatchAccesses, which needs to see
// the variables.
struct ThreadAddressesByCall : llvm::PassInfoMixin<ThreadAddressesByCall> {
  llvm::PreservedAnalyses run(llvm::Module& module, llvm::ModuleAnalysisManager&);
  static bool isRequired() { return true; }
};

}  // namespace tenon::cpu::compiler
#endif
