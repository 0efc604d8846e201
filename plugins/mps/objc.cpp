#include "objc.h"

#include "tenon/cpp/library.hpp"
#include "tenon/cpp/plugin.hpp"
#include "tenon/cpp/process_guard.hpp"

namespace tenon::mps {
namespace {

// Empty: there is none that could be opened.
#ifdef __APPLE__
constexpr std::string_view kLibrary = "/System/Library/Frameworks/Metal.framework/Metal";
#else
constexpr std::string_view kLibrary = "";
#endif

std::string load(Library* m) {
  const ProcessGuard guard;  // Metal starts threads
  const std::string_view other = setting("TENON_METAL");
  const std::string path(other.empty() ? kLibrary : other);
  if (path.empty())
    return "Metal is a part of macOS, and this is Linux: there is never a device here. Packages "
           "for Apple's GPUs can be made (--target metal3.0), but nothing here runs them";
  const OpenedLibrary opened = open_library({path.c_str()});
  if (opened.handle == nullptr) return opened.missing ? cat("there is no ", path) : opened.why;
  // The framework brings Objective-C's runtime with it.
  const bool all = find_function(opened.handle, "objc_msgSend", &m->send) &&
                   find_function(opened.handle, "sel_registerName", &m->selector) &&
                   find_function(opened.handle, "objc_getClass", &m->get_class) &&
                   find_function(opened.handle, "objc_autoreleasePoolPush", &m->pool_push) &&
                   find_function(opened.handle, "objc_autoreleasePoolPop", &m->pool_pop) &&
                   find_function(opened.handle, "MTLCopyAllDevices", &m->copy_all_devices);
  return all ? "" : cat(path, " lacks functions of Metal or of Objective-C's runtime");
}

}  // namespace

const Library* library(std::string* why) {
  return loaded_once<Library, load>(why);
}

const Library& metal() {
  static const Library& known = []() -> const Library& {
    std::string why;
    return *library(&why);
  }();
  return known;
}

Owned string_of(std::string_view text) {
  constexpr uint64_t kUtf8 = 4;
  const Id made = send<Id>(metal().get_class("NSString"), "alloc");
  return Owned(send<Id>(made, "initWithBytes:length:encoding:",
                        static_cast<const void*>(text.data()), uint64_t{text.size()}, kUtf8));
}

std::string text_of(Id string) {
  const char* text = send<const char*>(string, "UTF8String");
  return text == nullptr ? "" : text;
}

std::string error_text(Id error) {
  if (error == nullptr) return "Metal says no more";
  return cat(text_of(send<Id>(error, "localizedDescription")), " (", send<int64_t>(error, "code"),
             ")");
}

}  // namespace tenon::mps
