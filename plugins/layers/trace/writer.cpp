#include "writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tenon/abi/layer.h>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <vector>

namespace tenon::trace {
namespace {

constexpr size_t kKept = size_t{1} << 16;

struct All {
  std::mutex mutex;
  std::vector<Writer*> writers;
};
All& all() {
  static auto* instance =
      new All;  // never destroyed: shutdown comes after the destructors of libraries
  return *instance;
}

// Microseconds, with the nanoseconds as decimals.
void add_time(std::string* out, uint64_t ns) {
  const std::string rest = cat(ns % 1000);
  *out += cat(ns / 1000, '.') + std::string(3 - rest.size(), '0') + rest;
}

void add_text(std::string* out, std::string_view text) {
  constexpr char kDigits[] = "0123456789abcdef";
  *out += '"';
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') *out += '\\';
    if (byte < 0x20) {
      *out += std::string("\\u00") + kDigits[byte >> 4] + kDigits[byte & 15];
    } else {
      *out += c;
    }
  }
  *out += '"';
}

}  // namespace

uint64_t now_ns() {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                   std::chrono::steady_clock::now().time_since_epoch())
                                   .count());
}

namespace {

struct Sum {
  uint64_t calls = 0, ns = 0, bytes = 0;
};
struct Sums {
  std::mutex mutex;
  std::map<std::string, Sum> by_call;
};
Sums& sums() {
  static auto* instance = new Sums;
  return *instance;
}

}  // namespace

void Totals::add(const Event& e) {
  const std::lock_guard lock(sums().mutex);
  Sum& sum = sums().by_call[cat(e.plugin, " ", e.name)];
  ++sum.calls;
  sum.ns += e.end_ns - e.begin_ns;
  sum.bytes += e.bytes;
}

void Totals::print() {
  const std::lock_guard lock(sums().mutex);
  std::vector<std::pair<std::string, Sum>> rows(sums().by_call.begin(), sums().by_call.end());
  std::sort(rows.begin(), rows.end(),
            [](const auto& a, const auto& b) { return a.second.ns > b.second.ns; });
  for (const auto& [name, sum] : rows) {
    log("trace", TENON_LOG_RESULT, name, ": ", sum.calls, " calls, ", sum.ns / 1000, " us",
        sum.bytes == 0 ? "" : cat(", ", sum.bytes, " bytes"));
  }
  sums().by_call.clear();
}

Status Writer::at(std::string_view path, bool flush, Writer** out) {
  const std::lock_guard lock(all().mutex);
  for (Writer* known : all().writers) {
    if (known->path_ == path) return *out = known, Status();
  }
  auto* made = new Writer(std::string(path), flush);
  if (Status status = made->open(); !status.ok()) {
    delete made;
    return status;
  }
  all().writers.push_back(made);
  *out = made;
  return {};
}

Status Writer::open() {
  // The file is renamed over this path at the end, so it may only replace a regular file.
  struct stat there = {};
  if (::lstat(path_.c_str(), &there) == 0 && !S_ISREG(there.st_mode)) {
    return fail(TENON_INVALID_ARGUMENT,
                cat("trace: ", quoted(path_),
                    S_ISLNK(there.st_mode) ? " is a link, and is not written through"
                                           : " exists and is not a regular file"));
  }
  part_ = cat(path_, ".", static_cast<uint64_t>(getpid()), ".part");
  file_ = ::open(part_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file_ < 0)
    return fail(TENON_INVALID_ARGUMENT,
                cat("trace: the file ", quoted(part_), " cannot be made: ", strerror(errno)));
  text_ = cat("[\n{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":1,\"args\":{\"name\":\"tenon ",
              static_cast<uint64_t>(getpid()), "\"}}");
  return {};
}

uint32_t Writer::thread_number() {
  static std::atomic<uint32_t> count = 0;
  thread_local const uint32_t number = ++count;
  return number;
}

void Writer::add(const Event& e) {
  std::string line = ",\n{\"name\":";
  add_text(&line, e.name);
  line += ",\"cat\":";
  add_text(&line, e.interface);
  line += ",\"ph\":\"X\",\"ts\":";
  add_time(&line, e.begin_ns - start_ns_);
  line += ",\"dur\":";
  add_time(&line, e.end_ns - e.begin_ns);
  line += cat(",\"pid\":1,\"tid\":", thread_number(), ",\"args\":{\"plugin\":");
  add_text(&line, e.plugin);
  if (!e.device.empty()) {
    line += ",\"device\":";
    add_text(&line, e.device);
  }
  if (e.bytes != 0) line += cat(",\"bytes\":", e.bytes);
  line += cat(",\"code\":", e.code, "}}");
  const std::lock_guard lock(mutex_);
  if (file_ < 0) return;
  text_ += line;
  if (flush_ || text_.size() >= kKept) drain();
}

void Writer::drain() {
  for (size_t done = 0; done < text_.size() && !failed_;) {
    const ssize_t n = ::write(file_, text_.data() + done, text_.size() - done);
    if (n < 0 && errno == EINTR) continue;
    failed_ = n < 0;
    done += n < 0 ? 0 : static_cast<size_t>(n);
  }
  text_.clear();
}

Status Writer::finish() {
  const std::lock_guard lock(mutex_);
  if (file_ < 0) return {};
  text_ += "\n]\n";
  drain();
  const bool bad = failed_ || ::close(file_) != 0 || ::rename(part_.c_str(), path_.c_str()) != 0;
  file_ = -1;
  if (bad)
    return fail(TENON_UNKNOWN, cat("trace: the file ", quoted(path_), " cannot be written: ",
                                   strerror(errno), "; what there is, is in ", quoted(part_)));
  log("trace", TENON_LOG_INFO, "wrote ", path_);
  return {};
}

Status Writer::finish_all() {
  const std::lock_guard lock(all().mutex);
  Status first;
  for (Writer* writer : all().writers) {
    if (Status status = writer->finish(); first.ok()) first = status;
  }
  return first;
}

}  // namespace tenon::trace
