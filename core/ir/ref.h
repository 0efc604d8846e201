// A counted reference to an object with retain() and release().
#pragma once
#include <utility>

namespace tenon::ir {

template <typename T>
class Ref {
 public:
  Ref() = default;
  // Takes over a reference that the caller holds.
  static Ref adopt(T* object) {
    Ref r;
    r.object_ = object;
    return r;
  }
  // Adds a reference.
  static Ref share(T* object) {
    if (object != nullptr) object->retain();
    return adopt(object);
  }
  Ref(const Ref& other) : object_(other.object_) {
    if (object_ != nullptr) object_->retain();
  }
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() {
    if (object_ != nullptr) object_->release();
  }
  T* get() const { return object_; }
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }
  // Passes the reference to the caller.
  T* detach() { return std::exchange(object_, nullptr); }

 private:
  T* object_ = nullptr;
};

}  // namespace tenon::ir
