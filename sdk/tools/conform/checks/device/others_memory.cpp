// Group C: memory that a device does not allocate for buffers: the caller's, pinned memory of the
// host, and memory of other libraries.
#include <sys/mman.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <tenon/abi/exchange.h>

#include "sdk/tools/conform/checks/device/device_check.h"
#include "sdk/tools/conform/checks/tables.h"
#include "sdk/tools/conform/fixtures/device/exchange_kinds.h"
#include "sdk/tools/conform/subject/names.h"

namespace tenon::conform {
namespace {

// ---- Imports ----

Outcome imports(Session& s, OpenDevice& d) {
  if (d.api().import == nullptr) return not_offered("import");
  constexpr size_t kPages = 1 << 16;
  auto* memory = static_cast<unsigned char*>(
      ::mmap(nullptr, kPages, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  if (memory == MAP_FAILED) return skipped("no memory to import");
  const Bytes bytes = pattern_bytes(kPages, 18);
  std::copy(bytes.begin(), bytes.end(), memory);
  ::mprotect(memory, kPages, PROT_READ);
  s.step("importing memory that may only be read");
  tenon_buffer_t* buffer = nullptr;
  const tenon_memory_import_t record = {sizeof record, 0, memory, kPages};
  const tenon_code_t code = d.api().import(d.api().self, d.device(), &record, &buffer);
  if (code == TENON_UNIMPLEMENTED) return not_offered("import of this memory");
  CONFORM_EXPECT(code == TENON_OK && buffer != nullptr, "import gives {}", code_text(code));
  CONFORM_TRY(d.holds(buffer, bytes, "an imported buffer"));
  tenon_buffer_t* copy = nullptr;
  CONFORM_TRY(d.alloc(kPages, &copy));
  CONFORM_EXPECT(d.between(copy, 0, buffer, 0, kPages) == TENON_OK,
                 "a copy from an imported buffer fails");
  CONFORM_TRY(d.holds(copy, bytes, "a copy of an imported buffer"));
  s.step("freeing an imported buffer");
  CONFORM_TRY(d.free(buffer));
  const std::string difference = first_difference(Bytes(memory, memory + kPages), bytes);
  CONFORM_EXPECT(difference.empty(), "imported memory after free: {}", difference);
  ::munmap(memory, kPages);
  return pass();
}

// What a device copies to memory that it may write is in that memory, and nothing around it is.
Outcome imports_to_write(Session& s, OpenDevice& d) {
  if (d.api().import == nullptr) return not_offered("import");
  constexpr size_t kBytes = 1 << 14, kMargin = 64;
  const Bytes before = pattern_bytes(kBytes + 2 * kMargin, 31), written = pattern_bytes(kBytes, 32);
  std::vector<uint64_t> words(before.size() / sizeof(uint64_t));
  auto* memory = reinterpret_cast<unsigned char*>(words.data());
  std::copy(before.begin(), before.end(), memory);
  s.step("importing memory to write to it");
  tenon_buffer_t* buffer = nullptr;
  const tenon_memory_import_t record = {sizeof record, TENON_IMPORT_WRITE, memory + kMargin,
                                        kBytes};
  const tenon_code_t code = d.api().import(d.api().self, d.device(), &record, &buffer);
  if (code == TENON_UNIMPLEMENTED) return not_offered("import of this memory");
  CONFORM_EXPECT(code == TENON_OK && buffer != nullptr, "import gives {}", code_text(code));
  CONFORM_TRY(d.holds(buffer, Bytes(before.begin() + kMargin, before.end() - kMargin),
                      "a buffer imported to be written"));
  s.step("writing an imported buffer");
  CONFORM_TRY(d.write(buffer, written));
  Bytes expected = before;
  std::copy(written.begin(), written.end(), expected.begin() + kMargin);
  const auto differs = [&](std::string_view when) -> Outcome {
    const std::string difference =
        first_difference(Bytes(memory, memory + expected.size()), expected);
    CONFORM_EXPECT(difference.empty(), "the imported memory {}: {}", when, difference);
    return pass();
  };
  CONFORM_TRY(differs("after a copy to its buffer"));
  CONFORM_TRY(d.free(buffer));
  return differs("after free");
}

// ---- Pinned memory ----

// Blocks of several sizes, all alive at once.
struct Pinned {
  unsigned char* data = nullptr;
  Bytes bytes;
};

Outcome alloc_pinned(OpenDevice& d, const tenon_device_info_t& info, size_t size, uint32_t seed,
                     Pinned* out) {
  void* data = nullptr;
  const tenon_code_t code = d.api().alloc_pinned(d.api().self, d.device(), size, &data);
  if (code == TENON_RESOURCE_EXHAUSTED) return skipped("there is no pinned memory left");
  CONFORM_EXPECT(code == TENON_OK && data != nullptr, "alloc_pinned of {} bytes gives {}", size,
                 code_text(code));
  CONFORM_EXPECT(reinterpret_cast<uintptr_t>(data) % info.alignment_bytes == 0,
                 "pinned memory is at {}, and the alignment is {}", data, info.alignment_bytes);
  out->data = static_cast<unsigned char*>(data);
  out->bytes = pattern_bytes(size, seed);
  std::copy(out->bytes.begin(), out->bytes.end(), out->data);
  return pass();
}

Outcome copies_pinned(OpenDevice& d, const Pinned& block) {
  const size_t size = block.bytes.size();
  tenon_buffer_t* buffer = nullptr;
  CONFORM_TRY(d.alloc(size, &buffer));
  CONFORM_EXPECT(d.to_device(buffer, 0, block.data, size) == TENON_OK,
                 "a copy from pinned memory fails{}", said());
  CONFORM_TRY(d.holds(buffer, block.bytes, "a buffer filled from pinned memory"));
  std::fill_n(block.data, size, static_cast<unsigned char>(0));
  CONFORM_EXPECT(d.to_host(block.data, buffer, 0, size) == TENON_OK,
                 "a copy to pinned memory fails{}", said());
  const std::string difference =
      first_difference(Bytes(block.data, block.data + size), block.bytes);
  CONFORM_EXPECT(difference.empty(), "pinned memory after a copy: {}", difference);
  return d.free(buffer);
}

Outcome pinned(Session& s, OpenDevice& d) {
  if (d.api().alloc_pinned == nullptr) return not_offered("alloc_pinned");
  CONFORM_EXPECT(d.api().free_pinned != nullptr, "there is alloc_pinned and no free_pinned");
  tenon_device_info_t info = {};
  info.size_bytes = sizeof info;
  CONFORM_EXPECT(d.api().info(d.api().self, d.ordinal(), &info) == TENON_OK, "info fails");
  std::vector<Pinned> blocks;
  for (size_t size : {0, 1, 64, 4096, 4096, 100'000}) {
    s.step(fmt::format("allocating {} bytes of pinned memory", size));
    const auto seed = static_cast<uint32_t>(blocks.size()) + 61;
    CONFORM_TRY(alloc_pinned(d, info, size, seed, &blocks.emplace_back()));
  }
  for (const Pinned& block : blocks) {
    s.step(fmt::format("copies of {} bytes of pinned memory", block.bytes.size()));
    const std::string difference =
        first_difference(Bytes(block.data, block.data + block.bytes.size()), block.bytes);
    CONFORM_EXPECT(difference.empty(), "pinned memory next to other blocks of it: {}", difference);
    CONFORM_TRY(copies_pinned(d, block));
  }
  for (const Pinned& block : blocks) {
    s.step("freeing pinned memory");
    const tenon_code_t code = d.api().free_pinned(d.api().self, d.device(), block.data);
    CONFORM_EXPECT(code == TENON_OK, "free_pinned gives {}", code_text(code));
  }
  return pass();
}

Outcome too_much_pinned(Session& s, OpenDevice& d) {
  if (d.api().alloc_pinned == nullptr) return not_offered("alloc_pinned");
  for (const uint64_t size : {UINT64_MAX, UINT64_MAX / 2, uint64_t{1} << 60}) {
    s.step(fmt::format("alloc_pinned of {} bytes", size));
    void* data = nullptr;
    const tenon_code_t code = d.api().alloc_pinned(d.api().self, d.device(), size, &data);
    CONFORM_EXPECT(code == TENON_RESOURCE_EXHAUSTED, "alloc_pinned of {} bytes gives {}", size,
                   code_text(code));
  }
  return pass();
}

// ---- Exchange ----

constexpr size_t kExchanged = 3 << 16, kOffset = 1 << 16;  // a multiple of any alignment

struct Exchange {
  const tenon_exchange_api_t* api = nullptr;
  OpenDevice* device = nullptr;

  tenon_code_t import(const tenon_native_memory_t& memory, tenon_buffer_t** out) const {
    return api->import_memory(api->self, device->device(), &memory, out);
  }
  tenon_code_t export_as(tenon_buffer_t* buffer, std::string_view kind,
                         tenon_native_memory_t* out) const {
    *out = {};
    out->size_bytes = sizeof *out;
    return api->export_memory(api->self, device->device(), buffer, {kind.data(), kind.size()}, out);
  }
};

Outcome exchange_of(Session& s, OpenDevice& d, Exchange* out, std::vector<std::string>* kinds) {
  out->api = static_cast<const tenon_exchange_api_t*>(s.table(TENON_EXCHANGE_ID));
  out->device = &d;
  if (out->api == nullptr) return not_offered(TENON_EXCHANGE_ID);
  CONFORM_TRY(has_required_slots(TENON_EXCHANGE_ID, out->api));
  s.step("asking for the kinds of handles");
  ExchangeKinds asked;
  CONFORM_TRY(ask_kinds(*out->api, d.ordinal(), &asked));
  *kinds = std::move(asked.memory);
  return pass();
}

// Before any device is open: a program that lists devices asks then.
Outcome kinds(Session& s) {
  const tenon_device_api_t* api = nullptr;
  uint32_t count = 0;
  CONFORM_TRY(find_devices(s, &api, &count));
  const auto* exchange = static_cast<const tenon_exchange_api_t*>(s.table(TENON_EXCHANGE_ID));
  if (exchange == nullptr) return not_offered(TENON_EXCHANGE_ID);
  CONFORM_TRY(has_required_slots(TENON_EXCHANGE_ID, exchange));
  s.step("asking for the kinds of handles of devices that are not open");
  for (uint32_t ordinal = 0; ordinal < count; ++ordinal) {
    ExchangeKinds first, again;
    CONFORM_TRY(ask_kinds(*exchange, ordinal, &first));
    CONFORM_TRY(ask_kinds(*exchange, ordinal, &again));
    CONFORM_EXPECT(first == again, "device {} gives other kinds when it is asked again", ordinal);
  }
  return pass();
}

// A second buffer of the same memory, from `offset` on.
Outcome second_buffer(const Exchange& x, tenon_native_memory_t memory, uint64_t offset,
                      tenon_buffer_t** out) {
  memory.offset_bytes += offset;
  memory.length_bytes -= offset;
  const tenon_code_t code = x.import(memory, out);
  if (code == TENON_UNIMPLEMENTED && offset != 0) return skipped("no import past the beginning");
  CONFORM_EXPECT(code == TENON_OK && *out != nullptr,
                 "import_memory of a handle that it gave, from byte {} on, gives {}{}", offset,
                 code_text(code), said());
  return pass();
}

Outcome is_same_memory(const Exchange& x, tenon_buffer_t* first,
                       const tenon_native_memory_t& memory, Bytes* bytes, uint64_t offset) {
  OpenDevice& d = *x.device;
  tenon_buffer_t* second = nullptr;
  CONFORM_TRY(second_buffer(x, memory, offset, &second));
  Bytes part(bytes->begin() + static_cast<ptrdiff_t>(offset), bytes->end()), got(part.size());
  CONFORM_EXPECT(d.to_host(got.data(), second, 0, got.size()) == TENON_OK,
                 "reading an imported handle fails{}", said());
  std::string difference = first_difference(got, part);
  CONFORM_EXPECT(difference.empty(), "an imported handle, from byte {} on: {}", offset, difference);
  const Bytes written = pattern_bytes(100, 77 + static_cast<uint32_t>(offset % 5));
  CONFORM_EXPECT(d.to_device(second, 8, written.data(), written.size()) == TENON_OK,
                 "writing an imported handle fails{}", said());
  std::ranges::copy(written, bytes->begin() + static_cast<ptrdiff_t>(offset) + 8);
  CONFORM_TRY(d.holds(first, *bytes, "a buffer that was written through its handle"));
  CONFORM_EXPECT(d.api().free(d.api().self, d.device(), second) == TENON_OK,
                 "freeing an imported handle fails{}", said());
  return d.holds(first, *bytes, "a buffer after an import of its handle was freed");
}

Outcome one_kind(Session& s, const Exchange& x, const std::string& kind) {
  Bytes bytes = pattern_bytes(kExchanged, 41);
  tenon_buffer_t* buffer = nullptr;
  CONFORM_TRY(alloc_filled(*x.device, bytes, &buffer));
  s.step(fmt::format("handles of the kind {}", kind));
  tenon_native_memory_t memory;
  const tenon_code_t code = x.export_as(buffer, kind, &memory);
  CONFORM_EXPECT(code == TENON_OK, "export_memory as {} gives {}{}", quoted(kind), code_text(code),
                 said());
  CONFORM_EXPECT(view(memory.kind) == kind, "a handle of the kind {} says {}", quoted(kind),
                 quoted(view(memory.kind)));
  CONFORM_EXPECT(memory.length_bytes == kExchanged, "a handle of {} bytes says {}", kExchanged,
                 memory.length_bytes);
  CONFORM_TRY(is_same_memory(x, buffer, memory, &bytes, 0));
  const Outcome at_offset = is_same_memory(x, buffer, memory, &bytes, kOffset);
  if (at_offset.verdict == Verdict::kFail) return at_offset;
  return x.device->free(buffer);
}

Outcome exchange(Session& s, OpenDevice& d) {
  Exchange x;
  std::vector<std::string> kinds;
  CONFORM_TRY(exchange_of(s, d, &x, &kinds));
  for (const std::string& kind : kinds) CONFORM_TRY(one_kind(s, x, kind));
  return pass();
}

// A length beyond the memory's end; a kind that does not exist.
Outcome exchange_refuses(Session& s, OpenDevice& d) {
  Exchange x;
  std::vector<std::string> kinds;
  CONFORM_TRY(exchange_of(s, d, &x, &kinds));
  tenon_buffer_t *buffer = nullptr, *made = nullptr;
  CONFORM_TRY(alloc_filled(d, pattern_bytes(kExchanged, 42), &buffer));
  tenon_native_memory_t memory;
  s.step("a kind that is not one");
  constexpr std::string_view kNone = "nonesuch.handle";
  tenon_code_t code = x.export_as(buffer, kNone, &memory);
  CONFORM_EXPECT(code == TENON_UNIMPLEMENTED, "export_memory as {} gives {}", quoted(kNone),
                 code_text(code));
  CONFORM_EXPECT(x.export_as(buffer, kinds.front(), &memory) == TENON_OK, "export_memory fails");
  const tenon_str_t known = memory.kind;
  memory.kind = {kNone.data(), kNone.size()};
  code = x.import(memory, &made);
  CONFORM_EXPECT(code == TENON_UNIMPLEMENTED, "import_memory as {} gives {}", quoted(kNone),
                 code_text(code));
  memory.kind = known;
  s.step("a handle with more bytes than its memory has");
  for (const uint64_t more : {uint64_t{1} << 20, UINT64_MAX - kExchanged}) {
    tenon_native_memory_t longer = memory;
    longer.length_bytes += more;
    code = x.import(longer, &made);
    CONFORM_EXPECT(code == TENON_OUT_OF_RANGE, "import_memory of {} bytes too much gives {}", more,
                   code_text(code));
  }
  return d.free(buffer);
}

constexpr Check kChecks[] = {
    {"R-C24", "import", on_each<imports>},
    {"R-C33", "import-to-write", on_each<imports_to_write>},
    {"R-C34", "pinned", on_each<pinned>},
    {"R-C35", "pinned-too-much", on_each<too_much_pinned>},
    {"R-C36", "exchange", on_each<exchange>},
    {"R-C37", "exchange-refuses", on_each<exchange_refuses>},
    {"R-C38", "kinds", kinds},
};

}  // namespace

std::span<const Check> device_others_memory_checks() {
  return kChecks;
}

}  // namespace tenon::conform
