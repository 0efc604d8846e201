// Turns checks of one open device into checks of the plugin.
#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sdk/tools/conform/fixtures/device/open_device.h"
#include "sdk/tools/conform/runner/check.h"
#include "sdk/tools/conform/subject/session.h"

namespace tenon::conform {

constexpr uint32_t kDevicesTried = 2;
constexpr size_t kBufferBytes = 4096;

using DeviceCheck = Outcome (*)(Session&, OpenDevice&);

// Turns a check of one open device into one of the plugin.
template <DeviceCheck kCheck>
Outcome on_each(Session& s) {
  const tenon_device_api_t* api = nullptr;
  uint32_t count = 0;
  CONFORM_TRY(find_devices(s, &api, &count));
  for (uint32_t ordinal = 0; ordinal < std::min(count, kDevicesTried); ++ordinal) {
    s.step(fmt::format("opening device {}", ordinal));
    OpenDevice device(api, ordinal);
    CONFORM_TRY(device.open());
    Outcome outcome = kCheck(s, device);
    if (outcome.verdict == Verdict::kFail)
      outcome.text = fmt::format("device {}: {}", ordinal, outcome.text);
    CONFORM_TRY(std::move(outcome));
    CONFORM_TRY(device.close());
  }
  return pass();
}

// A new buffer that holds `bytes`.
inline Outcome alloc_filled(OpenDevice& d, const Bytes& bytes, tenon_buffer_t** out) {
  CONFORM_TRY(d.alloc(bytes.size(), out));
  return d.write(*out, bytes);
}

}  // namespace tenon::conform
