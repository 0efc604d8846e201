#include "device.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <new>

#include "free_blocks.h"
#include "tenon/abi/memory.h"
#include "tenon/cpp/copy.hpp"
#include "tenon/cpp/plugin.hpp"

// The cpu is always open, so there is no state.
struct tenon_device_t {
  std::atomic<uint64_t> used_bytes{0};
  std::atomic<uint64_t> peak_bytes{0};
};

namespace tenon::cpu {
namespace {

constexpr uint64_t kHugePageBytes = 2 << 20;

tenon_device_t g_device;

uint64_t physical_bytes() {
  static const uint64_t bytes = [] {
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(page) : 0;
  }();
  return bytes;
}

Status count(void*, uint32_t* out_count) {
  Isa isa;
  TENON_TRY(current_isa(isa));
  *out_count = 1;
  return {};
}

Status check_ordinal(uint32_t ordinal) {
  return ordinal == 0 ? Status()
                      : fail(TENON_NOT_FOUND, cat("There is one cpu device, cpu:0; cpu:", ordinal,
                                                  " was asked for."));
}

Status info(void*, uint32_t ordinal, tenon_device_info_t* out) {
  TENON_TRY(check_ordinal(ordinal));
  Isa isa;
  TENON_TRY(current_isa(isa));
  static const std::string target = target_text(isa);
  static const std::string description = cat(processor_name(), ", ", name_of(isa));
  tenon_device_info_t made = {};
  made.threading = TENON_THREADING_FREE;
  made.kind = str("cpu");
  made.description = str(description);
  made.target = str(target);
  made.memory_bytes = physical_bytes();
  made.alignment_bytes = kAlignmentBytes;
  return give_record(out, made);
}

Status open(void*, uint32_t ordinal, tenon_device_t** out_device) {
  TENON_TRY(check_ordinal(ordinal));
  Isa isa;
  TENON_TRY(current_isa(isa));
  *out_device = &g_device;
  return {};
}

Status close(void*, tenon_device_t*) {
  return {};
}

// Records of imported memory that are free, of one thread: a call of a small program imports its
// arrays, and the system would take longer than its kernel. A thread that has ended its own still
// imports and frees, in what ends after them: then the list is gone, and only the flag is there.
thread_local bool t_free_records_ended = false;
class FreeRecords {
 public:
  ~FreeRecords() {
    t_free_records_ended = true;
    for (; count_ != 0; --count_) {
      delete records_[count_ - 1];
    }
  }
  tenon_buffer_t* take() {
    if (t_free_records_ended || count_ == 0) {
      return new (std::nothrow) tenon_buffer_t;
    }
    return records_[--count_];
  }
  void give_back(tenon_buffer_t* record) {
    if (t_free_records_ended || count_ == std::size(records_)) {
      delete record;
    } else {
      records_[count_++] = record;
    }
  }

 private:
  tenon_buffer_t* records_[128] = {};
  uint32_t count_ = 0;
};
thread_local FreeRecords t_free_records;

// Memory of a buffer, and its record: after the memory if it is small, so that a call of a small
// program allocates once.
constexpr uint64_t kSmallBytes = 4096;

tenon_buffer_t* make_buffer(void* block, char* data, uint64_t rounded, uint64_t size_bytes) {
  if (size_bytes > kSmallBytes) return new (std::nothrow) tenon_buffer_t{data, size_bytes, block};
  return new (data + rounded) tenon_buffer_t{data, size_bytes, block};
}

FreeBlocks g_free_blocks;

uint64_t alignment_of(uint64_t size_bytes) {
  return size_bytes >= 2 * kHugePageBytes ? kHugePageBytes : kAlignmentBytes;
}
// A multiple of the alignment, never 0: the last vector may be read whole, past the last element.
uint64_t rounded_size(uint64_t size_bytes) {
  return (size_bytes + kAlignmentBytes) & ~(kAlignmentBytes - 1);
}
uint64_t block_bytes(uint64_t size_bytes) {
  const uint64_t record = size_bytes > kSmallBytes ? 0 : sizeof(tenon_buffer_t);
  return rounded_size(size_bytes) + record + alignment_of(size_bytes);
}

// Aligned by hand: the C library does not find memory that posix_memalign gave and that was freed
// when the same size is asked for again, so that a loop of large results would grow.
void* block_for(uint64_t size_bytes) {
  const uint64_t bytes = block_bytes(size_bytes);
  if (void* const kept = g_free_blocks.take(bytes)) return kept;
  void* const block = std::malloc(bytes);
  if (block) return block;
  g_free_blocks.release();
  return std::malloc(bytes);
}

Status alloc(void*, tenon_device_t* device, uint64_t size_bytes, tenon_buffer_t** out_buffer) {
  const uint64_t limit = physical_bytes();
  // Larger than the machine's memory: the system would promise it and kill the process later.
  if (limit != 0 && size_bytes > limit) {
    return fail(TENON_RESOURCE_EXHAUSTED, cat("The cpu device was asked for ", size_bytes,
                                              " bytes; this machine has ", limit, "."));
  }
  const uint64_t align = alignment_of(size_bytes), rounded = rounded_size(size_bytes);
  void* const block = block_for(size_bytes);
  if (!block) {
    return fail(TENON_RESOURCE_EXHAUSTED,
                cat("There are not ", size_bytes, " bytes of memory left for the cpu device."));
  }
  const auto address = reinterpret_cast<uintptr_t>(block);
  char* const data = static_cast<char*>(block) + (align - address % align) % align;
  if (align == kHugePageBytes) {
    madvise(data, rounded, MADV_HUGEPAGE);  // For speed only; refusal is fine.
  }
  tenon_buffer_t* buffer = make_buffer(block, data, rounded, size_bytes);
  if (!buffer) {
    ::free(block);
    return fail(TENON_RESOURCE_EXHAUSTED, "There is no memory left for a buffer's record.");
  }
  const uint64_t used = device->used_bytes.fetch_add(size_bytes) + size_bytes;
  uint64_t peak = device->peak_bytes.load();
  while (used > peak && !device->peak_bytes.compare_exchange_weak(peak, used)) {
  }
  *out_buffer = buffer;
  return {};
}

Status free_buffer(void*, tenon_device_t* device, tenon_buffer_t* buffer) {
  if (buffer && !buffer->block) {
    t_free_records.give_back(buffer);
    return {};
  }
  if (buffer) {
    device->used_bytes -= buffer->size_bytes;
    const bool small = buffer->size_bytes <= kSmallBytes;
    g_free_blocks.give_back(buffer->block, block_bytes(buffer->size_bytes));
    if (small) return {};  // the record was there
  }
  delete buffer;
  return {};
}

Status copy(void*, tenon_device_t*, const tenon_copy_t* c) {
  TENON_TRY(check_copy(*c, c->from ? c->from->size_bytes : 0, c->to ? c->to->size_bytes : 0));
  tenon_copy_perform(c, c->from ? c->from->data : nullptr, c->to ? c->to->data : nullptr);
  return {};
}

Status map(void*, tenon_device_t*, tenon_buffer_t* buffer, void** out_data) {
  *out_data = buffer->data;
  return {};
}

Status import(void*, tenon_device_t*, const tenon_memory_import_t* import,
              tenon_buffer_t** out_buffer) {
  // Generated code reads vectors from any address, but elements only from their natural alignment.
  if (reinterpret_cast<uintptr_t>(import->data) % alignof(uint64_t) != 0) {
    return fail(TENON_UNIMPLEMENTED, "The memory is not aligned to 8 bytes; it has to be copied.");
  }
  tenon_buffer_t* const record = t_free_records.take();
  if (!record) {
    return fail(TENON_RESOURCE_EXHAUSTED, "There is no memory left for a buffer's record.");
  }
  *record = {static_cast<char*>(import->data), import->length_bytes, nullptr};
  *out_buffer = record;
  return {};
}

Status memory(void*, tenon_device_t* device, uint64_t* out_used, uint64_t* out_peak) {
  *out_used = device->used_bytes;
  *out_peak = device->peak_bytes;
  return {};
}

}  // namespace

namespace {
const tenon_host_memory_t* host_memory() {
  static const auto* table = context().query<tenon_host_memory_t>(TENON_HOST_MEMORY_ID);
  return table;
}
}  // namespace

// An older host does not count memory.
Status count_memory(uint64_t bytes, std::string_view what) {
  const tenon_host_memory_t* memory = host_memory();
  return memory ? Status(memory->reserve(memory->self, bytes, str(what))) : Status();
}
void return_memory(uint64_t bytes) {
  if (const tenon_host_memory_t* memory = host_memory()) {
    memory->give_back(memory->self, bytes);
  }
}

Status current_isa(Isa& out) {
  struct Choice {
    std::optional<Isa> isa;
    std::string why;
  };
  static const Choice choice = [] {
    Choice made;
    made.isa = chosen_isa(setting("TENON_CPU_ISA"), made.why);
    return made;
  }();
  if (!choice.isa) {
    return fail(TENON_INVALID_ARGUMENT, choice.why + ".");
  }
  out = *choice.isa;
  return {};
}

const tenon_device_api_t kDeviceTable = {sizeof(tenon_device_api_t),
                                         nullptr,
                                         entry<count>,
                                         entry<info>,
                                         entry<open>,
                                         entry<close>,
                                         entry<alloc>,
                                         entry<free_buffer>,
                                         entry<copy>,
                                         entry<map>,
                                         entry<import>,
                                         entry<memory>};

}  // namespace tenon::cpu
