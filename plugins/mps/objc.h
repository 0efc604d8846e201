// Objective-C without its compiler, and Metal's library: both opened at run time, so that this
// builds where there is neither. Every call of Metal is a message.
#ifndef TENON_PLUGINS_MPS_OBJC_H_
#define TENON_PLUGINS_MPS_OBJC_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace tenon::mps {

using Id = struct objc_object*;
using Selector = struct objc_selector*;

struct Library {
  void (*send)() = nullptr;  // objc_msgSend, which has the type of the method
  Selector (*selector)(const char*) = nullptr;
  Id (*get_class)(const char*) = nullptr;
  void* (*pool_push)() = nullptr;
  void (*pool_pop)(void*) = nullptr;
  Id (*copy_all_devices)() = nullptr;
};

// Null, with a sentence that says why, where there is no Metal. Looks once. Threads: safe. The
// setting TENON_METAL names another library, for tests.
const Library* library(std::string* why);
// The same, where it is known to be there.
const Library& metal();

// [to selector: arguments...]. The types must be those of the method: Metal's NSUInteger is
// uint64_t. nil answers 0.
template <class Result, class... Arguments>
Result send(Id to, const char* selector, Arguments... arguments) {
  const Library& m = metal();
  const auto method = reinterpret_cast<Result (*)(Id, Selector, Arguments...)>(m.send);
  return method(to, m.selector(selector), arguments...);
}

// An object that is ours to release.
class Owned {
 public:
  Owned() = default;
  explicit Owned(Id object) : object_(object) {}
  Owned(Owned&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Owned() {
    if (object_ != nullptr) send<void>(object_, "release");
  }
  // Retains an object that a pool or another owner releases.
  static Owned retain(Id object) {
    return Owned(object == nullptr ? nullptr : send<Id>(object, "retain"));
  }
  Id get() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  Id object_ = nullptr;
};

// What messages return without an owner lives until the pool of this thread ends.
class Pool {
 public:
  Pool() : pool_(metal().pool_push()) {}
  ~Pool() { metal().pool_pop(pool_); }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

 private:
  void* pool_;
};

Owned string_of(std::string_view text);
std::string text_of(Id string);
// What an NSError says, with its code.
std::string error_text(Id error);

}  // namespace tenon::mps
#endif
