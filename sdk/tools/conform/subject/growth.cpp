#include "sdk/tools/conform/subject/growth.h"

#include <unistd.h>

#include <algorithm>

#include "sdk/tools/conform/subject/names.h"
#include "sdk/tools/conform/subject/process_state.h"

namespace tenon::conform {
namespace {

// The least growth per call that counts as a leak: smaller than any object, but larger than what a
// growing container or a log keeps per call.
constexpr uint64_t kLeastBytes = 64;
// Address space comes in larger pieces: allocator chunks, and stacks that are kept.
constexpr uint64_t kLeastPages = 16;
constexpr int kParts = 4;

struct Holdings {
  uint64_t bytes = 0, space = 0, threads = 0, descriptors = 0;
};

size_t entries(const char* folder) {
  return list_folder(folder).size();
}

Holdings holdings_now() {
  Holdings now;
  now.bytes = allocated_bytes();
  const std::string text = read_system_file("/proc/self/statm");
  (void)parse_u64(std::string_view(text).substr(0, text.find(' ')), &now.space);
  now.threads = entries("/proc/self/task");
  now.descriptors = entries("/proc/self/fd");
  return now;
}

uint64_t grown(uint64_t before, uint64_t after) {
  return after > before ? after - before : 0;
}

}  // namespace

Outcome leaves_nothing(int rounds, std::string_view what, const std::function<Outcome()>& once) {
  Holdings seen[kParts];
  for (int part = 0; part < kParts; ++part) {
    for (int round = 0; round < rounds; ++round) CONFORM_TRY(once());
    seen[part] = holdings_now();
  }
  const auto count = static_cast<uint64_t>(rounds);
  // The growth in the part in which it grew least.
  const auto least = [&](uint64_t Holdings::* field) {
    uint64_t out = UINT64_MAX;
    for (int part = 1; part < kParts; ++part)
      out = std::min(out, grown(seen[part - 1].*field, seen[part].*field));
    return out;
  };
  CONFORM_EXPECT(least(&Holdings::threads) < count, "after {} {} there are {} threads more", rounds,
                 what, least(&Holdings::threads));
  CONFORM_EXPECT(least(&Holdings::descriptors) < count,
                 "after {} {} there are {} file descriptors more", rounds, what,
                 least(&Holdings::descriptors));
  CONFORM_EXPECT(least(&Holdings::bytes) < count * kLeastBytes,
                 "after {} {} {} bytes more of the process are allocated", rounds, what,
                 least(&Holdings::bytes));
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  CONFORM_EXPECT(least(&Holdings::space) < count * kLeastPages,
                 "after {} {} the process has {} KiB more of address space", rounds, what,
                 least(&Holdings::space) * page >> 10);
  return pass();
}

}  // namespace tenon::conform
