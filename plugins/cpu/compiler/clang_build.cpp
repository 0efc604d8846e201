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
#include <optional>
#include <vector>

#include "opencl_thread.h"
#include "opencl_watch.h"

namespace tenon::cpu::compiler {
namespace {

constexpr const char* kTriples[] = {"x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"};
constexpr const char* kCudaTriple = "nvptx64-nvidia-cuda";
constexpr const char* kHipTriple = "amdgcn-amd-amdhsa";

std::string_view view(tenon_clang_str_t s) {
  return s.data ? std::string_view(s.data, s.size) : std::string_view();
}

bool is_opencl(const tenon_clang_options_t& options) {
  return options.dialect == TENON_CLANG_OPENCL_C || options.dialect == TENON_CLANG_OPENCL_C_WATCHED;
}
bool is_items_cxx(const tenon_clang_options_t& options) {
  return options.dialect == TENON_CLANG_ITEMS_CXX ||
         options.dialect == TENON_CLANG_ITEMS_CXX_WATCHED;
}
bool is_watched(const tenon_clang_options_t& options) {
  return options.dialect == TENON_CLANG_OPENCL_C_WATCHED ||
         options.dialect == TENON_CLANG_ITEMS_CXX_WATCHED;
}

// Arguments of a unit of either kind: no headers, no files, integers that wrap (scalar.h), and
// floats that are rounded as the text says.
void add_common(const tenon_clang_options_t& options, const std::string& file,
                std::vector<std::string>& args) {
  args.insert(args.end(),
              {"-emit-obj", "-main-file-name", file, "-nostdsysteminc", "-nobuiltininc",
               "-ffp-contract=off", "-fwrapv", "-fno-verbose-asm", "-ferror-limit", "20"});
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
  std::vector<std::string> args = {
      "-triple",          kCudaTriple, "-aux-triple", kTriples[options.machine],
      "-fcuda-is-device", "-x",        "cuda",        "-std=c++20"};
  add_common(options, file, args);
  args.push_back(file);
  return args;
}

// No device libraries: generated text has mathematics of its own.
std::vector<std::string> hip_arguments(const tenon_clang_options_t& options,
                                       const std::string& file) {
  std::vector<std::string> args = {"-triple",
                                   kHipTriple,
                                   "-aux-triple",
                                   kTriples[options.machine],
                                   "-x",
                                   "hip",
                                   "-fcuda-is-device",
                                   "-std=c++20",
                                   "-mcode-object-version=5",
                                   "-mrelocation-model",
                                   "pic",
                                   "-pic-level",
                                   "2",
                                   "-fvisibility=hidden",
                                   "-fapply-global-visibility-to-externs"};
  add_common(options, file, args);
  args.push_back(file);
  return args;
}

std::vector<std::string> frontend_arguments(const tenon_clang_options_t& options,
                                            const std::string& file) {
  if (options.dialect == TENON_CLANG_CUDA) return cuda_arguments(options, file);
  if (options.dialect == TENON_CLANG_HIP) return hip_arguments(options, file);
  const bool opencl = is_opencl(options);
  std::vector<std::string> args = {"-triple",
                                   kTriples[options.machine],
                                   "-mrelocation-model",
                                   "pic",
                                   "-pic-level",
                                   "2",
                                   "-mframe-pointer=none",
                                   "-funwind-tables=2",
                                   "-ffreestanding",
                                   "-fmax-type-align=16",
                                   "-Wno-psabi"};
  // The emitter chooses 512-bit vectors explicitly: x86-64-v4 alone would halve them.
  if (options.machine == TENON_CLANG_X86_64) args.push_back("-mprefer-vector-width=512");
  add_common(options, file, args);
  if (opencl) {
    args.insert(args.end(), {"-x", "cl", "-cl-std=CL2.0", "-cl-ext=+cl_khr_fp16,+cl_khr_fp64",
                             "-Wno-unused-function", "-include", "tenon_prelude.cl"});
  } else {
    args.insert(args.end(), {"-x", "c++", "-std=c++20", "-fgnuc-version=4.2.1"});
    if (is_items_cxx(options)) args.insert(args.end(), {"-include", "tenon_prelude.h"});
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
    if (is_items_cxx(options)) add_file("tenon_prelude.h", kItemsPrelude);
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

// What an annotation that begins so says after it.
std::optional<std::string> annotation(const clang::Decl& decl, llvm::StringRef begin) {
  for (const auto* attribute : decl.specific_attrs<clang::AnnotateAttr>()) {
    llvm::StringRef text = attribute->getAnnotation();
    if (text.consume_front(begin)) return text.str();
  }
  return std::nullopt;
}

bool is_kernel(const clang::FunctionDecl& function) {
  return function.isThisDeclarationADefinition() &&
         (function.hasAttr<clang::OpenCLKernelAttr>() || annotation(function, "kernel"));
}

// The spellings of the two languages in NAME__run.
struct WrapperWords {
  const char *linkage, *word, *own;  // own: before what the work item alone sees
};
constexpr WrapperWords kOpenclWords = {"", "ulong", "__private "};
constexpr WrapperWords kCxxWords = {"extern \"C\" ", "unsigned long", ""};

// Generates NAME__run for each kernel: text that is appended to a unit.
class KernelWrappers : public clang::ASTConsumer {
 public:
  explicit KernelWrappers(std::string& text) : text_(text) {}

  void HandleTranslationUnit(clang::ASTContext& context) override {
    words_ = context.getLangOpts().CPlusPlus ? kCxxWords : kOpenclWords;
    visit(context, *context.getTranslationUnitDecl());
  }

 private:
  // Also inside of `extern "C" { }`.
  void visit(clang::ASTContext& context, const clang::DeclContext& in) {
    for (const clang::Decl* decl : in.decls()) {
      if (const auto* block = llvm::dyn_cast<clang::LinkageSpecDecl>(decl)) visit(context, *block);
      const auto* function = llvm::dyn_cast<clang::FunctionDecl>(decl);
      if (function && is_kernel(*function)) wrap(context, *function);
    }
  }

  void refuse(clang::ASTContext& context, const clang::ParmVarDecl& param) {
    clang::DiagnosticsEngine& diagnostics = context.getDiagnostics();
    const unsigned id = diagnostics.getCustomDiagID(
        clang::DiagnosticsEngine::Error,
        "a kernel parameter of type %0 is not supported: use pointers and plain values");
    diagnostics.Report(param.getLocation(), id) << param.getType();
  }

  // A parameter's argument, from its slot.
  std::string argument(clang::ASTContext& context, clang::QualType type,
                       const std::string& slot) const {
    const clang::PrintingPolicy policy(context.getLangOpts());
    const std::string address = std::string("(") + words_.word + ")" + slot;
    // OpenCL C converts a pointer to another address space only through an integer.
    if (type->isPointerType())
      return "(" + context.getPointerType(type->getPointeeType()).getAsString(policy) + ")" +
             address;
    const clang::QualType plain =
        context.removeAddrSpaceQualType(type.getNonReferenceType()).getUnqualifiedType();
    // A reference is to a copy, which is the work item's own.
    const std::string copy = type->isReferenceType() ? "(" + plain.getAsString(policy) + ")" : "";
    return copy + "*(" + words_.own + "const " + plain.getAsString(policy) + "*)" + address;
  }

  void wrap(clang::ASTContext& context, const clang::FunctionDecl& kernel) {
    std::string arguments;
    unsigned slots = 0;
    for (const clang::ParmVarDecl* param : kernel.parameters()) {
      const clang::QualType type = param->getType().getCanonicalType().getUnqualifiedType();
      if (type->isImageType() || type->isSamplerT() || type->isPipeType() || type->isEventT())
        return refuse(context, *param);
      if (!arguments.empty()) arguments += ", ";
      const std::optional<std::string> given = annotation(*param, "= ");
      arguments +=
          given ? *given : argument(context, type, "args[" + std::to_string(slots++) + "]");
    }
    const std::string name = kernel.getNameAsString(), own = words_.own;
    const std::string words = "const " + own + words_.word + "* ";
    const std::string loop = std::string("for (") + words_.word + " ";
    text_ += "\n" + std::string(words_.linkage) + "void " + name + "__run(" + own + "void* const " +
             own + "* args, " + words + "global_size, " + words + "begin, " + words +
             "end) {\n"
             "  __tenon_enter(global_size);\n  " +
             loop + "z = begin[2]; z < end[2]; ++z)\n    " + loop +
             "y = begin[1]; y < end[1]; ++y)\n      " + loop +
             "x = begin[0]; x < end[0]; ++x) {\n"
             "        __tenon_at(x, y, z);\n        " +
             name + "(" + arguments + ");\n      }\n}\n";
  }

  std::string& text_;
  WrapperWords words_ = kOpenclWords;
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
    LLVMInitializeAArch64TargetInfo();
    LLVMInitializeAArch64Target();
    LLVMInitializeAArch64TargetMC();
    LLVMInitializeAArch64AsmPrinter();
    LLVMInitializeAArch64AsmParser();
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    LLVMInitializeAMDGPUTargetInfo();
    LLVMInitializeAMDGPUTarget();
    LLVMInitializeAMDGPUTargetMC();
    LLVMInitializeAMDGPUAsmPrinter();
    LLVMInitializeAMDGPUAsmParser();
  });
}

int32_t build_text(std::string_view text, const tenon_clang_options_t& options, std::string& output,
                   std::string& diagnostics) {
  const bool opencl = is_opencl(options), items = opencl || is_items_cxx(options);
  const bool cuda = options.dialect == TENON_CLANG_CUDA;
  if (options.dialect > TENON_CLANG_ITEMS_CXX_WATCHED || options.output > TENON_CLANG_LLVM_IR ||
      options.opt_level > 3 || options.machine > TENON_CLANG_AARCH64 ||
      (cuda && options.output == TENON_CLANG_OBJECT)) {
    diagnostics = "unknown dialect, kind of output, optimisation level or machine";
    return TENON_CLANG_BAD_ARGUMENT;
  }
  initialize_targets();
  std::string file(view(options.name));
  file = (file.empty() ? "kernel" : file) + (opencl                               ? ".cl"
                                             : cuda                               ? ".cu"
                                             : options.dialect == TENON_CLANG_HIP ? ".hip"
                                                                                  : ".cpp");
  std::string unit_text(text);
  if (items) {
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
  if (items) {
    const bool watched = is_watched(options);
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
