#include "toolchain/toolchain.h"

#include "device.h"
#include "module.h"
#include "tenon/cpp/plugin.hpp"
#include "tenon_cpu_digest.h"
#include "toolchain/compiler_client.h"
#include "toolchain/gpu_target.h"
#include "toolchain/object_cache.h"

// `build` returns the bytes of a shared object, so that loading needs no linker: a warm process
// never opens the compiler library.
struct tenon_module_t {
  std::unique_ptr<tenon::cpu::Module> module;
};

namespace tenon::cpu {
namespace {

constexpr uint64_t kMaxTextBytes = 64u << 20;

Status isa_for(std::string_view target, Isa& out) {
  if (target.empty()) {
    return current_isa(out);
  }
  const std::optional<Isa> isa = isa_of_target(target);
  if (!isa) {
    return fail(TENON_INVALID_ARGUMENT, cat("The clang toolchain compiles for ", target_choices(),
                                            ", not for ", quoted(target), "."));
  }
  out = *isa;
  return {};
}

Status gpu_for(const GpuDialect& dialect, std::string_view target,
               const tenon_toolchain_options_t* options, BuildRequest& out) {
  out.dialect = dialect.clang;
  out.output = dialect.output;
  out.gpu = gpu_architecture(dialect, target);
  if (out.gpu == nullptr) {
    return fail(TENON_INVALID_ARGUMENT,
                cat("The clang toolchain compiles ", dialect.name, " for \"", dialect.prefix,
                    "ARCHITECTURE\" with one of ", names_of_architectures(dialect), ", not for ",
                    quoted(target), "."));
  }
  if (options && options->isolated != 0) {
    return fail(TENON_UNIMPLEMENTED, cat("The clang toolchain does not compile ", dialect.name,
                                         " in a process of its own."));
  }
  return {};
}

Status request_for(tenon_str_t target, tenon_str_t dialect, tenon_str_t text,
                   const tenon_toolchain_options_t* options, BuildRequest& out) {
  const GpuDialect* gpu = gpu_dialect(view(dialect));
  TENON_TRY(gpu ? gpu_for(*gpu, view(target), options, out) : isa_for(view(target), out.isa));
  if (view(dialect) == TENON_DIALECT_CPP) {
    out.dialect = TENON_CLANG_CXX;
  } else if (view(dialect) == TENON_DIALECT_OPENCL_C) {
    out.dialect = TENON_CLANG_OPENCL_C;
  } else if (view(dialect) == TENON_DIALECT_ITEMS_CPP) {
    out.dialect = TENON_CLANG_ITEMS_CXX;
  } else if (!gpu) {
    return fail(TENON_INVALID_ARGUMENT, cat("The clang toolchain knows the dialects c++, opencl-c, "
                                            "items-c++, cuda-c++ and hip-c++, not ",
                                            quoted(view(dialect)), "."));
  }
  if (text.size > kMaxTextBytes) {
    return fail(TENON_INVALID_ARGUMENT, cat("A unit of ", text.size, " bytes is longer than the ",
                                            kMaxTextBytes, " that are compiled."));
  }
  out.text = view(text);
  if (options) {
    if (options->optimise > 3) {
      return fail(TENON_INVALID_ARGUMENT,
                  cat("Optimisation levels are 0 to 3, not ", options->optimise, "."));
    }
    for (uint32_t i = 0; i < options->option_count; ++i) {
      const std::string_view key = view(options->options[i].key);
      const bool opencl = out.dialect == TENON_CLANG_OPENCL_C;
      if (key != TENON_TOOLCHAIN_WATCH || (!opencl && out.dialect != TENON_CLANG_ITEMS_CXX)) {
        return fail(TENON_INVALID_ARGUMENT, cat("The clang toolchain has no option ", quoted(key),
                                                " for ", view(dialect), "."));
      }
      if (view(options->options[i].value) == "1") {
        out.dialect = opencl ? TENON_CLANG_OPENCL_C_WATCHED : TENON_CLANG_ITEMS_CXX_WATCHED;
      }
    }
    out.opt_level = options->optimise;
    out.isolated = options->isolated != 0;
  }
  return {};
}

Status give(const tenon_sink_t* sink, std::string_view bytes) {
  return sink && !bytes.empty() ? Status(sink->write(sink->self, bytes.data(), bytes.size()))
                                : Status();
}

// Compiles and links; on failure the failure is recorded.
Status make(const BuildRequest& request, const tenon_sink_t* diagnostics, std::string& out) {
  BuildResult object = build_unit(request);
  TENON_TRY(give(diagnostics, object.messages));
  if (object.code != TENON_OK) {
    const bool wrong_text = object.code == TENON_INVALID_ARGUMENT;
    return fail(object.code, cat(wrong_text ? "The text does not compile: " : "",
                                 object.messages.substr(0, 4000)));
  }
  if (request.dialect == TENON_CLANG_CUDA) {  // the text of PTX, which the driver links
    out = std::move(object.bytes);
    return {};
  }
  BuildResult linked = request.dialect == TENON_CLANG_HIP ? link_code_object(object.bytes)
                                                          : link_units({&object.bytes, 1});
  if (linked.code != TENON_OK) {
    TENON_TRY(give(diagnostics, linked.messages));
    return fail(linked.code, cat("The object does not link: ", linked.messages.substr(0, 4000)));
  }
  out = std::move(linked.bytes);
  return {};
}

Status build(void*, tenon_str_t target, tenon_str_t dialect, tenon_str_t text,
             const tenon_toolchain_options_t* options, const tenon_sink_t* object,
             const tenon_sink_t* diagnostics) {
  BuildRequest request;
  TENON_TRY(request_for(target, dialect, text, options, request));
  const std::string key = cache_key(CacheKind::kModule, request.isa,
                                    cat(request.dialect, " O", request.opt_level,
                                        request.gpu != nullptr ? request.gpu->name : ""),
                                    request.text);
  if (std::optional<std::string> cached = cache_get(CacheKind::kModule, key)) {
    return give(object, *cached);
  }
  std::string bytes;
  TENON_TRY(make(request, diagnostics, bytes));
  cache_put(CacheKind::kModule, key, bytes);
  return give(object, bytes);
}

Status load(void*, const void* bytes, uint64_t size_bytes, tenon_module_t** out_module) {
  std::string why;
  std::unique_ptr<Module> module = Module::open({static_cast<const char*>(bytes), size_bytes}, why);
  if (!module) {
    return fail(TENON_INVALID_ARGUMENT, cat("The code cannot be loaded: ", why, "."));
  }
  *out_module = new tenon_module_t{std::move(module)};
  return {};
}

Status symbol(void*, tenon_module_t* module, tenon_str_t name, void** out_address) {
  void* address = module->module->symbol(std::string(view(name)));
  if (!address) {
    return fail(TENON_NOT_FOUND, cat("The module has no symbol ", quoted(view(name)), "."));
  }
  *out_address = address;
  return {};
}

void release(void*, tenon_module_t* module) {
  delete module;
}

}  // namespace

const tenon_toolchain_api_t kToolchainTable = {sizeof(tenon_toolchain_api_t),
                                               nullptr,
                                               str("clang"),
                                               str("c++,opencl-c,items-c++,cuda-c++,hip-c++"),
                                               str(TENON_CPU_DIGEST),
                                               entry<build>,
                                               entry<load>,
                                               entry<symbol>,
                                               &release};

}  // namespace tenon::cpu
