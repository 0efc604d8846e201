#include "recorder.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "tenon/cpp/plugin.hpp"

namespace tenon::mesh {
namespace {

constexpr size_t kFileBytes = sizeof(flight::Head) + flight::kRecords * sizeof(flight::Record);

template <size_t N>
void put(char (&to)[N], std::string_view text) {
  const size_t length = std::min(text.size(), N - 1);
  std::memcpy(to, text.data(), length);
  std::memset(to + length, 0, N - length);
}

int64_t clock_ns(clockid_t clock) {
  timespec now = {};
  (void)clock_gettime(clock, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// A folder of this user alone: others could put a link where the file will be.
bool make_private(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return false;
  struct stat is = {};
  return ::lstat(path.c_str(), &is) == 0 && S_ISDIR(is.st_mode) && is.st_uid == ::geteuid() &&
         (is.st_mode & 022) == 0;
}

// The processes that a launcher starts on a machine have one parent.
std::string folder_of_job() {
  const char* temporary = std::getenv("TMPDIR");
  const std::string base = cat(temporary == nullptr || *temporary == '\0' ? "/tmp" : temporary,
                               "/tenon-flight-", ::geteuid());
  if (!make_private(base)) return {};
  std::string job = cat(base, "/", ::getppid());
  return make_private(job) ? job : std::string();
}

}  // namespace

void Recorder::close() {
  if (head_ == nullptr) return;
  const bool is_own = head_->process == static_cast<uint32_t>(::getpid());  // not a forked child
  (void)::munmap(std::exchange(head_, nullptr), kFileBytes);
  if (keeps_ || !is_own) return;
  (void)::unlink(path_.c_str());
  (void)::rmdir(folder_.c_str());  // fails while other ranks have files there
}

void Recorder::open(uint32_t rank, uint32_t rank_count, std::string_view engine) {
  const std::string_view chosen = setting("TENON_FLIGHT");
  if (chosen == "off") return;
  keeps_ = !chosen.empty();
  folder_ = chosen.empty() ? folder_of_job() : std::string(chosen);
  if (keeps_) (void)::mkdir(folder_.c_str(), 0700);
  path_ = cat(folder_, "/rank-", rank, ".flight");
  if (folder_.empty() || !map(path_)) {
    log("mesh", TENON_LOG_WARN, "no flight recorder: ", quoted(path_),
        " cannot be written: ", std::strerror(errno));
    return;
  }
  std::memcpy(head_->magic, flight::kMagic, sizeof flight::kMagic);
  head_->version = flight::kVersion;
  head_->record_bytes = sizeof(flight::Record);
  head_->record_count = flight::kRecords;
  head_->rank = rank;
  head_->rank_count = rank_count;
  head_->process = static_cast<uint32_t>(::getpid());
  head_->wall_ns = clock_ns(CLOCK_REALTIME);
  head_->steady_ns = static_cast<uint64_t>(clock_ns(CLOCK_MONOTONIC));
  put(head_->engine, engine);
}

bool Recorder::map(const std::string& path) {
  (void)::unlink(path.c_str());
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0) return false;
  void* data = MAP_FAILED;
  // Without room for the whole file a later store would end the process.
  if (const int error = ::posix_fallocate(file, 0, kFileBytes); error != 0) {
    errno = error;
  } else {
    data = ::mmap(nullptr, kFileBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  }
  const int error = errno;
  (void)::close(file);
  errno = error;
  if (data == MAP_FAILED) return false;
  head_ = static_cast<flight::Head*>(data);
  records_ = reinterpret_cast<flight::Record*>(head_ + 1);
  return true;
}

Recorder::Entry* Recorder::begin(uint32_t group, uint64_t sequence, std::string_view name,
                                 const tenon_transfer_t& transfer, std::string_view place,
                                 uint64_t now_ns) {
  if (head_ == nullptr) return nullptr;
  flight::Record& record = records_[head_->written % flight::kRecords];
  record.number = 0;  // a reader of a process that was killed here skips it
  record.sequence = sequence;
  record.group = group;
  record.transfer = transfer.transfer;
  record.combine = transfer.combine;
  record.dtype = transfer.dtype;
  record.elements = std::max(transfer.from_elements, transfer.to_elements);
  record.begin_ns = now_ns;
  record.end_ns = 0;
  put(record.name, name);
  put(record.place, place);
  record.number = ++head_->written;
  return &record;
}

std::string Recorder::advice() const {
  return head_ == nullptr ? "" : cat("; `tenon flight ", folder_, "` shows what each process did");
}

}  // namespace tenon::mesh
