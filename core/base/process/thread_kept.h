// Thread-local storage that stays readable until the very end of the program.
#pragma once
#include <new>

namespace tenon {

// Used as `thread_local ThreadKept<T> place;`. A thread's objects are destroyed before atexit
// functions run, and there plugins are shut down, fail and read what failed. So the value is never
// destroyed and can still be used there.
template <typename T>
union ThreadKept {
  T value;
  ThreadKept() : value() {}
  ~ThreadKept() {}
};

// From this call on, the memory in `place` is freed when the thread ends. Call it before filling
// the place; later calls only check a flag. A thread has at most one such place per type.
template <typename T>
void free_at_thread_end(ThreadKept<T>& place) {
  struct Cleaner {
    ThreadKept<T>& place;
    // Recreated: assigning an empty string would keep the old one's memory.
    ~Cleaner() {
      place.value.~T();
      new (&place.value) T();
    }
  };
  thread_local Cleaner cleaner{place};
  (void)&cleaner;  // naming it constructs it
}

}  // namespace tenon
