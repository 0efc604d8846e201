// A shared object held in memory and opened by the system's loader.
#ifndef TENON_PLUGINS_CPU_MODULE_H_
#define TENON_PLUGINS_CPU_MODULE_H_

#include <memory>
#include <string>
#include <string_view>

namespace tenon::cpu {

// Code that is mapped as long as this lives. Nothing of it may run when it goes. Symbols: safe.
class Module {
 public:
  // Null with a sentence in `why` when the loader refuses the bytes. The bytes must be trusted
  // (from this plugin's compiler, through a cache that checks them): opening runs them.
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
