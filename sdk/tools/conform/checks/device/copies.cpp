// Group C: copies and fills.
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "sdk/tools/conform/checks/device/device_check.h"

#include "sdk/tools/conform/checks/tables.h"
#include "sdk/tools/conform/fixtures/device/open_device.h"
#include "sdk/tools/conform/subject/session.h"

namespace tenon::conform {
namespace {

constexpr size_t kSizes[] = {1,  2,  3,  4,  5,   7,   8,   9,   15,  16,  17,   31,  32,
                             33, 63, 64, 65, 100, 127, 128, 129, 255, 257, 1000, 4095};

Outcome round_trip(Session& s, OpenDevice& d) {
  const Bytes source = pattern_bytes(2 * kBufferBytes, 5);
  tenon_buffer_t* buffer = nullptr;
  CONFORM_TRY(d.alloc(2 * kBufferBytes, &buffer));
  for (size_t size : kSizes) {
    for (size_t offset : {0, 1, 2, 3, 4, 8, 63, 64, 65, 4096}) {
      const size_t shift = (size + offset) % 17;  // varies the alignment of host memory
      s.step(fmt::format("a copy of {} bytes to offset {} and back", size, offset));
      Bytes got(size + shift, 0xaa);
      CONFORM_EXPECT(d.to_device(buffer, offset, source.data() + shift, size) == TENON_OK,
                     "a copy of {} bytes to offset {} fails", size, offset);
      CONFORM_EXPECT(d.to_host(got.data() + shift, buffer, offset, size) == TENON_OK,
                     "a copy of {} bytes from offset {} fails", size, offset);
      const Bytes expected(source.begin() + static_cast<ptrdiff_t>(shift),
                           source.begin() + static_cast<ptrdiff_t>(shift + size));
      got.erase(got.begin(), got.begin() + static_cast<ptrdiff_t>(shift));
      const std::string difference = first_difference(got, expected);
      CONFORM_EXPECT(difference.empty(), "{} bytes at offset {} came back wrong: {}", size, offset,
                     difference);
    }
  }
  return pass();
}

// `expected` with `length` bytes of `from` placed at `at`.
void overlay(Bytes& expected, size_t at, const Bytes& from, size_t from_at, size_t length) {
  std::copy_n(from.begin() + static_cast<ptrdiff_t>(from_at), length,
              expected.begin() + static_cast<ptrdiff_t>(at));
}

Outcome between_buffers(Session& s, OpenDevice& d) {
  const Bytes a_bytes = pattern_bytes(kBufferBytes, 6);
  Bytes b_bytes = pattern_bytes(kBufferBytes, 7);
  tenon_buffer_t *a = nullptr, *b = nullptr;
  CONFORM_TRY(alloc_filled(d, a_bytes, &a));
  CONFORM_TRY(alloc_filled(d, b_bytes, &b));
  for (size_t size : kSizes) {
    const size_t from = (size * 13) % (kBufferBytes - size + 1),
                 to = (size * 29) % (kBufferBytes - size + 1);
    s.step(fmt::format("a copy of {} bytes between buffers", size));
    const tenon_code_t code = d.between(b, to, a, from, size);
    CONFORM_EXPECT(code == TENON_OK, "a copy of {} bytes between buffers gives {}", size,
                   code_text(code));
    overlay(b_bytes, to, a_bytes, from, size);
    CONFORM_TRY(d.holds(b, b_bytes, fmt::format("after {} bytes from {} to {}", size, from, to)));
  }
  s.step("a copy inside one buffer");
  CONFORM_EXPECT(d.between(b, 2048, b, 0, 1024) == TENON_OK,
                 "a copy between parts of one buffer fails");
  overlay(b_bytes, 2048, Bytes(b_bytes), 0, 1024);
  CONFORM_TRY(d.holds(b, b_bytes, "after a copy between parts of one buffer"));
  for (const auto& [from, to] : {std::pair<size_t, size_t>{0, 600}, {600, 0}, {1200, 600}}) {
    s.step("a copy between neighbouring parts of one buffer");
    const tenon_code_t code = d.between(b, to, b, from, 600);
    CONFORM_EXPECT(code == TENON_OK, "a copy of 600 bytes from {} to {} of one buffer gives {}",
                   from, to, code_text(code));
    overlay(b_bytes, to, Bytes(b_bytes), from, 600);
    CONFORM_TRY(
        d.holds(b, b_bytes,
                fmt::format("after a copy of 600 bytes from {} to {} of one buffer", from, to)));
  }
  return d.holds(a, a_bytes, "the source of the copies");
}

// A read-only source: writing to it crashes, even if the bytes stay the same.
Outcome source_is_only_read(Session& s, OpenDevice& d, tenon_buffer_t* buffer) {
  constexpr size_t kPage = 1 << 16;
  void* memory = ::mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return skipped("no memory that may only be read");
  const Bytes bytes = pattern_bytes(256, 22);
  std::memcpy(memory, bytes.data(), bytes.size());
  ::mprotect(memory, kPage, PROT_READ);
  s.step("a copy from host memory that may only be read");
  const tenon_code_t code = d.to_device(buffer, 0, memory, bytes.size());
  CONFORM_EXPECT(code == TENON_OK, "a copy from host memory that may only be read gives {}",
                 code_text(code));
  CONFORM_TRY(d.holds(buffer, bytes, "after a copy from host memory that may only be read"));
  ::munmap(memory, kPage);
  return pass();
}

Outcome copies_range_alone(Session& s, OpenDevice& d) {
  constexpr size_t kBefore = 40, kLength = 100;
  const Bytes around = pattern_bytes(256, 8), inner = pattern_bytes(kLength, 9);
  tenon_buffer_t* buffer = nullptr;
  CONFORM_TRY(alloc_filled(d, around, &buffer));
  s.step("writing the middle of a buffer");
  CONFORM_EXPECT(d.to_device(buffer, kBefore, inner.data(), kLength) == TENON_OK,
                 "a copy into the middle of a buffer fails");
  Bytes expected = around;
  overlay(expected, kBefore, inner, 0, kLength);
  CONFORM_TRY(d.holds(buffer, expected, "around a copy to the device"));
  s.step("reading the middle of a buffer");
  Bytes host(256, 0x5a), host_expected(256, 0x5a);
  CONFORM_EXPECT(d.to_host(host.data() + 7, buffer, kBefore, kLength) == TENON_OK,
                 "a copy from the middle of a buffer fails");
  overlay(host_expected, 7, inner, 0, kLength);
  const std::string difference = first_difference(host, host_expected);
  CONFORM_EXPECT(difference.empty(), "host memory around a copy: {}", difference);
  s.step("filling the middle of a buffer");
  CONFORM_EXPECT(d.fill(buffer, kBefore, kLength, 0x11, 1) == TENON_OK,
                 "a fill of the middle of a buffer fails");
  overlay(expected, kBefore, Bytes(kLength, 0x11), 0, kLength);
  CONFORM_TRY(d.holds(buffer, expected, "around a fill"));
  return source_is_only_read(s, d, buffer);
}

Outcome fills(Session& s, OpenDevice& d) {
  constexpr uint64_t kPattern = 0x8877665544332211ull;
  Bytes expected = pattern_bytes(512, 10);
  tenon_buffer_t* buffer = nullptr;
  CONFORM_TRY(alloc_filled(d, expected, &buffer));
  for (uint32_t width : {1u, 2u, 4u, 8u}) {
    // Also at offsets that are not multiples of the pattern, which restarts at each of them, and
    // over as many bytes as a wider pattern would have.
    for (size_t offset :
         {size_t{0}, size_t{8}, size_t{24}, size_t{3} * width, size_t{1}, size_t{6}, size_t{13}}) {
      for (size_t repeats : {size_t{0}, size_t{1}, size_t{2}, size_t{16}, size_t{17}}) {
        s.step(fmt::format("a fill with {} bytes, {} times at {}", width, repeats, offset));
        const tenon_code_t code = d.fill(buffer, offset, repeats * width, kPattern, width);
        CONFORM_EXPECT(code == TENON_OK, "a fill with {} bytes, {} times at {} gives {}", width,
                       repeats, offset, code_text(code));
        for (size_t i = 0; i < repeats * width; ++i)
          expected[offset + i] = static_cast<unsigned char>(kPattern >> 8 * (i % width));
        CONFORM_TRY(d.holds(
            buffer, expected,
            fmt::format("after a fill with {} bytes, {} times at {}", width, repeats, offset)));
      }
    }
  }
  return pass();
}

Outcome fill_widths(Session& s, OpenDevice& d) {
  tenon_buffer_t* buffer = nullptr;
  CONFORM_TRY(d.alloc(kBufferBytes, &buffer));
  for (uint32_t width : {0u, 3u, 5u, 6u, 7u, 16u, UINT32_MAX}) {
    s.step(fmt::format("a fill with a pattern of {} bytes", width));
    const tenon_code_t code = d.fill(buffer, 0, 240, 1, width);
    CONFORM_EXPECT(code == TENON_INVALID_ARGUMENT, "a fill with a pattern of {} bytes gives {}",
                   width, code_text(code));
  }
  return pass();
}

struct Range {
  uint64_t offset, length;
};
constexpr Range kOutside[] = {{256, 1},
                              {0, 257},
                              {255, 2},
                              {257, 0},
                              {1, 256},
                              {UINT64_MAX, 1},
                              {8, UINT64_MAX - 7},
                              {UINT64_MAX - 7, 8},
                              {128, UINT64_MAX - 64}};

Outcome outside(Session& s, OpenDevice& d) {
  const Bytes a_bytes = pattern_bytes(256, 11), b_bytes = pattern_bytes(256, 12);
  tenon_buffer_t *a = nullptr, *b = nullptr;
  CONFORM_TRY(alloc_filled(d, a_bytes, &a));
  CONFORM_TRY(alloc_filled(d, b_bytes, &b));
  Bytes host(1024, 0x5a);
  for (const Range& r : kOutside) {
    const std::string what = fmt::format("{} bytes at {} of a buffer of 256", r.length, r.offset);
    auto judge = [&](std::string_view how, tenon_code_t code) -> Outcome {
      CONFORM_EXPECT(code == TENON_OUT_OF_RANGE, "{} {} gives {}", how, what, code_text(code));
      return pass();
    };
    s.step("copying " + what);
    CONFORM_TRY(judge("writing", d.to_device(a, r.offset, host.data(), r.length)));
    CONFORM_TRY(judge("reading", d.to_host(host.data(), a, r.offset, r.length)));
    CONFORM_TRY(judge("copying to another buffer", d.between(b, 0, a, r.offset, r.length)));
    CONFORM_TRY(judge("copying from another buffer to", d.between(b, r.offset, a, 0, r.length)));
    CONFORM_TRY(judge("filling", d.fill(a, r.offset, r.length, 1, 1)));
  }
  CONFORM_EXPECT(host == Bytes(1024, 0x5a), "a copy that failed wrote host memory");
  CONFORM_TRY(d.holds(a, a_bytes, "a buffer, after copies that failed"));
  return d.holds(b, b_bytes, "another buffer, after copies that failed");
}

Outcome empty_copies(Session& s, OpenDevice& d) {
  const Bytes bytes = pattern_bytes(256, 13);
  tenon_buffer_t *buffer = nullptr, *empty = nullptr;
  CONFORM_TRY(alloc_filled(d, bytes, &buffer));
  CONFORM_TRY(d.alloc(0, &empty));
  for (tenon_buffer_t* b : {buffer, empty}) {
    const uint64_t end = b == buffer ? 256 : 0;
    for (uint64_t offset : {uint64_t{0}, end}) {
      s.step(fmt::format("copies of 0 bytes at {}", offset));
      CONFORM_EXPECT(d.to_device(b, offset, nullptr, 0) == TENON_OK,
                     "writing 0 bytes at {} of {} fails", offset, end);
      CONFORM_EXPECT(d.to_host(nullptr, b, offset, 0) == TENON_OK,
                     "reading 0 bytes at {} of {} fails", offset, end);
      CONFORM_EXPECT(d.between(b, offset, buffer, 256, 0) == TENON_OK,
                     "copying 0 bytes to {} of {} fails", offset, end);
      CONFORM_EXPECT(d.fill(b, offset, 0, 1, 4) == TENON_OK, "filling 0 bytes at {} of {} fails",
                     offset, end);
    }
  }
  return d.holds(buffer, bytes, "a buffer, after copies of 0 bytes");
}

Outcome complete_on_return(Session& s, OpenDevice& d) {
  constexpr size_t kSize = size_t{1} << 20;
  tenon_buffer_t* buffer = nullptr;
  CONFORM_TRY(d.alloc(kSize, &buffer));
  for (uint32_t round = 0; round < 20; ++round) {
    const Bytes bytes = pattern_bytes(kSize, round);
    Bytes source = bytes;
    s.step("changing the source of a copy that returned");
    CONFORM_TRY(d.write(buffer, source));
    std::fill(source.begin(), source.end(), static_cast<unsigned char>(0xee));
    CONFORM_TRY(d.holds(buffer, bytes, "a buffer whose source changed after the copy"));
  }
  return pass();
}

Outcome unknown_direction(Session& s, OpenDevice& d) {
  tenon_buffer_t *a = nullptr, *b = nullptr;
  CONFORM_TRY(d.alloc(256, &a));
  CONFORM_TRY(d.alloc(256, &b));
  Bytes host(512, 0);
  for (uint32_t direction : {0u, 5u, 99u, UINT32_MAX}) {
    auto copy = sized<tenon_copy_t>();
    copy.direction = direction;
    copy.from = a;
    copy.to = b;
    copy.length_bytes = 64;
    copy.host_from = host.data();
    copy.host_to = host.data() + 256;
    copy.pattern_bytes = 1;
    s.step(fmt::format("a copy with direction {}", direction));
    const tenon_code_t code = d.api().copy(d.api().self, d.device(), &copy);
    CONFORM_EXPECT(code == TENON_INVALID_ARGUMENT, "a copy with direction {} gives {}", direction,
                   code_text(code));
  }
  return pass();
}

Outcome large_copies(Session& s, OpenDevice& d) {
  constexpr size_t kSize = (size_t{24} << 20) + 13;
  const Bytes bytes = pattern_bytes(kSize, 14);
  tenon_buffer_t *a = nullptr, *b = nullptr;
  s.step("copies of 24 MiB");
  CONFORM_TRY(alloc_filled(d, bytes, &a));
  CONFORM_TRY(d.alloc(kSize, &b));
  CONFORM_EXPECT(d.between(b, 0, a, 0, kSize) == TENON_OK,
                 "a copy of {} bytes between buffers fails", kSize);
  return d.holds(b, bytes, fmt::format("{} bytes", kSize));
}

constexpr Check kChecks[] = {
    {"R-C12", "copy-round-trip", on_each<round_trip>, true},
    {"R-C13", "copy-between", on_each<between_buffers>},
    {"R-C14", "copy-range", on_each<copies_range_alone>},
    {"R-C15", "fill", on_each<fills>},
    {"R-C16", "fill-width", on_each<fill_widths>},
    {"R-C17", "copy-outside", on_each<outside>},
    {"R-C18", "copy-empty", on_each<empty_copies>},
    {"R-C19", "copy-complete", on_each<complete_on_return>},
    {"R-C20", "copy-direction", on_each<unknown_direction>},
    {"R-C28", "copy-large", on_each<large_copies>},
};

}  // namespace

std::span<const Check> device_copy_checks() {
  return kChecks;
}

}  // namespace tenon::conform
