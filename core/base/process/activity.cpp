#include "core/base/process/activity.h"

#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <new>

#include "core/base/cache.h"
#include "core/base/file.h"
#include "core/base/process/environment.h"
#include "core/base/str.h"

namespace tenon {

// The innermost activity of one thread, on a cache line of its own. Notes are never freed, because
// a signal handler may be reading them; the next thread takes one that is free.
struct alignas(64) ThreadNote {
  std::atomic<const Activity*> innermost{nullptr};
  std::atomic<bool> taken{true};
  ThreadNote* next = nullptr;
};

namespace {

std::atomic<ThreadNote*> g_notes{nullptr};
thread_local ThreadNote* t_note = nullptr;

// Gives the note back when the thread ends.
struct NoteOwner {
  ~NoteOwner() {
    if (t_note != nullptr) t_note->taken.store(false, std::memory_order_release);
    t_note = nullptr;
  }
  void take(ThreadNote* note) { t_note = note; }
};
thread_local NoteOwner t_owner;

ThreadNote* free_note() {
  for (ThreadNote* note = g_notes.load(std::memory_order_acquire); note != nullptr;
       note = note->next) {
    bool taken = false;
    if (note->taken.compare_exchange_strong(taken, true, std::memory_order_acquire)) return note;
  }
  return nullptr;
}

// Null without memory.
ThreadNote* note_of_thread() {
  if (t_note != nullptr) [[likely]]
    return t_note;
  ThreadNote* note = free_note();
  if (note == nullptr) {
    note = new (std::nothrow) ThreadNote;
    if (note == nullptr) return nullptr;
    note->next = g_notes.load(std::memory_order_relaxed);
    while (!g_notes.compare_exchange_weak(note->next, note, std::memory_order_release)) {
    }
  }
  t_owner.take(note);
  return note;
}

// Text in a buffer of fixed size, for a signal handler.
class Line {
 public:
  Line(char* text, size_t size_bytes) : text_(text), room_(size_bytes == 0 ? 0 : size_bytes - 1) {
    if (size_bytes != 0) text_[0] = 0;
  }
  // Bytes that a terminal would act on become `?`.
  void add(std::string_view part) {
    for (const char c : part.substr(0, room_ - length_))
      text_[length_++] = c >= 0x20 && c < 0x7f ? c : '?';
    if (room_ != 0) text_[length_] = 0;
  }
  size_t length() const { return length_; }

 private:
  char* text_;
  size_t room_, length_ = 0;
};

}  // namespace

Activity::Activity(std::string_view kind, std::string_view name, const void* code,
                   Result<std::string> (*save)(const void* self), const void* self)
    : kind_(kind), name_(name), code_(code), save_(save), self_(self), note_(note_of_thread()) {
  if (note_ == nullptr) return;
  outer_ = note_->innermost.load(std::memory_order_relaxed);
  note_->innermost.store(this, std::memory_order_release);
}

size_t Activity::describe(char* text, size_t size_bytes) const {
  Line line(text, size_bytes);
  line.add(kind_);
  line.add(" `");
  line.add(name_);
  line.add("`");
  Dl_info found = {};
  if (code_ != nullptr && dladdr(code_, &found) != 0 && found.dli_fname != nullptr) {
    const std::string_view path = found.dli_fname;
    line.add(" in ");
    line.add(path.substr(path.rfind('/') + 1));
  }
  return line.length();
}

Activity::~Activity() {
  if (note_ != nullptr) note_->innermost.store(outer_, std::memory_order_release);
}

const Activity* Activity::current() {
  const Activity* found = t_note == nullptr ? nullptr : t_note->innermost.load();
  for (ThreadNote* note = g_notes.load(); found == nullptr && note != nullptr; note = note->next)
    found = note->innermost.load();
  return found;
}

Result<std::string> Activity::save() const {
  if (save_ == nullptr) return error(TENON_UNAVAILABLE, "T0801", "there is nothing to save");
  return save_(self_);
}

Result<std::string> save_reproducer(std::string_view name, std::string_view text,
                                    std::string_view sidecar) {
  std::string folder;
  if (const auto chosen = env("TENON_REPRODUCER_DIR")) folder = std::string(*chosen);
  if (folder.empty() && Cache::process().usable()) folder = Cache::process().reproducers();
  if (folder.empty())
    return error(TENON_UNAVAILABLE, "T0801", "there is no folder for reproducers");
  const std::string path = join_path(folder, fmt::format("{}-{}.tir", name, getpid()));
  TENON_RETURN_IF_ERROR(make_folders(folder, 0700));
  if (!sidecar.empty()) TENON_RETURN_IF_ERROR(write_file(path + ".bin", sidecar, 0600));
  TENON_RETURN_IF_ERROR(write_file(path, text, 0600));
  return path;
}

}  // namespace tenon
