// Option data=1: what a complete copy did is read back and compared, with the bytes around it.
#include <algorithm>

#include "validation.h"

namespace tenon::validation {
namespace {

constexpr uint64_t kMost = uint64_t{64} << 20;  // longer copies are passed on
constexpr uint64_t kAround = 64;

}  // namespace

bool Validator::read_back(tenon_device_t* device, tenon_buffer_t* buffer, uint64_t offset,
                          uint64_t length, std::vector<unsigned char>* out) {
  out->assign(length, 0);
  if (length == 0) return true;
  auto c = sized<tenon_copy_t>();
  c.direction = TENON_COPY_DEVICE_TO_HOST;
  c.from = buffer;
  c.from_offset_bytes = offset;
  c.length_bytes = length;
  c.host_to = out->data();
  return device_->copy(device_->self, device, &c) == TENON_OK;
}

tenon_code_t Validator::copy_and_compare(
    const Object& device, const tenon_copy_t& c,
    const std::function<tenon_code_t(const tenon_copy_t&)>& pass_on) {
  const uint64_t n = c.length_bytes;
  if (n > kMost || n == 0) return ask("copy", [&] { return pass_on(c); });
  if (c.direction == TENON_COPY_DEVICE_TO_HOST) {
    // Into memory of ours with a border, so that a byte too many is seen and does no harm.
    std::vector<unsigned char> wide(n + 2 * kAround, 0x5c);
    tenon_copy_t inner = c;
    inner.host_to = wide.data() + kAround;
    const tenon_code_t code = ask("copy", [&] { return pass_on(inner); });
    const auto untouched = [](unsigned char byte) { return byte == 0x5c; };
    if (!std::all_of(wide.begin(), wide.begin() + kAround, untouched) ||
        !std::all_of(wide.end() - kAround, wide.end(), untouched)) {
      broken("R-C14", "copy", cat("a copy of ", n, " bytes to the host wrote beside its range"));
    }
    if (code == TENON_OK) std::memcpy(c.host_to, wide.data() + kAround, n);
    return code;
  }
  std::string why;
  const ObjectRef to = objects_.find(Kind::kBuffer, c.to, device.device, &why);
  const uint64_t begin = c.to_offset_bytes - std::min(c.to_offset_bytes, kAround);
  const uint64_t end = std::min(to->size_bytes, c.to_offset_bytes + n + kAround);
  std::vector<unsigned char> before, after, source(n);
  bool readable = read_back(device.device, c.to, begin, end - begin, &before);
  if (c.direction == TENON_COPY_HOST_TO_DEVICE) std::memcpy(source.data(), c.host_from, n);
  if (c.direction == TENON_COPY_DEVICE_TO_DEVICE)
    readable = readable && read_back(device.device, c.from, c.from_offset_bytes, n, &source);
  for (uint64_t i = 0; c.direction == TENON_COPY_FILL && i < n; ++i) {
    source[i] = static_cast<unsigned char>(c.pattern >> 8 * (i % c.pattern_bytes));
  }
  const tenon_code_t code = ask("copy", [&] { return pass_on(c); });
  if (!readable || !read_back(device.device, c.to, begin, end - begin, &after)) return code;
  const uint64_t at = c.to_offset_bytes - begin;
  if (code == TENON_OK && std::memcmp(after.data() + at, source.data(), n) != 0) {
    const uint64_t first = static_cast<uint64_t>(
        std::mismatch(source.begin(), source.end(), after.begin() + static_cast<int64_t>(at))
            .first -
        source.begin());
    broken(c.direction == TENON_COPY_FILL               ? "R-C15"
           : c.direction == TENON_COPY_DEVICE_TO_DEVICE ? "R-C13"
                                                        : "R-C12",
           "copy", cat("byte ", first, " of ", n, " is wrong afterwards"));
  }
  if (std::memcmp(after.data(), before.data(), at) != 0 ||
      std::memcmp(after.data() + at + n, before.data() + at + n, after.size() - at - n) != 0) {
    broken("R-C14", "copy",
           cat("a copy of ", n, " bytes to offset ", c.to_offset_bytes,
               " changed bytes beside its range"));
  }
  return code;
}

}  // namespace tenon::validation
