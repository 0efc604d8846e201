// A thread's own place for something that others read to the very end of the program.
#pragma once
#include <new>

namespace tenon {

// Used as `thread_local ThreadKept<T> place;`. A thread's objects end before the functions of
// atexit, in which plugins are shut down, fail and ask what failed: the value is never destroyed
// and can be used there.
template <typename T>
union ThreadKept {
  T value;
  ThreadKept() : value() {}
  ~ThreadKept() {}
};

// From now on the memory in `place` goes back when the thread ends. To be called before it is
// filled; a call after the first costs a look at a flag. A thread has one such place of a type.
template <typename T>
void free_at_thread_end(ThreadKept<T>& place) {
  struct Cleaner {
    ThreadKept<T>& place;
    // Made anew: assigning an empty string keeps the memory of the old one.
    ~Cleaner() {
      place.value.~T();
      new (&place.value) T();
    }
  };
  thread_local Cleaner cleaner{place};
  (void)&cleaner;  // it is there once it is named
}

}  // namespace tenon
