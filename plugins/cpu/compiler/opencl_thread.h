// What a unit of OpenCL C has once per thread, which the language has no word for: the work-item
// state, and variables in local memory, since the items of a group run on one thread.
#ifndef TENON_PLUGINS_CPU_COMPILER_OPENCL_THREAD_H_
#define TENON_PLUGINS_CPU_COMPILER_OPENCL_THREAD_H_

#include <llvm/IR/PassManager.h>

namespace tenon::cpu::compiler {

inline constexpr const char* kItemState = "__tenon_item";

// Makes those variables thread-local.
struct VariablesPerThread : llvm::PassInfoMixin<VariablesPerThread> {
  llvm::PreservedAnalyses run(llvm::Module& module, llvm::ModuleAnalysisManager&);
  static bool isRequired() { return true; }
};

// Lets functions of their own answer where thread-local variables are, as calls like any other.
// Where code generation puts the call itself, __tls_get_addr, it takes xmm16 to xmm31 for preserved
// (clang 19); but the first call on a thread allocates, and what the process has for malloc and
// memset uses them. After WatchAccesses, which wants to see the variables.
struct ThreadAddressesByCall : llvm::PassInfoMixin<ThreadAddressesByCall> {
  llvm::PreservedAnalyses run(llvm::Module& module, llvm::ModuleAnalysisManager&);
  static bool isRequired() { return true; }
};

}  // namespace tenon::cpu::compiler
#endif
