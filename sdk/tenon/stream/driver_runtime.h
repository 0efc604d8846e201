// What the drivers of several vendors do by functions of the same shape: streams, events, copies,
// modules, launches. HIP's functions are CUDA's under other names.
//
// A vendor's Driver is a record of functions, looked up at run time, that return a Result, 0 for
// success. It names the types Result, Stream, Event, Module, Function, Pointer (an address: a
// pointer or an integer), Word (the pattern of a fill), Graph and GraphExec, and has the members
// that are called below; `capture_mode` and `capture_state` may be null. The vendor derives its
// Runtime from DriverRuntime<Driver> and adds contexts, memory, how code is loaded, how many groups
// may start, and what an error means.
//
// Users: plugins/cuda, plugins/rocm.
#ifndef TENON_STREAM_DRIVER_RUNTIME_H_
#define TENON_STREAM_DRIVER_RUNTIME_H_

#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "tenon/cpp/plugin.hpp"
#include "tenon/cpp/process_guard.hpp"
#include "tenon/stream/runtime.h"
#include "tenon/stream/steady.h"

namespace tenon::stream {

template <class Driver>
class DriverRuntime;

// Kernels of a program, by their place in it, each of a module of its own, and graphs of their
// launches. Unloaded when no work uses it.
template <class Driver>
struct DriverModule final : kernelgen::LoadedText, Steady {
  explicit DriverModule(DriverRuntime<Driver>& owner) : runtime(owner) {}
  ~DriverModule() override {
    const Current current(runtime);
    forget();
    for (const auto module : modules) (void)runtime.driver().module_unload(module);
  }
  Status record(std::span<OwnLaunch> launches, GraphRef* out) override {
    return runtime.record(*this, launches, out);
  }

  DriverRuntime<Driver>& runtime;
  std::vector<typename Driver::Module> modules;
  std::vector<typename Driver::Function> functions;
};

template <class Driver>
class DriverGraph final : public Graph {
 public:
  DriverGraph(DriverRuntime<Driver>& runtime, typename Driver::GraphExec exec)
      : runtime_(runtime), exec_(exec) {}
  ~DriverGraph() override {
    const Current current(runtime_);
    (void)runtime_.driver().graph_exec_destroy(exec_);
  }
  Status launch(StreamHandle stream) override { return runtime_.launch_graph(stream, exec_); }

 private:
  DriverRuntime<Driver>& runtime_;
  const typename Driver::GraphExec exec_;
};

template <class Driver>
class DriverRuntime : public Runtime {
 public:
  using Loaded = DriverModule<Driver>;

  // name: prefix of reasons. Both must live as long as the runtime.
  DriverRuntime(std::string_view name, const Driver& driver) : d_(driver), name_(name) {}
  const Driver& driver() const { return d_; }

  Status check_stream(StreamHandle stream) override {
    TENON_TRY(check_handle(stream));
    return check_records_nothing(stream);
  }
  Status stream_create(StreamHandle* out) override {
    const ProcessGuard guard;  // a stream may start a thread
    constexpr unsigned kNonBlocking = 1;
    typename Driver::Stream stream = nullptr;
    TENON_TRY(check(d_.stream_create(&stream, kNonBlocking), "making a stream"));
    *out = stream;
    return {};
  }
  Status stream_destroy(StreamHandle stream) override {
    return check(d_.stream_destroy(stream_of(stream)), "destroying a stream");
  }
  Status stream_synchronize(StreamHandle stream) override {
    return check(d_.stream_synchronize(stream_of(stream)), "waiting for a stream");
  }
  Status stream_wait(StreamHandle stream, EventHandle event) override {
    return check(d_.stream_wait(stream_of(stream), event_of(event), 0), "waiting for an event");
  }

  Status event_create(bool timed, EventHandle* out) override {
    constexpr unsigned kBlockingSync = 1, kDisableTiming = 2;
    typename Driver::Event event = nullptr;
    TENON_TRY(check(d_.event_create(&event, timed ? kBlockingSync : kBlockingSync | kDisableTiming),
                    "making an event"));
    *out = event;
    return {};
  }
  void event_destroy(EventHandle event) override { (void)d_.event_destroy(event_of(event)); }
  Status event_record(EventHandle event, StreamHandle stream) override {
    return check(d_.event_record(event_of(event), stream_of(stream)), "recording an event");
  }
  Status event_synchronize(EventHandle event) override {
    return check(d_.event_synchronize(event_of(event)), "waiting for work on the device");
  }
  Status event_query(EventHandle event, bool* out) override {
    // Of CUDA, and of HIP. Errors of captures say nothing about the event.
    constexpr typename Driver::Result kNotReady = 600, kFirstOfCaptures = 900, kCapturedEvent = 907;
    const auto result = d_.event_query(event_of(event));
    *out = result == 0;
    if (result == kCapturedEvent)
      return fail(TENON_UNAVAILABLE,
                  cat(name_,
                      ": the event was recorded into a graph, so it happens only there; give "
                      "one that was recorded on a stream that records no graph"));
    if (result == kNotReady || (result >= kFirstOfCaptures && result < kCapturedEvent)) return {};
    return check(result, "asking for an event");
  }
  Status event_elapsed(EventHandle from, EventHandle to, float* out_ms) override {
    return check(d_.event_elapsed(out_ms, event_of(from), event_of(to)), "reading a kernel's time");
  }

  Status alloc_pinned(uint64_t size_bytes, void** out) override {
    constexpr unsigned kPortable = 1;
    return check(d_.host_alloc(out, size_bytes, kPortable),
                 cat("allocating ", size_bytes, " bytes of pinned memory"));
  }
  Status free_pinned(void* data) override {
    return check(d_.host_free(data), "freeing pinned memory");
  }

  Status copy_in(StreamHandle stream, Address to, const void* from, uint64_t bytes) override {
    return check(d_.copy_in(pointer(to), from, bytes, stream_of(stream)), "copying to the device");
  }
  Status copy_out(StreamHandle stream, void* to, Address from, uint64_t bytes) override {
    return check(d_.copy_out(to, pointer(from), bytes, stream_of(stream)),
                 "copying from the device");
  }
  Status copy_within(StreamHandle stream, Address to, Address from, uint64_t bytes) override {
    return check(d_.copy_within(pointer(to), pointer(from), bytes, stream_of(stream)),
                 "copying on the device");
  }
  Status fill(StreamHandle stream, Address to, uint32_t pattern, uint32_t width,
              uint64_t count) override {
    const auto s = stream_of(stream);
    const auto result =
        width == 1 ? d_.fill_8(pointer(to), static_cast<unsigned char>(pattern), count, s)
        : width == 2
            ? d_.fill_16(pointer(to), static_cast<unsigned short>(pattern), count, s)
            : d_.fill_32(pointer(to), static_cast<typename Driver::Word>(pattern), count, s);
    return check(result, "filling memory");
  }

  Status launch(StreamHandle stream, kernelgen::LoadedText& code, const Launch& launch) override {
    TENON_TRY(check_groups(launch));
    std::vector<void*> parameters;
    for (uint64_t& argument : launch.arguments) parameters.push_back(&argument);
    const auto function = static_cast<Loaded&>(code).functions[launch.kernel];
    return check(d_.launch(function, static_cast<unsigned>(launch.groups), 1, 1, launch.group, 1, 1,
                           0, stream_of(stream), parameters.data(), nullptr),
                 cat("starting ", launch.name));
  }

  // Loads the kernels of a program, an image for each. Current on the calling thread.
  Status load(std::span<const std::string_view> images, const kernelgen::DeviceProgram& program,
              std::unique_ptr<kernelgen::LoadedText>* out) {
    const ProcessGuard guard;
    auto loaded = std::make_unique<Loaded>(*this);
    for (size_t i = 0; i < program.kernels.size(); ++i) {
      const std::string& entry = program.kernels[i].entry;
      typename Driver::Module module = nullptr;
      TENON_TRY(load_module(std::string(images[i]), &module));
      loaded->modules.push_back(module);
      typename Driver::Function function = nullptr;
      TENON_TRY(check(d_.module_function(&function, module, entry.c_str()),
                      cat("finding kernel ", entry)));
      loaded->functions.push_back(function);
    }
    *out = std::move(loaded);
    return {};
  }

  Steady* steady(kernelgen::LoadedText& code) override {
    return d_.has_graphs() ? &static_cast<Loaded&>(code) : nullptr;
  }
  // On a stream of its own, which runs nothing: that of a run may be another library's, or the
  // default one, on which nothing can be recorded.
  Status record(kernelgen::LoadedText& code, std::span<OwnLaunch> launches, GraphRef* out) {
    StreamHandle stream = nullptr;
    TENON_TRY(stream_create(&stream));
    typename Driver::Graph graph = nullptr;
    const Status recorded = record_on(stream, code, launches, &graph);
    typename Driver::GraphExec exec = nullptr;
    const Status made = recorded.ok() ? instantiate(&exec, graph) : recorded;
    if (graph != nullptr) (void)d_.graph_destroy(graph);
    (void)d_.stream_destroy(stream_of(stream));
    TENON_TRY(made);
    *out = std::make_shared<DriverGraph<Driver>>(*this, exec);
    return {};
  }
  Status launch_graph(StreamHandle stream, typename Driver::GraphExec exec) {
    return check(d_.graph_launch(exec, stream_of(stream)), "starting a graph");
  }

 protected:
  // Handle 2 is another stream for each thread, and work that waits goes on from other threads.
  Status check_handle(StreamHandle stream) const {
    constexpr uintptr_t kPerThread = 2;
    if (reinterpret_cast<uintptr_t>(stream) != kPerThread) return {};
    return fail(TENON_INVALID_ARGUMENT,
                cat(name_,
                    ": the default stream of a thread is another one for each thread; give a "
                    "stream of your own, or the default stream of all threads"));
  }
  // What is put on a stream that records does not run, but becomes part of its owner's graph, with
  // the addresses of our buffers; and waiting for it ends the recording.
  Status check_records_nothing(StreamHandle stream) const {
    constexpr typename Driver::Result kImplicit = 906;  // of CUDA, and of HIP
    if (d_.capture_state == nullptr) return {};
    int state = 0;  // 1: it records; 2: it does, and something has spoiled the graph
    const auto result = d_.capture_state(stream_of(stream), &state);
    if (result == 0 && state == 0) return {};
    if (result == kImplicit)
      return fail(
          TENON_UNIMPLEMENTED,
          cat(name_,
              ": a stream that the default stream waits for records a graph; call the model "
              "before or after the recording, or give another stream"));
    if (result != 0)
      return fail(TENON_INVALID_ARGUMENT, cat(name_, ": the handle is not one of a stream"));
    return fail(TENON_UNIMPLEMENTED,
                cat(name_,
                    ": the stream records a graph, and the work of a call cannot be recorded; call "
                    "the model before or after the recording, or give another stream"));
  }
  // Other libraries of the process may record graphs. While one does so in the global mode, which
  // is the usual one, a call that no graph can hold (an event's state, a wait, an allocation,
  // loading code) fails on every thread, and ends that recording, unless the calling thread is
  // relaxed. So it is between enter() and leave(), which call these; in pairs that may be nested.
  Status relax() {
    Relaxed& relaxed = relaxed_here();
    if (relaxed.depth == 0 && d_.capture_mode != nullptr) {
      int mode = kRelaxed;
      const auto result = d_.capture_mode(&mode);
      if (result != 0) {
        // A driver may fail with an earlier error, and have done it.
        if (mode != kRelaxed) (void)d_.capture_mode(&mode);
        return check(result, "letting other libraries record graphs");
      }
      relaxed.before = mode;
    }
    ++relaxed.depth;
    return {};
  }
  void restore() {
    Relaxed& relaxed = relaxed_here();
    if (--relaxed.depth > 0 || d_.capture_mode == nullptr) return;
    int mode = relaxed.before;
    (void)d_.capture_mode(&mode);
  }

  virtual Status check(typename Driver::Result result, std::string_view doing) const = 0;
  // OUT_OF_RANGE with a reason for more groups than the driver starts at once.
  virtual Status check_groups(const Launch& launch) const = 0;
  // On a failure there is no module.
  virtual Status load_module(const std::string& image, typename Driver::Module* out) const = 0;
  // A recording that has begun is ended, whatever happens in it.
  Status record_on(StreamHandle stream, kernelgen::LoadedText& code, std::span<OwnLaunch> launches,
                   typename Driver::Graph* out) {
    // Relaxed: other threads may do what they like meanwhile.
    TENON_TRY(check(d_.capture_begin(stream_of(stream), kRelaxed), "beginning a graph"));
    Status status;
    for (OwnLaunch& one : launches) {
      if (status.ok()) status = launch(stream, code, one.get());
    }
    const auto ended = d_.capture_end(stream_of(stream), out);
    return status.ok() ? check(ended, "recording a graph") : status;
  }
  Status instantiate(typename Driver::GraphExec* out, typename Driver::Graph graph) {
    const ProcessGuard guard;  // it may start a thread
    return check(d_.instantiate(out, graph), "making a graph");
  }
  static typename Driver::Stream stream_of(StreamHandle s) {
    return static_cast<typename Driver::Stream>(s);
  }
  static typename Driver::Event event_of(EventHandle e) {
    return static_cast<typename Driver::Event>(e);
  }
  static typename Driver::Pointer pointer(Address a) {
    if constexpr (std::is_pointer_v<typename Driver::Pointer>) {
      return reinterpret_cast<typename Driver::Pointer>(a);
    } else {
      return static_cast<typename Driver::Pointer>(a);
    }
  }

  const Driver& d_;
  const std::string_view name_;

 private:
  static constexpr int kRelaxed = 2;
  struct Relaxed {
    int depth = 0, before = 0;
  };
  static Relaxed& relaxed_here() {
    static thread_local Relaxed here;
    return here;
  }
};

}  // namespace tenon::stream
#endif
