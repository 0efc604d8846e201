// The objects of the tests' driver. One device's memory, one context per device, streams that run
// their work in order on a thread each.
#ifndef TENON_TESTS_FAKES_CUDA_DRIVER_H_
#define TENON_TESTS_FAKES_CUDA_DRIVER_H_

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
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidContext = 201,
  kInvalidPtx = 218,
  kUnsupportedPtx = 222,
  kInvalidHandle = 400,
  kNotFound = 500,
  kIllegalAddress = 700,
  kLaunchFailed = 719,
  kUnknown = 999,
};
const char* name_of(int result);

// FAKE_CUDA and its kin, read once.
struct Settings {
  int devices = 1, version = 12020, capability = 90, pools = 1;
  uint64_t memory = uint64_t{1} << 30;
  uint64_t fail_at = 0;
  int fail_code = kUnknown;
  std::string report;
};
const Settings& settings();

class Event {
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
  int64_t time_ns();  // -1: has not happened

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t wanted_ = 0, happened_ = 0;
  int64_t time_ns_ = -1;
};

class Stream {
 public:
  Stream();
  ~Stream();
  void put(std::function<void()> work);
  void wait();

 private:
  void run();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  bool stopping_ = false, busy_ = false;
  std::thread thread_;
};

struct LoadedModule;
struct Function {
  LoadedModule* module;
  const Kernel* kernel;
};
struct LoadedModule {
  Module module;
  std::vector<uint64_t> places;
  std::map<std::string, std::unique_ptr<Function>> functions;
};

// Everything that exists. Threads: safe.
class World final : public Memory {
 public:
  static World& get();

  // ---- Calls ----
  // Counts a call; the code to return, if the tests make it fail. FAKE_CUDA_TRACE=1 prints it then.
  int begin_call(const char* name);
  int lost() const { return lost_; }
  void lose(int code, const std::string& why);

  // ---- Memory ----
  int alloc(uint64_t bytes, uint64_t* out);
  int free(uint64_t address);
  int device_of(uint64_t address);  // -1: it is no address of device memory
  unsigned char* find(uint64_t address, uint64_t* begin, uint64_t* end) override;
  // The bytes if all of them are of one allocation; null otherwise.
  unsigned char* range(uint64_t address, uint64_t bytes);
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
  std::set<Stream*> streams;
  std::set<Event*> events;
  std::set<LoadedModule*> modules;
  std::atomic<int> contexts{0};  // retained
  std::atomic<bool> initialised{false};

  std::string report();
  // The call `n` from now on fails with the code; 0: none does.
  void fail_in(uint64_t n, int code);
  uint64_t calls() const { return calls_; }
  // Allocations and pinned memory that exist.
  uint64_t memory_in_use();

 private:
  struct Allocation {
    std::unique_ptr<unsigned char[]> bytes;
    uint64_t size;
    int device;
  };
  std::mutex mutex_;
  std::map<uint64_t, Allocation> allocations_;
  std::map<void*, uint64_t> pinned_;
  uint64_t next_ = uint64_t{1} << 46, used_ = 0;
  std::atomic<uint64_t> calls_{0}, fail_at_{settings().fail_at};
  std::atomic<int> fail_code_{settings().fail_code};
  std::atomic<int> lost_{0};
};

// The contexts that are current on this thread: ordinals of devices.
std::vector<int>& current();

}  // namespace fake_cuda
#endif
