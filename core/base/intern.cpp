#include "core/base/intern.h"

#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "core/base/process/log.h"

namespace tenon {
namespace {

// Texts are never freed. Readers reach an entry through an atomic slot that is written once. A
// table that became too small is kept, since a reader may still be using it; the old tables
// together are smaller than the newest.
struct Entry {
  uint64_t hash;
  std::string_view text;
  tenon_sym_t symbol;
};

struct Table {
  explicit Table(size_t capacity_, Table* smaller_)
      : capacity(capacity_), smaller(smaller_), slots(new std::atomic<const Entry*>[capacity_]()) {}
  size_t capacity;  // power of two
  Table* smaller;   // the table it replaced, kept for readers
  std::unique_ptr<std::atomic<const Entry*>[]> slots;
};

constexpr size_t kFirstCapacity = 4096;
constexpr uint32_t kBlockBits = 12, kBlockSize = 1u << kBlockBits, kBlockCount = 1u << 16;

struct Interner {
  std::mutex mutex;
  std::atomic<Table*> table{new Table(kFirstCapacity, nullptr)};
  std::atomic<std::atomic<const Entry*>*> blocks[kBlockCount] = {};
  uint32_t count = 1;  // 0 is the empty name
};

Interner& interner() {
  static Interner* instance = new Interner;
  return *instance;
}

const Entry* find(const Table& table, uint64_t hash, std::string_view text) {
  for (size_t i = hash & (table.capacity - 1);; i = (i + 1) & (table.capacity - 1)) {
    const Entry* entry = table.slots[i].load(std::memory_order_acquire);
    if (entry == nullptr) return nullptr;
    if (entry->hash == hash && entry->text == text) return entry;
  }
}

void insert(Table& table, const Entry* entry) {
  size_t i = entry->hash & (table.capacity - 1);
  while (table.slots[i].load(std::memory_order_relaxed) != nullptr)
    i = (i + 1) & (table.capacity - 1);
  table.slots[i].store(entry, std::memory_order_release);
}

void grow_if_needed(Interner& names) {
  Table* old = names.table.load(std::memory_order_relaxed);
  if (names.count * size_t{2} < old->capacity) return;
  Table* bigger = new Table(old->capacity * 2, old);
  for (size_t i = 0; i < old->capacity; ++i) {
    if (const Entry* entry = old->slots[i].load(std::memory_order_relaxed)) insert(*bigger, entry);
  }
  names.table.store(bigger, std::memory_order_release);
}

tenon_sym_t add(Interner& names, uint64_t hash, std::string_view text) {
  std::lock_guard lock(names.mutex);
  if (const Entry* entry = find(*names.table.load(std::memory_order_relaxed), hash, text))
    return entry->symbol;
  TENON_CHECK(names.count < uint64_t{kBlockCount} * kBlockSize, "{} names were interned",
              names.count);
  char* copy = new char[text.size() + 1];
  std::memcpy(copy, text.data(), text.size());
  copy[text.size()] = '\0';
  const Entry* entry = new Entry{hash, std::string_view(copy, text.size()), names.count++};
  auto& block = names.blocks[entry->symbol >> kBlockBits];
  if (block.load(std::memory_order_relaxed) == nullptr) {
    block.store(new std::atomic<const Entry*>[kBlockSize](), std::memory_order_release);
  }
  block.load(std::memory_order_relaxed)[entry->symbol & (kBlockSize - 1)].store(
      entry, std::memory_order_release);
  grow_if_needed(names);
  insert(*names.table.load(std::memory_order_relaxed), entry);
  return entry->symbol;
}

}  // namespace

tenon_sym_t find_interned(std::string_view text) {
  if (text.empty()) return 0;
  uint64_t hash = XXH3_64bits(text.data(), text.size());
  const Entry* entry = find(*interner().table.load(std::memory_order_acquire), hash, text);
  return entry == nullptr ? 0 : entry->symbol;
}

tenon_sym_t intern(std::string_view text) {
  if (text.empty()) return 0;
  Interner& names = interner();
  uint64_t hash = XXH3_64bits(text.data(), text.size());
  if (const Entry* entry = find(*names.table.load(std::memory_order_acquire), hash, text))
    return entry->symbol;
  return add(names, hash, text);
}

std::string_view sym_text(tenon_sym_t symbol) {
  if (symbol == 0 || (symbol >> kBlockBits) >= kBlockCount) return {};
  auto* block = interner().blocks[symbol >> kBlockBits].load(std::memory_order_acquire);
  if (block == nullptr) return {};
  const Entry* entry = block[symbol & (kBlockSize - 1)].load(std::memory_order_acquire);
  return entry == nullptr ? std::string_view() : entry->text;
}

}  // namespace tenon
