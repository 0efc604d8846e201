#include "objc.h"

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>
#include <vector>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace fake_metal {
namespace {

std::atomic<uint64_t> g_living{0};

std::mutex& mutex_of_names() {
  static std::mutex mutex;
  return mutex;
}

std::vector<std::vector<Object*>>& pools() {
  static thread_local std::vector<std::vector<Object*>> all;
  return all;
}

[[noreturn]] void give_up(const std::string& why) {
  std::fprintf(stderr, "fake metal: %s\n", why.c_str());
  std::abort();
}

void* nothing() {
  return nullptr;
}
Object* retain_method(Object* self, const char*) {
  return retain(self);
}
void release_method(Object* self, const char*) {
  release(self);
}

}  // namespace

Object::Object(const Class& of) : type(of) {
  ++g_living;
  ++type.living;
}
Object::~Object() {
  --g_living;
  --type.living;
}

void release(Object* object) {
  if (object == nullptr) return;
  const int left = --object->owners;
  if (left < 0) give_up("an object of " + object->type.name + " is released too often");
  if (left == 0) delete object;
}

void autorelease(Object* object) {
  if (pools().empty()) give_up("no pool of this thread takes an object of " + object->type.name);
  pools().back().push_back(object);
}

uint64_t living() {
  return g_living;
}

// What a message leads to. Messages to nil are answered by 0.
extern "C" __attribute__((visibility("hidden"), used)) Method
fake_metal_look_up(Object* to, const char* selector) {
  if (to == nullptr) return method(nothing);
  const std::string name = selector;
  if (name == "retain") return method(retain_method);
  if (name == "release") return method(release_method);
  const auto found = to->type.methods.find(name);
  if (found == to->type.methods.end()) give_up(to->type.name + " has no method " + name);
  return found->second;
}

}  // namespace fake_metal

// As in Objective-C's own runtime, the method gets the registers and the stack as they are.
#if !defined(__x86_64__)
#error "the tests' objc_msgSend is written for x86-64"
#endif
__asm__(R"(
.text
.globl objc_msgSend
.type objc_msgSend, @function
objc_msgSend:
  push %rdi
  push %rsi
  push %rdx
  push %rcx
  push %r8
  push %r9
  sub $24, %rsp
  movsd %xmm0, (%rsp)
  movsd %xmm1, 8(%rsp)
  call fake_metal_look_up
  movsd (%rsp), %xmm0
  movsd 8(%rsp), %xmm1
  add $24, %rsp
  pop %r9
  pop %r8
  pop %rcx
  pop %rdx
  pop %rsi
  pop %rdi
  mov %rax, %r11
  xorps %xmm0, %xmm0
  xor %eax, %eax
  jmp *%r11
.size objc_msgSend, .-objc_msgSend
)");

EXPORT const char* sel_registerName(const char* name) {
  static std::set<std::string> names;
  const std::lock_guard lock(fake_metal::mutex_of_names());
  return names.insert(name).first->c_str();
}
EXPORT void* objc_autoreleasePoolPush() {
  fake_metal::pools().emplace_back();
  return reinterpret_cast<void*>(fake_metal::pools().size());
}
EXPORT void objc_autoreleasePoolPop(void* pool) {
  using namespace fake_metal;
  if (reinterpret_cast<uint64_t>(pool) != pools().size()) give_up("pools end in another order");
  for (Object* object : pools().back()) release(object);
  pools().pop_back();
}
EXPORT uint64_t fake_metal_living() {
  return fake_metal::living();
}
