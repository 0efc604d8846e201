// Group C: what closed devices and freed buffers leak in the process.
#include "sdk/tools/conform/checks/tables.h"
#include "sdk/tools/conform/fixtures/device/open_device.h"
#include "sdk/tools/conform/subject/growth.h"
#include "sdk/tools/conform/subject/session.h"

namespace tenon::conform {
namespace {

Outcome close_gives_back(Session& s) {
  constexpr int kRounds = 32;
  const tenon_device_api_t* api = nullptr;
  uint32_t count = 0;
  CONFORM_TRY(find_devices(s, &api, &count));
  s.step("opening and closing");
  return leaves_nothing(kRounds, "devices were opened and closed", [&]() -> Outcome {
    OpenDevice device(api, 0);
    tenon_buffer_t* buffer = nullptr;
    CONFORM_TRY(device.open());
    CONFORM_TRY(device.alloc(64, &buffer));
    return device.close();
  });
}

Outcome free_gives_back(Session& s) {
  constexpr int kRounds = 200;
  const tenon_device_api_t* api = nullptr;
  uint32_t count = 0;
  CONFORM_TRY(find_devices(s, &api, &count));
  OpenDevice device(api, 0);
  CONFORM_TRY(device.open());
  for (const uint64_t size : {uint64_t{0}, uint64_t{1000}, uint64_t{1} << 20}) {
    s.step(fmt::format("allocating and freeing {} bytes", size));
    CONFORM_TRY(leaves_nothing(kRounds,
                               fmt::format("buffers of {} bytes were allocated and freed", size),
                               [&]() -> Outcome {
                                 tenon_buffer_t* buffer = nullptr;
                                 CONFORM_TRY(device.alloc(size, &buffer));
                                 return device.free(buffer);
                               }));
  }
  return device.close();
}

constexpr Check kChecks[] = {
    {"R-C31", "close-gives-back", close_gives_back},
    {"R-C32", "free-gives-back", free_gives_back},
};

}  // namespace

std::span<const Check> device_leak_checks() {
  return kChecks;
}

}  // namespace tenon::conform
