// A kernel that a check creates, and the runs of its parts.
#pragma once
#include <string>
#include <vector>

#include "sdk/tools/conform/fixtures/compile/kernel_fixture.h"
#include "sdk/tools/conform/subject/names.h"
#include "sdk/tools/conform/subject/session.h"

namespace tenon::conform {

// A kernel; destroyed by the destructor.
struct Kernel {
  const tenon_kernels_api_t& api;
  tenon_kernel_t* kernel = nullptr;
  explicit Kernel(KernelFixture& fixture) : api(fixture.kernels()) {}
  Kernel(const Kernel&) = delete;
  ~Kernel() {
    if (kernel != nullptr) api.destroy(api.self, kernel);
  }
};

inline Outcome create(KernelFixture& fixture, const KernelCall& call, const std::string& what,
                      Kernel* out) {
  fixture.session().step("making a kernel for " + what);
  forget_failure();
  const tenon_code_t code =
      out->api.create(out->api.self, fixture.device().device(), &call.call(), &out->kernel);
  CONFORM_EXPECT(code == TENON_OK, "create of {}, which query took, gives {}", what,
                 code_text(code));
  CONFORM_EXPECT(out->kernel != nullptr, "create of {} gives OK and no kernel", what);
  return pass();
}

inline Outcome run_parts(KernelRun& run, tenon_kernel_t* kernel, const std::vector<uint32_t>& order,
                         const std::string& what) {
  for (uint32_t index : order) {
    const tenon_code_t code = run.run(kernel, index, static_cast<uint32_t>(order.size()));
    CONFORM_EXPECT(code == TENON_OK, "part {} of {} of {} gives {}", index, order.size(), what,
                   code_text(code));
  }
  return pass();
}

inline std::vector<uint32_t> in_order(uint32_t count) {
  std::vector<uint32_t> order(count);
  for (uint32_t i = 0; i < count; ++i) order[i] = i;
  return order;
}

}  // namespace tenon::conform
