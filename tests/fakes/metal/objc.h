// As much of Objective-C's runtime as the mps plugin calls: classes are tables of methods, objects
// are counted, and what no owner was asked for lives until its thread's pool ends.
#ifndef TENON_TESTS_FAKES_METAL_OBJC_H_
#define TENON_TESTS_FAKES_METAL_OBJC_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <string>

namespace fake_metal {

struct Class;

struct Object {
  explicit Object(const Class& of);
  virtual ~Object();
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  const Class& type;
  std::atomic<int> owners{1};
};

using Method = void (*)();
struct Class {
  std::string name;
  std::map<std::string, Method> methods;
  mutable std::atomic<uint64_t> living{0};  // objects that exist
};

template <class F>
Method method(F* function) {
  return reinterpret_cast<Method>(function);
}

// Of an object, and of a class; null: nil, and a method that is not known.
Class* class_named(const std::string& name);

template <class T>
T* retain(T* object) {
  if (object != nullptr) ++object->owners;
  return object;
}
void release(Object* object);
// Released when the innermost pool of this thread ends. An error if there is none.
void autorelease(Object* object);
template <class T>
T* autoreleased(T* object) {
  autorelease(object);
  return object;
}

// Objects that exist.
uint64_t living();

}  // namespace fake_metal
#endif
