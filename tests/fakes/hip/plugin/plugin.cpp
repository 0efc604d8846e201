// A toolchain for the tests' HIP: a code object as the clang toolchain makes it, followed by the
// same text as PTX, which can be executed.
#include <fstream>
#include <sstream>
#include <string>

#include "tenon/abi/host.h"
#include "tenon/abi/toolchain.h"
#include "tenon/cpp/plugin.hpp"

namespace {

using namespace tenon;

// Where the fake finds it (code_object.cpp): after the image, if a byte of its header says so.
constexpr std::string_view kMark = "PTX of the tests' HIP\n";
constexpr size_t kMarked = 15;  // of e_ident, which ELF leaves free

// The toolchain that is also asked for C++: the cpu plugin's.
Status clang(const tenon_toolchain_api_t** out) {
  const auto* registry = context().query<tenon_host_registry_t>(TENON_HOST_REGISTRY_ID);
  return registry->plugin_interface(registry->self, str("toolchain"), str(TENON_DIALECT_CPP),
                                    str(TENON_TOOLCHAIN_ID), reinterpret_cast<const void**>(out));
}

Status as_ptx(const tenon_toolchain_api_t& tools, std::string_view text,
              const tenon_toolchain_options_t* options, std::string* out) {
  std::ifstream shim(FAKE_HIP_AS_CUDA);
  std::stringstream unit;
  unit << shim.rdbuf() << text;
  if (!shim) return fail(TENON_NOT_FOUND, "the shim " FAKE_HIP_AS_CUDA " is not there");
  std::string diagnostics;
  const tenon_sink_t ptx = sink_to(out), notes = sink_to(&diagnostics);
  return tools.build(tools.self, str("cuda sm_80"), str(TENON_DIALECT_CUDA_CPP), str(unit.str()),
                     options, &ptx, &notes);
}

Status build(void*, tenon_str_t target, tenon_str_t dialect, tenon_str_t text,
             const tenon_toolchain_options_t* options, const tenon_sink_t* object,
             const tenon_sink_t* diagnostics) {
  const tenon_toolchain_api_t* tools = nullptr;
  TENON_TRY(clang(&tools));
  std::string code, ptx;
  const tenon_sink_t made = sink_to(&code);
  TENON_TRY(tools->build(tools->self, target, dialect, text, options, &made, diagnostics));
  TENON_TRY(as_ptx(*tools, view(text), options, &ptx));
  if (code.size() <= kMarked) return fail(TENON_INTERNAL, "the code object is not an ELF file");
  code[kMarked] = 1;
  const uint64_t size = ptx.size();
  code.append(kMark).append(reinterpret_cast<const char*>(&size), sizeof size).append(ptx);
  return object->write(object->self, code.data(), code.size());
}

Status load(void*, const void*, uint64_t, tenon_module_t**) {
  return fail(TENON_UNIMPLEMENTED, "code of HIP is its runtime's to load");
}
Status symbol(void*, tenon_module_t*, tenon_str_t, void**) {
  return fail(TENON_UNIMPLEMENTED, "code of HIP is its runtime's to load");
}
void release(void*, tenon_module_t*) {}

const tenon_toolchain_api_t kToolchain = {sizeof(tenon_toolchain_api_t),
                                          nullptr,
                                          str("hip-as-ptx"),
                                          str(TENON_DIALECT_HIP_CPP),
                                          str("code objects with PTX, " FAKE_HIP_VERSION),
                                          entry<build>,
                                          entry<load>,
                                          entry<symbol>,
                                          &release};

const tenon_interface_t kInterfaces[] = {offer(TENON_TOOLCHAIN_ID, kToolchain)};

}  // namespace

TENON_PLUGIN("hip-as-ptx", "0.1.0", kInterfaces)
