// An open device and its buffers, for checks: short names for the slots, and everything freed and
// closed at the end.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include <tenon/abi/device.h>

#include "core/conform/session.h"

namespace tenon::conform {

using Bytes = std::vector<unsigned char>;

// Bytes that differ from place to place and from seed to seed.
Bytes pattern_bytes(size_t size, uint32_t seed);
// Whether all of them are `value`. In one call: many megabytes are looked at under sanitizers too.
bool all_are(const Bytes& bytes, unsigned char value);

class OpenDevice {
 public:
  OpenDevice(const tenon_device_api_t* api, uint32_t ordinal) : api_(api), ordinal_(ordinal) {}
  OpenDevice(const OpenDevice&) = delete;
  OpenDevice& operator=(const OpenDevice&) = delete;
  ~OpenDevice();

  Outcome open();
  Outcome close();
  const tenon_device_api_t& api() const { return *api_; }
  tenon_device_t* device() const { return device_; }
  uint32_t ordinal() const { return ordinal_; }

  // A buffer that is freed with the device, or by free().
  Outcome alloc(uint64_t size_bytes, tenon_buffer_t** out);
  Outcome free(tenon_buffer_t* buffer);

  // The copies, as codes.
  tenon_code_t to_device(tenon_buffer_t* to, uint64_t offset, const void* from, uint64_t length);
  tenon_code_t to_host(void* to, tenon_buffer_t* from, uint64_t offset, uint64_t length);
  tenon_code_t between(tenon_buffer_t* to, uint64_t to_offset, tenon_buffer_t* from,
                       uint64_t from_offset, uint64_t length);
  tenon_code_t fill(tenon_buffer_t* to, uint64_t offset, uint64_t length, uint64_t pattern,
                    uint32_t pattern_bytes);

  // Writes and reads whole buffers, failing a check when the device does.
  Outcome write(tenon_buffer_t* to, const Bytes& bytes);
  Outcome read(tenon_buffer_t* from, Bytes* bytes);  // as many as it holds
  // Fails unless the buffer holds `expected`.
  Outcome holds(tenon_buffer_t* buffer, const Bytes& expected, std::string_view what);

 private:
  const tenon_device_api_t* api_;
  uint32_t ordinal_;
  tenon_device_t* device_ = nullptr;
  std::vector<tenon_buffer_t*> buffers_;
};

// A record of so many bytes in that direction, its ends still to be set.
tenon_copy_t copy_record(uint32_t direction, uint64_t length);

// " (the plugin says: ...)" where it gave a reason since forget_failure().
std::string said();

// "byte 12 is 3 and should be 7"; empty when equal.
std::string first_difference(const Bytes& got, const Bytes& expected);

// The table of the device interface with only so many optional slots, and how many devices there
// are. Not offered or skipped where there is none.
Outcome find_devices(Session& session, const tenon_device_api_t** api, uint32_t* count,
                     size_t optional_slots = SIZE_MAX);

// Memory at work on every device, at most two: allocated, written, read back, freed.
Outcome exercise_memory(Session& session, const tenon_device_api_t* api, uint32_t count);

}  // namespace tenon::conform
