#include "opencl_thread.h"

#include <llvm/ADT/MapVector.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/ReplaceConstant.h>

#include "opencl_watch.h"

namespace tenon::cpu::compiler {
namespace {

// Returns the address through the intrinsic. The optimizer would propagate the variable itself to
// the callers as a constant.
llvm::Function* address_function(llvm::GlobalVariable& variable) {
  llvm::Module& module = *variable.getParent();
  llvm::LLVMContext& context = module.getContext();
  auto* type = llvm::FunctionType::get(variable.getType(), false);
  auto* function = llvm::Function::Create(type, llvm::GlobalValue::InternalLinkage,
                                          "__tenon_address_of_" + variable.getName(), module);
  for (auto attribute : {llvm::Attribute::NoInline, llvm::Attribute::NoUnwind,
                         llvm::Attribute::WillReturn, llvm::Attribute::Speculatable}) {
    function->addFnAttr(attribute);
  }
  function->setDoesNotAccessMemory();
  llvm::IRBuilder<> builder(llvm::BasicBlock::Create(context, "", function));
  builder.CreateRet(builder.CreateThreadLocalAddress(&variable));
  return function;
}

void take_by_call(llvm::GlobalVariable& variable) {
  llvm::convertUsersOfConstantsToInstructions({&variable});
  llvm::MapVector<llvm::Function*, std::vector<llvm::Use*>> uses;
  for (llvm::Use& use : variable.uses()) {
    if (auto* user = llvm::dyn_cast<llvm::Instruction>(use.getUser()))
      uses[user->getFunction()].push_back(&use);
  }
  llvm::Function* const address = address_function(variable);
  for (auto& [function, in_function] : uses) {
    llvm::IRBuilder<> builder(&*function->getEntryBlock().getFirstInsertionPt());
    llvm::CallInst* const call = builder.CreateCall(address);
    for (llvm::Use* use : in_function) {
      auto* intrinsic = llvm::dyn_cast<llvm::IntrinsicInst>(use->getUser());
      if (intrinsic == nullptr ||
          intrinsic->getIntrinsicID() != llvm::Intrinsic::threadlocal_address) {
        use->set(call);
        continue;
      }
      intrinsic->replaceAllUsesWith(call);
      intrinsic->eraseFromParent();
    }
  }
}

}  // namespace

llvm::PreservedAnalyses VariablesPerThread::run(llvm::Module& module,
                                                llvm::ModuleAnalysisManager&) {
  for (llvm::GlobalVariable& variable : module.globals()) {
    if (variable.getSection() == kLocalSection) {  // as OpenCL C's: nothing has been written
      variable.setSection("");
      variable.setInitializer(llvm::UndefValue::get(variable.getValueType()));
    }
    if (variable.getName() == kItemState || is_local_variable(variable))
      variable.setThreadLocalMode(llvm::GlobalValue::GeneralDynamicTLSModel);
  }
  return llvm::PreservedAnalyses::none();
}

llvm::PreservedAnalyses ThreadAddressesByCall::run(llvm::Module& module,
                                                   llvm::ModuleAnalysisManager&) {
  for (llvm::GlobalVariable& variable : module.globals()) {
    if (variable.isThreadLocal() && !variable.use_empty()) take_by_call(variable);
  }
  return llvm::PreservedAnalyses::none();
}

}  // namespace tenon::cpu::compiler
