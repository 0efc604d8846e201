// The kernel set `lapack`: factors, eigenvalues and singular values on the cpu by LAPACK.
#include <iterator>
#include <new>

#include <tenon/abi/simple_kernels.h>
#include <tenon/cpp/plugin.hpp>

#include "lapack_symbols.h"
#include "routines.h"

namespace {

using namespace tenon::lapack;

constexpr tenon_dtypes_t kTypes = TENON_DTYPE_BIT(TENON_F32) | TENON_DTYPE_BIT(TENON_F64) |
                                  TENON_DTYPE_BIT(TENON_C64) | TENON_DTYPE_BIT(TENON_C128);
constexpr tenon_dtypes_t kWithOrder =
    kTypes | TENON_DTYPE_BIT(TENON_I64) | TENON_DTYPE_BIT(TENON_I32);
// What an element costs in a product of matrices of this size, and one call of LAPACK.
constexpr double kFlopNs = 0.5, kCallNs = 2000;
constexpr double kLikelyExtent = 64;  // where it is known only in the run

// 0 where the op has no such attribute.
int64_t number(const tenon_simple_call_t* call, const char* name) {
  tenon_attr_t attr = {};
  return tenon_simple_attr(call, name, &attr) == TENON_OK ? attr.u.i : 0;
}
int64_t form(const tenon_simple_call_t* call) {
  tenon_attr_t attr = {};
  if (tenon_simple_attr(call, "form", &attr) != TENON_OK) return kPlain;
  const std::string_view name(attr.u.s.data, attr.u.s.size);
  return name == "adjoint" ? kAdjoint : name == "transposed" ? kTransposed : kPlain;
}

tenon_code_t suits(const tenon_simple_call_t* call, tenon_simple_plan_t* plan) {
  std::string why;
  if (library(&why) == nullptr) return tenon_simple_refuse(call, why.c_str());
  if ((call->call->flags & TENON_KERNEL_CALL_DETERMINISTIC) != 0)
    return tenon_simple_refuse(call, "LAPACK's results depend on the processor");
  const tenon_type_t& a = tenon_kernel_operand(call->call, 0)->type;
  double cost = kFlopNs;
  for (uint32_t i = 0; i < a.rank; ++i)
    cost *= a.dims[i] < 0 ? kLikelyExtent : static_cast<double>(a.dims[i]);
  plan->cost_ns =
      kCallNs +
      cost * (a.dims[a.rank - 1] < 0 ? kLikelyExtent : static_cast<double>(a.dims[a.rank - 1]));
  plan->params[kUpper] = number(call, "upper");
  plan->params[kUnit] = number(call, "unit");
  plan->params[kFull] = number(call, "full");
  plan->params[kForm] = form(call);
  return TENON_OK;
}

template <tenon::Status (*Function)(const tenon_simple_run_t&)>
tenon_code_t run(const tenon_simple_run_t* run) {
  return tenon::detail::guarded(tenon::context().host, [&] { return Function(*run); });
}

constexpr tenon_simple_kernel_t kKernels[] = {
    {"cholesky", kTypes, suits, run<run_cholesky>},
    {"triangular_solve", kTypes, suits, run<run_triangular_solve>},
    {"lu", kWithOrder, suits, run<run_lu>},
    {"qr", kTypes, suits, run<run_qr>},
    {"eigh", kTypes, suits, run<run_eigh>},
    {"svd", kTypes, suits, run<run_svd>},
    {"eig", kTypes, suits, run<run_eig>},
};
tenon_kernels_api_t g_kernels;
constexpr tenon_interface_t g_interfaces[] = {tenon::offer(TENON_KERNELS_ID, g_kernels)};

tenon::Status start() {
  return tenon_simple_kernels(tenon::context().host, "cpu", nullptr, kKernels, std::size(kKernels),
                              &g_kernels);
}

}  // namespace

TENON_PLUGIN("lapack", "0.1.0", g_interfaces, start)
