// The objects of the tests' driver. Devices with memory of their own, contexts, streams that run
// their work in order on a thread each.
#ifndef TENON_TESTS_FAKES_CUDA_DRIVER_H_
#define TENON_TESTS_FAKES_CUDA_DRIVER_H_

#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "ptx.h"
#include "run.h"

namespace fake_cuda {

enum Result : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialised = 3,
  kDeviceUnavailable = 46,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidContext = 201,
  kInvalidPtx = 218,
  kNvlinkUncorrectable = 220,
  kUnsupportedPtx = 222,
  kInvalidHandle = 400,
  kNotFound = 500,
  kNotReady = 600,
  kIllegalAddress = 700,
  kLaunchOutOfResources = 701,
  kLaunchTimeout = 702,
  kPeerAccessUnsupported = 217,
  kPeerAccessAlreadyEnabled = 704,
  kPeerAccessTooMany = 711,
  kLaunchFailed = 719,
  kSystemNotReady = 802,
  kSystemDriverMismatch = 803,
  kCaptureUnsupported = 900,
  kCaptureInvalidated = 901,
  kCaptureIsolation = 905,
  kCapturedEvent = 907,
  kUnknown = 999,
};
const char* name_of(int result);

constexpr int kMostDevices = 16;

// FAKE_CUDA and its kin, read once.
struct Settings {
  int devices = 1, old = 0, version = 12020, capability = 90, pools = 1, peers = 1, threads = 1024,
      shared = 64 << 10;
  uint64_t memory = uint64_t{1} << 30;
  uint64_t fail_at = 0;
  std::string fail_name;
  int fail_code = kUnknown;
  std::string report;
};
const Settings& settings();

// A device's primary one, or one that a test makes. What is made in one works in that one.
struct Context {
  int device = 0;
  std::set<Context*> peers = {};  // whose memory it may access
};

struct Pool {
  int device;
  uint64_t threshold = 0;
  std::set<int> peers = {};  // devices that may access it
};

// How often an event was recorded, and has happened. Work keeps it: an event may be destroyed while
// it is still to happen.
class Progress {
 public:
  void record() {  // submitted
    const std::lock_guard lock(mutex_);
    ++wanted_;
  }
  void happen();
  void wait(uint64_t until);
  void wait() { wait(wanted()); }
  uint64_t wanted() {
    const std::lock_guard lock(mutex_);
    return wanted_;
  }
  bool done() {
    const std::lock_guard lock(mutex_);
    return happened_ == wanted_;
  }
  int64_t time_ns();  // -1: has not happened

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t wanted_ = 0, happened_ = 0;
  int64_t time_ns_ = -1;
};

struct Event {
  explicit Event(Context* in) : context(in) {}
  Context* const context;
  const std::shared_ptr<Progress> progress = std::make_shared<Progress>();
  std::atomic<bool> captured{false};  // recorded last into a graph: it happens nowhere
};

// What a capture keeps others from, and what a thread lets itself be kept from.
enum CaptureMode : int { kGlobal = 0, kThreadLocal = 1, kRelaxed = 2 };
// That of this thread.
int& capture_mode();

class Stream {
 public:
  explicit Stream(Context* in);
  ~Stream();
  Context* const context;

  using Work = std::function<void()>;
  void put(Work work);
  void wait();
  // Work that is put there meanwhile is kept, and given out at the end. False: it records already.
  bool begin_capture(int mode);
  // What the call returns.
  int end_capture(std::vector<Work>* out);
  bool capturing();
  // Whether it records; the recording is spoiled then, as by a wait for a stream that records.
  bool spoil_capture();
  // As cuStreamIsCapturing returns it.
  int capture_state();
  // Whether a call that no capture can hold, on this thread, ends the capture here; it has then.
  bool break_capture();

 private:
  void run();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  bool stopping_ = false, busy_ = false, capturing_ = false, broken_ = false;
  int mode_ = kRelaxed;
  std::thread::id capturer_;
  std::vector<Work> captured_;
  std::thread thread_;
};

// Recorded work; also what is made of it to be run.
struct Graph {
  Context* const context;
  const std::vector<Stream::Work> work;
};

struct LoadedModule;
struct Function {
  LoadedModule* module;
  const Kernel* kernel;
};
struct LoadedModule {
  Context* context = nullptr;
  Module module;
  std::vector<uint64_t> places;
  std::map<std::string, std::unique_ptr<Function>> functions;
};

// Everything that exists. Threads: safe.
class World {
 public:
  static World& get();

  // ---- Calls ----
  // Counts a call; the code to return, if the tests make it fail. FAKE_CUDA_TRACE=1 prints it then.
  int begin_call(const char* name);
  int lost() const { return lost_; }
  void lose(int code, const std::string& why);

  // ---- Memory ----
  struct Allocation {
    std::unique_ptr<unsigned char[]> bytes;
    uint64_t size = 0, mapping = 0;  // mapping: put together of parts of that size; 0: it is one
    int device = 0;
    Context* context = nullptr;  // null for memory of pools, and for mappings
    Pool* pool = nullptr;
  };
  // The bytes are made here.
  int alloc(uint64_t bytes, Allocation made, uint64_t* out);
  int alloc(uint64_t bytes, uint64_t* out);  // in the current context
  int free(uint64_t address);
  // The allocation that holds the address, and where it begins; null if there is none.
  const Allocation* holder(uint64_t address, uint64_t* begin);
  // The bytes if all of them are of one allocation of the device; null otherwise.
  unsigned char* range(int device, uint64_t address, uint64_t bytes);
  int alloc_pinned(uint64_t bytes, void** out);
  int free_pinned(void* data);
  bool is_pinned(const void* data, uint64_t bytes);

  // ---- Objects ----
  template <class T, class... Args>
  T* make(std::set<T*>& all, Args&&... args) {
    auto* object = new T(std::forward<Args>(args)...);
    const std::lock_guard lock(mutex_);
    all.insert(object);
    return object;
  }
  template <class T>
  bool has(const std::set<T*>& all, void* handle) {
    const std::lock_guard lock(mutex_);
    return all.contains(static_cast<T*>(handle));
  }
  template <class T>
  bool destroy(std::set<T*>& all, void* handle) {
    {
      const std::lock_guard lock(mutex_);
      if (all.erase(static_cast<T*>(handle)) == 0) return false;
    }
    delete static_cast<T*>(handle);
    return true;
  }
  // Made on first use.
  Stream* default_stream(Context* of);
  std::set<Stream*> streams;
  std::set<Event*> events;
  std::set<LoadedModule*> modules;
  std::set<Pool*> pools;
  std::set<Graph*> graphs, runnable_graphs;
  std::set<Context*> made_contexts;
  std::array<Context, kMostDevices> primary;
  std::array<Pool, kMostDevices> default_pools;
  std::atomic<int> contexts{0};  // retained
  std::mutex peers_mutex;        // guards `peers` of contexts and pools
  std::atomic<uint64_t> peer_copies{0};
  std::atomic<bool> initialised{false};

  // Whether a call that no capture can hold is forbidden on this thread. The captures that forbid
  // it are broken then, as by a driver.
  bool breaks_captures();
  std::atomic<int> captures{0};

  std::string report();
  // The call `n` from now on fails with the code; 0: none does.
  void fail_in(uint64_t n, int code);
  // Each call of that name fails with the code; empty: none does.
  void fail_calls(const std::string& name, int code);
  uint64_t calls() const { return calls_; }
  uint64_t calls_of(const std::string& name);
  // Allocations and pinned memory that exist.
  uint64_t memory_in_use();

 private:
  World();

  std::mutex mutex_;
  std::map<std::string, uint64_t> calls_of_;
  std::map<uint64_t, Allocation> allocations_;
  std::map<void*, uint64_t> pinned_;
  std::map<Context*, Stream*> default_streams_;
  uint64_t next_ = uint64_t{1} << 46;
  std::array<uint64_t, kMostDevices> used_ = {};
  std::string fail_name_ = settings().fail_name;
  std::atomic<uint64_t> calls_{0}, fail_at_{settings().fail_at};
  std::atomic<int> fail_code_{settings().fail_code};
  std::atomic<int> lost_{0};
};

// What code on a device reaches.
struct DeviceMemory final : Memory {
  explicit DeviceMemory(int of) : device(of) {}
  unsigned char* find(uint64_t address, uint64_t* begin, uint64_t* end) override;
  const int device;
};

// The contexts that are current on this thread, the last one first in use.
std::vector<Context*>& current();

}  // namespace fake_cuda
#endif
