// A shared object held in memory and opened by the system's loader.
#ifndef TENON_PLUGINS_CPU_MODULE_H_
#define TENON_PLUGINS_CPU_MODULE_H_

#include <memory>
#include <string>
#include <string_view>

namespace tenon::cpu {

// Code that stays mapped for the lifetime of this object. None of it may run when the object is
// destroyed. Threads: `symbol` is safe.
class Module {
 public:
  // Null, with a sentence in `why`, when the loader refuses the bytes. They must be trusted (from
  // this plugin's compiler, through a cache that verifies them): opening runs them.
  static std::unique_ptr<Module> open(std::string_view bytes, std::string& why);
  ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  void* symbol(const std::string& name) const;  // Null when there is none.

 private:
  explicit Module(void* handle) : handle_(handle) {}
  void* handle_;
};

}  // namespace tenon::cpu
#endif
