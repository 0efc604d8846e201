#include "clang_build.h"

#include <clang/AST/ASTConsumer.h>
#include <clang/AST/ASTContext.h>
#include <clang/AST/Attr.h>
#include <clang/AST/Decl.h>
#include <clang/Basic/DiagnosticOptions.h>
#include <clang/CodeGen/CodeGenAction.h>
#include <clang/Frontend/CompilerInstance.h>
#include <clang/Frontend/FrontendActions.h>
#include <clang/Frontend/TextDiagnosticPrinter.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/VirtualFileSystem.h>

#include <memory>
#include <mutex>
#include <vector>

#include "opencl_thread.h"
#include "opencl_watch.h"

namespace tenon::cpu::compiler {
namespace {

constexpr const char* kTriple = "x86_64-unknown-linux-gnu";
constexpr const char* kCudaTriple = "nvptx64-nvidia-cuda";

std::string_view view(tenon_clang_str_t s) {
  return s.data ? std::string_view(s.data, s.size) : std::string_view();
}

bool is_opencl(const tenon_clang_options_t& options) {
  return options.dialect == TENON_CLANG_OPENCL_C || options.dialect == TENON_CLANG_OPENCL_C_WATCHED;
}

// Arguments of a unit of either kind: no headers, no files, integers that wrap (scalar.h).
void add_common(const tenon_clang_options_t& options, const std::string& file,
                std::vector<std::string>& args) {
  args.insert(args.end(),
              {"-emit-obj", "-main-file-name", file, "-nostdsysteminc", "-nobuiltininc",
               "-ffp-contract=fast", "-fwrapv", "-fno-verbose-asm", "-ferror-limit", "20"});
  args.push_back("-O" + std::to_string(options.opt_level));
  if (options.opt_level >= 2) {
    args.insert(args.end(), {"-vectorize-loops", "-vectorize-slp"});
  }
  args.insert(args.end(), {"-target-cpu", std::string(view(options.cpu))});
  for (std::string_view rest = view(options.features); !rest.empty();) {
    const size_t comma = rest.find(',');
    args.insert(args.end(), {"-target-feature", std::string(rest.substr(0, comma))});
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
  }
}

std::vector<std::string> cuda_arguments(const tenon_clang_options_t& options,
                                        const std::string& file) {
  std::vector<std::string> args = {"-triple",          kCudaTriple, "-aux-triple", kTriple,
                                   "-fcuda-is-device", "-x",        "cuda",        "-std=c++20"};
  add_common(options, file, args);
  args.push_back(file);
  return args;
}

std::vector<std::string> frontend_arguments(const tenon_clang_options_t& options,
                                            const std::string& file) {
  if (options.dialect == TENON_CLANG_CUDA) return cuda_arguments(options, file);
  const bool opencl = is_opencl(options);
  std::vector<std::string> args = {
      "-triple", kTriple, "-mrelocation-model", "pic", "-pic-level", "2", "-mframe-pointer=none",
      "-funwind-tables=2", "-ffreestanding", "-fmax-type-align=16",
      // The emitter chooses 512-bit vectors explicitly: x86-64-v4 alone would halve them.
      "-mprefer-vector-width=512", "-Wno-psabi"};
  add_common(options, file, args);
  if (opencl) {
    args.insert(args.end(), {"-x", "cl", "-cl-std=CL2.0", "-cl-ext=+cl_khr_fp16,+cl_khr_fp64",
                             "-Wno-unused-function", "-include", "tenon_prelude.cl"});
  } else {
    args.insert(args.end(), {"-x", "c++", "-std=c++20", "-fgnuc-version=4.2.1"});
  }
  args.push_back(file);
  return args;
}

// One clang invocation, in memory alone. `run` prepares the instance for an action.
class Unit {
 public:
  Unit(std::string_view text, const tenon_clang_options_t& options, const std::string& file,
       std::string& diagnostics)
      : stream_(diagnostics), files_(new llvm::vfs::InMemoryFileSystem) {
    add_file(file, text);
    if (is_opencl(options)) {
      add_file("opencl-c-base.h", kOpenclBaseHeader);
      add_file("tenon_prelude.cl", kOpenclPrelude);
    }
    auto* printer = new clang::TextDiagnosticPrinter(stream_, new clang::DiagnosticOptions);
    instance_.createDiagnostics(printer);
    std::vector<std::string> args = frontend_arguments(options, file);
    std::vector<const char*> pointers;
    for (const std::string& arg : args) {
      pointers.push_back(arg.c_str());
    }
    valid_ = clang::CompilerInvocation::CreateFromArgs(instance_.getInvocation(), pointers,
                                                       instance_.getDiagnostics());
    instance_.setVerboseOutputStream(stream_);
    instance_.createFileManager(files_);
  }

  clang::CompilerInstance& instance() { return instance_; }

  bool run(clang::FrontendAction& action) { return valid_ && instance_.ExecuteAction(action); }

 private:
  void add_file(const std::string& name, std::string_view text) {
    files_->addFile(name, 0, llvm::MemoryBuffer::getMemBufferCopy({text.data(), text.size()}));
  }

  llvm::raw_string_ostream stream_;
  llvm::IntrusiveRefCntPtr<llvm::vfs::InMemoryFileSystem> files_;
  clang::CompilerInstance instance_;
  bool valid_ = false;
};

// Generates NAME__run for each kernel: text that is appended to an OpenCL C unit.
class KernelWrappers : public clang::ASTConsumer {
 public:
  explicit KernelWrappers(std::string& text) : text_(text) {}

  void HandleTranslationUnit(clang::ASTContext& context) override {
    for (const clang::Decl* decl : context.getTranslationUnitDecl()->decls()) {
      const auto* function = llvm::dyn_cast<clang::FunctionDecl>(decl);
      if (function && function->isThisDeclarationADefinition() &&
          function->hasAttr<clang::OpenCLKernelAttr>()) {
        wrap(context, *function);
      }
    }
  }

 private:
  void refuse(clang::ASTContext& context, const clang::ParmVarDecl& param) {
    clang::DiagnosticsEngine& diagnostics = context.getDiagnostics();
    const unsigned id = diagnostics.getCustomDiagID(
        clang::DiagnosticsEngine::Error,
        "a kernel parameter of type %0 is not supported: use pointers and plain values");
    diagnostics.Report(param.getLocation(), id) << param.getType();
  }

  void wrap(clang::ASTContext& context, const clang::FunctionDecl& kernel) {
    clang::PrintingPolicy policy(context.getLangOpts());
    std::string arguments;
    for (unsigned i = 0; i < kernel.getNumParams(); ++i) {
      const clang::ParmVarDecl* param = kernel.getParamDecl(i);
      const clang::QualType type = param->getType().getCanonicalType().getUnqualifiedType();
      if (type->isImageType() || type->isSamplerT() || type->isPipeType() || type->isEventT()) {
        return refuse(context, *param);
      }
      // OpenCL C converts a pointer to another address space only through an integer.
      const std::string slot = "args[" + std::to_string(i) + "]";
      std::string name;
      if (type->isPointerType()) {
        const clang::QualType pointee = type->getPointeeType();
        name = "(" + context.getPointerType(pointee).getAsString(policy) + ")(ulong)" + slot;
      } else {
        clang::QualType plain = context.removeAddrSpaceQualType(type);
        name = "*(__private const " + plain.getAsString(policy) + "*)(ulong)" + slot;
      }
      arguments += (i ? ", " : "") + name;
    }
    const std::string name = kernel.getNameAsString();
    text_ += "\nvoid " + name +
             "__run(__private void* const __private* args, const __private ulong* global_size,"
             " const __private ulong* begin, const __private ulong* end) {\n"
             "  __tenon_enter(global_size);\n"
             "  for (ulong z = begin[2]; z < end[2]; ++z)\n"
             "    for (ulong y = begin[1]; y < end[1]; ++y)\n"
             "      for (ulong x = begin[0]; x < end[0]; ++x) {\n"
             "        __tenon_at(x, y, z);\n        " +
             name + "(" + arguments + ");\n      }\n}\n";
  }

  std::string& text_;
};

class FindKernels : public clang::ASTFrontendAction {
 public:
  explicit FindKernels(std::string& text) : text_(text) {}

 protected:
  std::unique_ptr<clang::ASTConsumer> CreateASTConsumer(clang::CompilerInstance&,
                                                        llvm::StringRef) override {
    return std::make_unique<KernelWrappers>(text_);
  }

 private:
  std::string& text_;
};

bool emit(Unit& unit, uint32_t kind, llvm::SmallVectorImpl<char>& bytes) {
  unit.instance().setOutputStream(std::make_unique<llvm::raw_svector_ostream>(bytes));
  if (kind == TENON_CLANG_ASSEMBLY) {
    clang::EmitAssemblyAction action;
    return unit.run(action);
  }
  if (kind == TENON_CLANG_LLVM_IR) {
    clang::EmitLLVMAction action;
    return unit.run(action);
  }
  clang::EmitObjAction action;
  return unit.run(action);
}

}  // namespace

void initialize_targets() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeX86AsmParser();
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
}

int32_t build_text(std::string_view text, const tenon_clang_options_t& options, std::string& output,
                   std::string& diagnostics) {
  const bool opencl = is_opencl(options);
  const bool cuda = options.dialect == TENON_CLANG_CUDA;
  if (options.dialect > TENON_CLANG_CUDA || options.output > TENON_CLANG_LLVM_IR ||
      options.opt_level > 3 || (cuda && options.output == TENON_CLANG_OBJECT)) {
    diagnostics = "unknown dialect, kind of output or optimisation level";
    return TENON_CLANG_BAD_ARGUMENT;
  }
  initialize_targets();
  std::string file(view(options.name));
  file = (file.empty() ? "kernel" : file) + (opencl ? ".cl" : cuda ? ".cu" : ".cpp");
  std::string unit_text(text);
  if (opencl) {
    Unit first(text, options, file, diagnostics);
    std::string wrappers;
    first.instance().getFrontendOpts().SkipFunctionBodies = true;  // The second run parses them.
    FindKernels action(wrappers);
    if (!first.run(action)) {
      return TENON_CLANG_BAD_TEXT;
    }
    diagnostics.clear();  // The second run repeats the warnings.
    unit_text += wrappers;
  }
  Unit unit(unit_text, options, file, diagnostics);
  if (opencl) {
    const bool watched = options.dialect == TENON_CLANG_OPENCL_C_WATCHED;
    unit.instance().getCodeGenOpts().PassBuilderCallbacks.push_back(
        [watched](llvm::PassBuilder& builder) {
          builder.registerPipelineStartEPCallback(
              [watched](llvm::ModulePassManager& passes, llvm::OptimizationLevel) {
                passes.addPass(VariablesPerThread());
                if (watched) passes.addPass(WatchAccesses());
                passes.addPass(ThreadAddressesByCall());
              });
        });
  }
  llvm::SmallVector<char, 0> bytes;
  if (!emit(unit, options.output, bytes)) {
    return TENON_CLANG_BAD_TEXT;
  }
  output.assign(bytes.data(), bytes.size());
  return TENON_CLANG_OK;
}

}  // namespace tenon::cpu::compiler
