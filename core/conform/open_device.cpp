#include "core/conform/open_device.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <set>
#include <utility>

#include "core/base/str.h"

namespace tenon::conform {
namespace {

constexpr size_t kExercised = 3000;

// The devices that were opened in this process: of them UNAVAILABLE is no fact of the machine any
// more. Never destroyed, as what waits for a process to end may still open.
struct Opened {
  std::mutex mutex;
  std::set<std::pair<const void*, uint32_t>> devices;
};
Opened& opened() {
  static auto* all = new Opened;
  return *all;
}

}  // namespace

std::string said() {
  return heard_failure().any ? " (the plugin says: " + printable(heard_failure().text) + ")" : "";
}

tenon_copy_t copy_record(uint32_t direction, uint64_t length) {
  tenon_copy_t copy = {};
  copy.size_bytes = sizeof(copy);
  copy.direction = direction;
  copy.length_bytes = length;
  return copy;
}

Bytes pattern_bytes(size_t size, uint32_t seed) {
  Bytes bytes(size);
  uint32_t state = seed * 2654435761u + 12345u;
  for (unsigned char& byte : bytes) {
    state = state * 1664525u + 1013904223u;
    byte = static_cast<unsigned char>(state >> 24);
  }
  return bytes;
}

bool all_are(const Bytes& bytes, unsigned char value) {
  return bytes.empty() ||
         (bytes[0] == value && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

std::string first_difference(const Bytes& got, const Bytes& expected) {
  if (got == expected) return "";
  for (size_t i = 0; i < std::min(got.size(), expected.size()); ++i) {
    if (got[i] != expected[i])
      return fmt::format("byte {} is {} and should be {}", i, got[i], expected[i]);
  }
  return fmt::format("there are {} bytes and should be {}", got.size(), expected.size());
}

OpenDevice::~OpenDevice() {
  (void)close();
}

Outcome OpenDevice::open() {
  forget_failure();
  const tenon_code_t code = api_->open(api_->self, ordinal_, &device_);
  const std::pair<const void*, uint32_t> which(api_->self, ordinal_);
  std::lock_guard lock(opened().mutex);
  if (code == TENON_UNAVAILABLE && opened().devices.count(which) == 0)
    return skipped(fmt::format("device {} cannot be used on this machine{}", ordinal_, said()));
  CONFORM_EXPECT(code == TENON_OK, "open of device {} gives {}{}{}", ordinal_, code_text(code),
                 opened().devices.count(which) == 0 ? "" : ", and it was opened before", said());
  CONFORM_EXPECT(device_ != nullptr, "open of device {} gives OK and no device", ordinal_);
  opened().devices.insert(which);
  return pass();
}

Outcome OpenDevice::close() {
  if (device_ == nullptr) return pass();
  for (tenon_buffer_t* buffer : buffers_) (void)api_->free(api_->self, device_, buffer);
  buffers_.clear();
  tenon_device_t* device = std::exchange(device_, nullptr);
  const tenon_code_t code = api_->close(api_->self, device);
  CONFORM_EXPECT(code == TENON_OK, "close of device {} gives {}", ordinal_, code_text(code));
  return pass();
}

Outcome OpenDevice::alloc(uint64_t size_bytes, tenon_buffer_t** out) {
  forget_failure();
  tenon_buffer_t* buffer = nullptr;
  const tenon_code_t code = api_->alloc(api_->self, device_, size_bytes, &buffer);
  CONFORM_EXPECT(code == TENON_OK, "alloc of {} bytes gives {}{}", size_bytes, code_text(code),
                 said());
  CONFORM_EXPECT(buffer != nullptr, "alloc of {} bytes gives OK and no buffer", size_bytes);
  buffers_.push_back(buffer);
  *out = buffer;
  return pass();
}

Outcome OpenDevice::free(tenon_buffer_t* buffer) {
  std::erase(buffers_, buffer);
  const tenon_code_t code = api_->free(api_->self, device_, buffer);
  CONFORM_EXPECT(code == TENON_OK, "free gives {}", code_text(code));
  return pass();
}

tenon_code_t OpenDevice::to_device(tenon_buffer_t* to, uint64_t offset, const void* from,
                                   uint64_t length) {
  tenon_copy_t copy = copy_record(TENON_COPY_HOST_TO_DEVICE, length);
  copy.to = to;
  copy.to_offset_bytes = offset;
  copy.host_from = from;
  forget_failure();
  return api_->copy(api_->self, device_, &copy);
}

tenon_code_t OpenDevice::to_host(void* to, tenon_buffer_t* from, uint64_t offset, uint64_t length) {
  tenon_copy_t copy = copy_record(TENON_COPY_DEVICE_TO_HOST, length);
  copy.from = from;
  copy.from_offset_bytes = offset;
  copy.host_to = to;
  forget_failure();
  return api_->copy(api_->self, device_, &copy);
}

tenon_code_t OpenDevice::between(tenon_buffer_t* to, uint64_t to_offset, tenon_buffer_t* from,
                                 uint64_t from_offset, uint64_t length) {
  tenon_copy_t copy = copy_record(TENON_COPY_DEVICE_TO_DEVICE, length);
  copy.from = from;
  copy.from_offset_bytes = from_offset;
  copy.to = to;
  copy.to_offset_bytes = to_offset;
  forget_failure();
  return api_->copy(api_->self, device_, &copy);
}

tenon_code_t OpenDevice::fill(tenon_buffer_t* to, uint64_t offset, uint64_t length,
                              uint64_t pattern, uint32_t pattern_bytes) {
  tenon_copy_t copy = copy_record(TENON_COPY_FILL, length);
  copy.to = to;
  copy.to_offset_bytes = offset;
  copy.pattern = pattern;
  copy.pattern_bytes = pattern_bytes;
  forget_failure();
  return api_->copy(api_->self, device_, &copy);
}

Outcome OpenDevice::write(tenon_buffer_t* to, const Bytes& bytes) {
  const tenon_code_t code = to_device(to, 0, bytes.data(), bytes.size());
  CONFORM_EXPECT(code == TENON_OK, "a copy of {} bytes to the device gives {}{}", bytes.size(),
                 code_text(code), said());
  return pass();
}

Outcome OpenDevice::read(tenon_buffer_t* from, Bytes* bytes) {
  const tenon_code_t code = to_host(bytes->data(), from, 0, bytes->size());
  CONFORM_EXPECT(code == TENON_OK, "a copy of {} bytes to the host gives {}{}", bytes->size(),
                 code_text(code), said());
  return pass();
}

Outcome OpenDevice::holds(tenon_buffer_t* buffer, const Bytes& expected, std::string_view what) {
  Bytes got(expected.size(), 0xaa);
  CONFORM_TRY(read(buffer, &got));
  const std::string difference = first_difference(got, expected);
  CONFORM_EXPECT(difference.empty(), "{}: {}", what, difference);
  return pass();
}

Outcome find_devices(Session& session, const tenon_device_api_t** api, uint32_t* count,
                     size_t optional_slots) {
  CONFORM_TRY(session.load());
  *api = static_cast<const tenon_device_api_t*>(session.table(TENON_DEVICE_ID, optional_slots));
  if (*api == nullptr) return not_offered(TENON_DEVICE_ID);
  for (const SlotList& list : slot_lists()) {
    if (list.id != TENON_DEVICE_ID) continue;
    for (uint32_t offset : list.required) {
      void* slot = nullptr;
      std::memcpy(&slot, reinterpret_cast<const char*>(*api) + offset, sizeof(slot));
      if (slot == nullptr) return skipped("a required slot is null, as B.required-slots tells");
    }
  }
  session.step("counting devices");
  if (const tenon_code_t code = (*api)->count((*api)->self, count); code != TENON_OK) {
    return skipped(fmt::format("count gives {}, as C.count tells", code_text(code)));
  }
  return *count == 0 ? skipped("there is no device of this plugin in this machine") : pass();
}

Outcome exercise_memory(Session& session, const tenon_device_api_t* api, uint32_t count) {
  for (uint32_t ordinal = 0; ordinal < std::min(count, 2u); ++ordinal) {
    session.step(fmt::format("using the memory of device {}", ordinal));
    OpenDevice device(api, ordinal);
    tenon_buffer_t *a = nullptr, *b = nullptr;
    CONFORM_TRY(device.open());
    CONFORM_TRY(device.alloc(kExercised, &a));
    CONFORM_TRY(device.alloc(kExercised, &b));
    const Bytes bytes = pattern_bytes(kExercised, ordinal);
    CONFORM_TRY(device.write(a, bytes));
    CONFORM_EXPECT(device.between(b, 0, a, 0, kExercised) == TENON_OK,
                   "a copy between buffers fails");
    CONFORM_EXPECT(api->sync(api->self, device.device()) == TENON_OK, "sync fails");
    CONFORM_TRY(device.holds(b, bytes, "what went to the device and came back"));
    CONFORM_TRY(device.free(a));
    CONFORM_TRY(device.free(b));
    CONFORM_TRY(device.close());
  }
  return pass();
}

}  // namespace tenon::conform
