#include "driver.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <utility>

namespace fake_cuda {
namespace {

int64_t now_ns() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

Settings read_settings() {
  Settings s;
  const auto text = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  std::stringstream words(text("FAKE_CUDA"));
  for (std::string word; std::getline(words, word, ',');) {
    const size_t equals = word.find('=');
    const std::string key = word.substr(0, equals);
    const auto value =
        std::strtoull(equals == std::string::npos ? "0" : word.c_str() + equals + 1, nullptr, 0);
    if (key == "devices") s.devices = static_cast<int>(value);
    if (key == "old") s.old = static_cast<int>(value);
    if (key == "version") s.version = static_cast<int>(value);
    if (key == "capability") s.capability = static_cast<int>(value);
    if (key == "pools") s.pools = static_cast<int>(value);
    if (key == "threads") s.threads = static_cast<int>(value);
    if (key == "shared") s.shared = static_cast<int>(value);
    if (key == "peers") s.peers = static_cast<int>(value);
    if (key == "memory") s.memory = value;
  }
  s.devices = std::min(s.devices, kMostDevices);
  const std::string fail = text("FAKE_CUDA_FAIL");
  s.fail_at = std::strtoull(fail.c_str(), nullptr, 0);
  if (s.fail_at == 0) s.fail_name = fail.substr(0, fail.find(':'));
  if (const size_t colon = fail.find(':'); colon != std::string::npos)
    s.fail_code = std::atoi(fail.c_str() + colon + 1);
  s.report = text("FAKE_CUDA_REPORT");
  return s;
}

// Writes the report when the process ends.
struct Reporter {
  ~Reporter() {
    if (settings().report.empty()) return;
    std::FILE* file = std::fopen(settings().report.c_str(), "w");
    if (file == nullptr) return;
    std::fputs(World::get().report().c_str(), file);
    std::fclose(file);
  }
};

}  // namespace

const Settings& settings() {
  static const Settings instance = read_settings();
  return instance;
}

const char* name_of(int result) {
  switch (result) {
    case kSuccess:
      return "CUDA_SUCCESS";
    case kInvalidValue:
      return "CUDA_ERROR_INVALID_VALUE";
    case kOutOfMemory:
      return "CUDA_ERROR_OUT_OF_MEMORY";
    case kNotInitialised:
      return "CUDA_ERROR_NOT_INITIALIZED";
    case kDeviceUnavailable:
      return "CUDA_ERROR_DEVICE_UNAVAILABLE";
    case kNoDevice:
      return "CUDA_ERROR_NO_DEVICE";
    case kInvalidDevice:
      return "CUDA_ERROR_INVALID_DEVICE";
    case kInvalidContext:
      return "CUDA_ERROR_INVALID_CONTEXT";
    case kInvalidPtx:
      return "CUDA_ERROR_INVALID_PTX";
    case kNvlinkUncorrectable:
      return "CUDA_ERROR_NVLINK_UNCORRECTABLE";
    case kUnsupportedPtx:
      return "CUDA_ERROR_UNSUPPORTED_PTX_VERSION";
    case kInvalidHandle:
      return "CUDA_ERROR_INVALID_HANDLE";
    case kNotFound:
      return "CUDA_ERROR_NOT_FOUND";
    case kNotReady:
      return "CUDA_ERROR_NOT_READY";
    case kCaptureUnsupported:
      return "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED";
    case kCaptureInvalidated:
      return "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED";
    case kCaptureIsolation:
      return "CUDA_ERROR_STREAM_CAPTURE_ISOLATION";
    case kCapturedEvent:
      return "CUDA_ERROR_CAPTURED_EVENT";
    case kLaunchTimeout:
      return "CUDA_ERROR_LAUNCH_TIMEOUT";
    case kIllegalAddress:
      return "CUDA_ERROR_ILLEGAL_ADDRESS";
    case kLaunchOutOfResources:
      return "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES";
    case kPeerAccessUnsupported:
      return "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED";
    case kPeerAccessAlreadyEnabled:
      return "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED";
    case kPeerAccessTooMany:
      return "CUDA_ERROR_TOO_MANY_PEERS";
    case kLaunchFailed:
      return "CUDA_ERROR_LAUNCH_FAILED";
    case kSystemNotReady:
      return "CUDA_ERROR_SYSTEM_NOT_READY";
    case kSystemDriverMismatch:
      return "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH";
    case kUnknown:
      return "CUDA_ERROR_UNKNOWN";
    default:
      return nullptr;
  }
}

// ---- Events and streams ----

void Progress::happen() {
  const std::lock_guard lock(mutex_);
  ++happened_;
  time_ns_ = now_ns();
  changed_.notify_all();
}

void Progress::wait(uint64_t until) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return happened_ >= until; });
}

int64_t Progress::time_ns() {
  const std::lock_guard lock(mutex_);
  return happened_ == wanted_ ? time_ns_ : -1;
}

Stream::Stream(Context* in) : context(in), thread_([this] { run(); }) {}

Stream::~Stream() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void Stream::put(Work work) {
  const std::lock_guard lock(mutex_);
  (capturing_ ? captured_.emplace_back() : work_.emplace_back()) = std::move(work);
  changed_.notify_all();
}

int& capture_mode() {
  static thread_local int mode = kGlobal;
  return mode;
}

bool Stream::begin_capture(int mode) {
  const std::lock_guard lock(mutex_);
  if (std::exchange(capturing_, true)) return false;
  broken_ = false;
  mode_ = mode;
  capturer_ = std::this_thread::get_id();
  return true;
}
int Stream::end_capture(std::vector<Work>* out) {
  const std::lock_guard lock(mutex_);
  *out = std::exchange(captured_, {});
  if (!std::exchange(capturing_, false)) return kInvalidValue;
  return broken_ ? kCaptureInvalidated : kSuccess;
}
bool Stream::break_capture() {
  const std::lock_guard lock(mutex_);
  if (!capturing_ || mode_ == kRelaxed || capture_mode() == kRelaxed) return false;
  const bool own = capturer_ == std::this_thread::get_id();
  if (!own && (mode_ != kGlobal || capture_mode() != kGlobal)) return false;
  broken_ = true;
  return true;
}
bool Stream::capturing() {
  const std::lock_guard lock(mutex_);
  return capturing_;
}

bool Stream::spoil_capture() {
  const std::lock_guard lock(mutex_);
  broken_ = broken_ || capturing_;
  return capturing_;
}
int Stream::capture_state() {
  const std::lock_guard lock(mutex_);
  return !capturing_ ? 0 : broken_ ? 2 : 1;
}

void Stream::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return work_.empty() && !busy_; });
}

void Stream::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stopping_ || !work_.empty(); });
    if (work_.empty()) return;
    const std::function<void()> work = std::move(work_.front());
    work_.pop_front();
    busy_ = true;
    lock.unlock();
    work();
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

// ---- The world ----

World::World() {
  for (int i = 0; i < kMostDevices; ++i) {
    primary[static_cast<size_t>(i)].device = default_pools[static_cast<size_t>(i)].device = i;
    pools.insert(&default_pools[static_cast<size_t>(i)]);
  }
}

World& World::get() {
  static World& world = *new World;  // threads of streams may outlive static objects
  static const Reporter reporter;
  return world;
}

int World::begin_call(const char* name) {
  const uint64_t n = ++calls_;
  const std::lock_guard lock(mutex_);
  ++calls_of_[name];
  if (fail_name_ == name) return fail_code_;
  if (n == fail_at_ && std::getenv("FAKE_CUDA_TRACE") != nullptr)
    std::fprintf(stderr, "fake cuda: call %llu, %s, fails\n", static_cast<unsigned long long>(n),
                 name);
  return n == fail_at_ ? fail_code_.load() : lost_.load();
}

Stream* World::default_stream(Context* of) {
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  Stream*& stream = default_streams_[of];
  if (stream == nullptr) stream = make(streams, of);
  return stream;
}

bool World::breaks_captures() {
  if (captures == 0) return false;
  const std::lock_guard lock(mutex_);
  bool any = false;
  for (Stream* const stream : streams) any = stream->break_capture() || any;
  return any;
}

void World::fail_in(uint64_t n, int code) {
  fail_code_ = code;
  fail_at_ = n == 0 ? 0 : calls_ + n;
}

void World::fail_calls(const std::string& name, int code) {
  const std::lock_guard lock(mutex_);
  fail_code_ = code;
  fail_name_ = name;
}

uint64_t World::calls_of(const std::string& name) {
  const std::lock_guard lock(mutex_);
  return calls_of_[name];
}

uint64_t World::memory_in_use() {
  const std::lock_guard lock(mutex_);
  return allocations_.size() + pinned_.size() + modules.size() + graphs.size() +
         runnable_graphs.size();
}

void World::lose(int code, const std::string& why) {
  int none = 0;
  if (lost_.compare_exchange_strong(none, code))
    std::fprintf(stderr, "fake cuda: %s\n", why.c_str());
}

int World::alloc(uint64_t bytes, Allocation made, uint64_t* out) {
  constexpr uint64_t kGap = 1 << 16;
  if (bytes == 0) return kInvalidValue;
  const std::lock_guard lock(mutex_);
  uint64_t& used = used_[static_cast<size_t>(made.device)];
  if (bytes > settings().memory - used) return kOutOfMemory;
  made.bytes.reset(new unsigned char[bytes]);
  made.size = bytes;
  std::memset(made.bytes.get(), 0xff, bytes);
  *out = next_;
  next_ += (bytes + kGap) / 512 * 512 + 512;
  used += bytes;
  allocations_.emplace(*out, std::move(made));
  return kSuccess;
}

int World::alloc(uint64_t bytes, uint64_t* out) {
  Allocation made;
  made.context = current().back();
  made.device = made.context->device;
  return alloc(bytes, std::move(made), out);
}

int World::free(uint64_t address) {
  const std::lock_guard lock(mutex_);
  const auto it = allocations_.find(address);
  if (it == allocations_.end()) return kInvalidValue;
  used_[static_cast<size_t>(it->second.device)] -= it->second.size;
  allocations_.erase(it);
  return kSuccess;
}

const World::Allocation* World::holder(uint64_t address, uint64_t* begin) {
  const std::lock_guard lock(mutex_);
  auto it = allocations_.upper_bound(address);
  if (it == allocations_.begin()) return nullptr;
  --it;
  *begin = it->first;
  return address - it->first < it->second.size ? &it->second : nullptr;
}

unsigned char* DeviceMemory::find(uint64_t address, uint64_t* begin, uint64_t* end) {
  const World::Allocation* const all = World::get().holder(address, begin);
  if (all == nullptr || all->device != device) return nullptr;
  *end = *begin + all->size;
  return all->bytes.get();
}

unsigned char* World::range(int device, uint64_t address, uint64_t bytes) {
  uint64_t begin = 0, end = 0;
  unsigned char* const data = DeviceMemory(device).find(address, &begin, &end);
  return data == nullptr || bytes > end - address ? nullptr : data + (address - begin);
}

int World::alloc_pinned(uint64_t bytes, void** out) {
  constexpr uint64_t kPage = 4096, kMost = uint64_t{1} << 40;
  if (bytes > kMost) return kOutOfMemory;
  *out = std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage);
  if (*out == nullptr) return kOutOfMemory;
  const std::lock_guard lock(mutex_);
  pinned_[*out] = bytes;
  return kSuccess;
}

int World::free_pinned(void* data) {
  {
    const std::lock_guard lock(mutex_);
    if (pinned_.erase(data) == 0) return kInvalidValue;
  }
  std::free(data);
  return kSuccess;
}

bool World::is_pinned(const void* data, uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  auto it = pinned_.upper_bound(const_cast<void*>(data));
  if (it == pinned_.begin()) return false;
  --it;
  const auto at =
      static_cast<uint64_t>(static_cast<const char*>(data) - static_cast<char*>(it->first));
  return at <= it->second && bytes <= it->second - at;
}

std::string World::report() {
  const std::lock_guard lock(mutex_);
  std::ostringstream out;
  out << "calls " << calls_ << "\nallocations " << allocations_.size() << "\npinned "
      << pinned_.size() << "\nstreams " << streams.size() << "\nevents " << events.size()
      << "\nmodules " << modules.size() << "\npools " << pools.size() - kMostDevices
      << "\ncontexts " << contexts << "\ngraphs " << graphs.size() + runnable_graphs.size() << "\n";
  return out.str();
}

std::vector<Context*>& current() {
  static thread_local std::vector<Context*> stack;
  return stack;
}

}  // namespace fake_cuda
