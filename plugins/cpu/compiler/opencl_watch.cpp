#include "opencl_watch.h"

#include <llvm/Analysis/ValueTracking.h>
#include <llvm/Demangle/Demangle.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>

namespace tenon::cpu::compiler {
namespace {

// Values of tenon_opencl_access_t.
enum Kind : uint32_t { kRead = 0, kWrite = 1, kAtomic = 2 };

struct Access {
  llvm::Instruction* before;
  llvm::Value* address;
  llvm::Value* size;
  uint32_t kind;
};

// The work item's own variables, and those that this compiler adds.
bool is_private(const llvm::Value* address) {
  const llvm::Value* object = llvm::getUnderlyingObject(address);
  if (llvm::isa<llvm::AllocaInst>(object)) return true;
  const auto* global = llvm::dyn_cast<llvm::GlobalVariable>(object);
  return global != nullptr && global->getName().starts_with("__tenon");
}

class Watcher {
 public:
  explicit Watcher(llvm::Module& module) : module_(module), builder_(module.getContext()) {
    llvm::LLVMContext& context = module.getContext();
    pointer_ = llvm::PointerType::get(context, 0);
    size_ = llvm::Type::getInt64Ty(context);
    kind_ = llvm::Type::getInt32Ty(context);
    hook_type_ =
        llvm::FunctionType::get(llvm::Type::getVoidTy(context), {pointer_, size_, kind_}, false);
    hook_ =
        new llvm::GlobalVariable(module, pointer_, false, llvm::GlobalValue::ExternalLinkage,
                                 llvm::ConstantPointerNull::get(pointer_), "tenon_opencl_access");
  }

  void watch(llvm::Function& function) {
    accesses_.clear();
    for (llvm::Instruction& i : llvm::instructions(function)) collect(i);
    for (const Access& access : accesses_) {
      builder_.SetInsertPoint(access.before);
      llvm::Value* hook = builder_.CreateLoad(pointer_, hook_);
      builder_.CreateCall(hook_type_, hook,
                          {access.address, access.size, builder_.getInt32(access.kind)});
    }
  }

  // void tenon_opencl_variables(void (*visit)(void*, const char* name, void* address, uint64_t
  // size, uint32_t local), void* context)
  void list_variables() {
    std::vector<llvm::GlobalVariable*> variables;
    for (llvm::GlobalVariable& v : module_.globals()) {
      if (&v != hook_ && !v.isDeclaration() && !v.getName().starts_with("__tenon") &&
          !v.getName().starts_with("llvm.") && !v.getSection().starts_with("llvm."))
        variables.push_back(&v);
    }
    auto* type = llvm::FunctionType::get(builder_.getVoidTy(), {pointer_, pointer_}, false);
    auto* function = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage,
                                            "tenon_opencl_variables", module_);
    auto* visit_type = llvm::FunctionType::get(builder_.getVoidTy(),
                                               {pointer_, pointer_, pointer_, size_, kind_}, false);
    builder_.SetInsertPoint(llvm::BasicBlock::Create(module_.getContext(), "", function));
    for (llvm::GlobalVariable* v : variables) {
      const uint64_t size = module_.getDataLayout().getTypeAllocSize(v->getValueType());
      llvm::Value* name = builder_.CreateGlobalString(llvm::demangle(v->getName()), "__tenon_name");
      llvm::Value* address =
          v->isThreadLocal() ? builder_.CreateThreadLocalAddress(v) : static_cast<llvm::Value*>(v);
      builder_.CreateCall(visit_type, function->getArg(0),
                          {function->getArg(1), name, address, builder_.getInt64(size),
                           builder_.getInt32(is_local_variable(*v))});
    }
    builder_.CreateRetVoid();
  }

 private:
  void add(llvm::Instruction& before, llvm::Value* address, llvm::Value* size, uint32_t kind) {
    if (!is_private(address)) accesses_.push_back({&before, address, size, kind});
  }
  llvm::Value* size_of(llvm::Type* type) {
    return llvm::ConstantInt::get(size_, module_.getDataLayout().getTypeStoreSize(type));
  }

  void collect(llvm::Instruction& i) {
    if (auto* load = llvm::dyn_cast<llvm::LoadInst>(&i)) {
      add(i, load->getPointerOperand(), size_of(load->getType()),
          kRead | (load->isAtomic() ? kAtomic : 0));
    } else if (auto* store = llvm::dyn_cast<llvm::StoreInst>(&i)) {
      add(i, store->getPointerOperand(), size_of(store->getValueOperand()->getType()),
          kWrite | (store->isAtomic() ? kAtomic : 0));
    } else if (auto* swap = llvm::dyn_cast<llvm::AtomicRMWInst>(&i)) {
      add(i, swap->getPointerOperand(), size_of(swap->getType()), kWrite | kAtomic);
    } else if (auto* exchange = llvm::dyn_cast<llvm::AtomicCmpXchgInst>(&i)) {
      add(i, exchange->getPointerOperand(), size_of(exchange->getNewValOperand()->getType()),
          kWrite | kAtomic);
    } else if (auto* set = llvm::dyn_cast<llvm::MemSetInst>(&i)) {
      add(i, set->getDest(), set->getLength(), kWrite);
    } else if (auto* move = llvm::dyn_cast<llvm::MemTransferInst>(&i)) {
      add(i, move->getSource(), move->getLength(), kRead);
      add(i, move->getDest(), move->getLength(), kWrite);
    }
  }

  llvm::Module& module_;
  llvm::IRBuilder<> builder_;
  llvm::PointerType* pointer_;
  llvm::Type *size_, *kind_;
  llvm::FunctionType* hook_type_;
  llvm::GlobalVariable* hook_;
  std::vector<Access> accesses_;
};

}  // namespace

bool is_local_variable(const llvm::GlobalVariable& variable) {
  return variable.hasInitializer() && llvm::isa<llvm::UndefValue>(variable.getInitializer()) &&
         !variable.isConstant();
}

llvm::PreservedAnalyses WatchAccesses::run(llvm::Module& module, llvm::ModuleAnalysisManager&) {
  Watcher watcher(module);
  for (llvm::Function& function : module) {
    // The wrappers read the arguments, which are not device memory.
    const llvm::StringRef name = function.getName();
    if (!function.isDeclaration() && !name.ends_with("__run") && !name.starts_with("__tenon"))
      watcher.watch(function);
  }
  watcher.list_variables();
  return llvm::PreservedAnalyses::none();
}

}  // namespace tenon::cpu::compiler
