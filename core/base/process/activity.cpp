#include "core/base/process/activity.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "core/base/cache.h"
#include "core/base/file.h"
#include "core/base/process/environment.h"
#include "core/base/str.h"

namespace tenon {
namespace {

thread_local const Activity* g_mine = nullptr;
std::atomic<const Activity*> g_latest{nullptr};

// " in passes.so"; empty for code that no library holds.
std::string library_of(const void* code) {
  Dl_info found = {};
  if (code == nullptr || dladdr(code, &found) == 0 || found.dli_fname == nullptr) return "";
  const std::string_view path = found.dli_fname;
  return fmt::format(" in {}", printable(path.substr(path.rfind('/') + 1), 64));
}

}  // namespace

Activity::Activity(std::string what, const void* code,
                   Result<std::string> (*save)(const void* self), const void* self)
    : text_{}, save_(save), self_(self), outer_(g_mine) {
  what += library_of(code);
  std::memcpy(text_, what.data(), std::min(what.size(), sizeof text_ - 1));
  g_mine = this;
  g_latest.store(this);
}

Activity::~Activity() {
  g_mine = outer_;
  const Activity* expected = this;
  g_latest.compare_exchange_strong(expected, outer_);
}

const Activity* Activity::current() {
  return g_mine != nullptr ? g_mine : g_latest.load();
}

Result<std::string> Activity::save() const {
  if (save_ == nullptr) return error(TENON_UNAVAILABLE, "T0801", "there is nothing to save");
  return save_(self_);
}

Result<std::string> save_reproducer(std::string_view name, std::string_view text) {
  std::string folder;
  if (const auto chosen = env("TENON_REPRODUCER_DIR")) folder = std::string(*chosen);
  if (folder.empty() && Cache::process().usable())
    folder = join_path(Cache::process().folder(), "reproducers");
  if (folder.empty())
    return error(TENON_UNAVAILABLE, "T0801", "there is no folder for reproducers");
  const std::string path = join_path(folder, fmt::format("{}-{}.tir", name, getpid()));
  TENON_RETURN_IF_ERROR(make_folders(folder, 0700));
  TENON_RETURN_IF_ERROR(write_file(path, text, 0600));
  return path;
}

}  // namespace tenon
