// How many CPUs the process may use: the part of thread_pool.h that reads system files.
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "core/base/file.h"
#include "core/base/process/environment.h"
#include "core/base/process/thread_pool.h"
#include "core/base/str.h"

namespace tenon {
namespace {

constexpr uint32_t kCpusMax = 4096;

// The smallest quota from `folder` up to `root`: a parent's limit also binds its children.
template <typename ReadQuota>
uint32_t smallest_quota(std::string_view root, std::string_view path, ReadQuota read_quota) {
  uint32_t smallest = 0;
  std::string folder = join_path(root, path.empty() || path == "/" ? "" : path.substr(1));
  while (folder.size() >= root.size()) {
    uint32_t quota = read_quota(folder);
    if (quota != 0 && (smallest == 0 || quota < smallest)) smallest = quota;
    if (folder.size() <= root.size() + 1) break;
    folder = std::string(folder_of(folder));
  }
  return smallest;
}

uint32_t cpus_of(uint64_t quota, uint64_t period) {
  if (period == 0 || quota == 0) return 0;
  return static_cast<uint32_t>(std::clamp<uint64_t>((quota + period - 1) / period, 1, kCpusMax));
}

uint32_t read_v2(const std::string& folder) {
  Result<std::string> text = read_system_file(folder + "/cpu.max", 128);
  if (!text.ok()) return 0;
  std::vector<std::string_view> parts = split(*text, ' ');
  uint64_t quota = 0, period = 0;
  if (parts.size() != 2 || !parse_u64(parts[0], &quota) || !parse_u64(parts[1], &period))
    return 0;  // "max"
  return cpus_of(quota, period);
}

uint32_t read_v1(const std::string& folder) {
  Result<std::string> quota_text = read_system_file(folder + "/cpu.cfs_quota_us", 64);
  Result<std::string> period_text = read_system_file(folder + "/cpu.cfs_period_us", 64);
  uint64_t quota = 0, period = 0;
  if (!quota_text.ok() || !period_text.ok()) return 0;
  if (!parse_u64(*quota_text, &quota) || !parse_u64(*period_text, &period)) return 0;  // -1: none
  return cpus_of(quota, period);
}

}  // namespace

uint32_t cgroup_cpu_quota(std::string_view proc_self_cgroup, std::string_view root) {
  uint32_t smallest = 0;
  auto take = [&](uint32_t quota) {
    if (quota != 0 && (smallest == 0 || quota < smallest)) smallest = quota;
  };
  for (std::string_view line : split(proc_self_cgroup, '\n')) {
    size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos) continue;
    std::string_view controllers = line.substr(first + 1, second - first - 1),
                     path = line.substr(second + 1);
    if (controllers.empty()) {
      take(smallest_quota(root, path, read_v2));
      continue;
    }
    for (std::string_view controller : split(controllers, ',')) {
      if (controller == "cpu") take(smallest_quota(join_path(root, controllers), path, read_v1));
      if (controller == "cpu") take(smallest_quota(join_path(root, "cpu"), path, read_v1));
    }
  }
  return smallest;
}

uint32_t available_cpus() {
  uint32_t count = 0;
  std::vector<unsigned char> mask(kCpusMax / 8);
  if (sched_getaffinity(0, mask.size(), reinterpret_cast<cpu_set_t*>(mask.data())) == 0) {
    for (unsigned char byte : mask) count += static_cast<uint32_t>(__builtin_popcount(byte));
  }
  if (count == 0) count = static_cast<uint32_t>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  if (Result<std::string> text = read_system_file("/proc/self/cgroup"); text.ok()) {
    uint32_t quota = cgroup_cpu_quota(*text, "/sys/fs/cgroup");
    if (quota != 0) count = std::min(count, quota);
  }
  return count;
}

}  // namespace tenon
