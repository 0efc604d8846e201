#include "tenon/stream/text_device.h"

#include <cstring>

#include "tenon/cpp/plugin.hpp"
#include "tenon/stream/steady.h"

namespace tenon::stream {

namespace {

namespace kg = kernelgen;

// A result of a few bytes on its way to the host through pinned memory, so that the copy does not
// stop the thread that submits it.
struct Read {
  void* slot;
  void* to;
  uint64_t bytes;
};

class Submission final : public kg::Submission {
 public:
  Submission(Device& device, std::shared_ptr<Line> line, bool timed)
      : device_(device),
        blocking_(line == device.own),
        timed_(timed),
        work_(std::make_shared<Work>(std::move(line))) {}

  ~Submission() override {
    if (finished_) return;
    // Work whose fences have yet to call back was never handed over.
    const Current current(*device_.runtime);
    if (!work_->held) (void)wait_out(*device_.runtime, work_->line->stream());
    for (const Read& read : *reads_) device_.give_slot(read.slot);
  }

  void wait_for(std::span<const tenon_fence_point_t> points) { stream::wait_for(points, work_); }

  // Kept until all of them are known: they may start as one.
  Status start(kg::LoadedText& code, const kg::KernelStart& s) override {
    if (code_ != &code) TENON_TRY(put_launches());
    code_ = &code;
    OwnLaunch launch{s.kernel, std::string(s.name), {}, s.items / s.group, s.group};
    for (const kg::MemoryRange& range : s.memory) launch.arguments.push_back(address_of(range));
    for (int64_t extent : s.extents) launch.arguments.push_back(static_cast<uint64_t>(extent));
    launch.arguments.push_back(s.scratch.buffer != nullptr ? address_of(s.scratch) : 0);
    launches_.push_back(std::move(launch));
    return {};
  }

  Status read(const kg::MemoryRange& from, void* to) override {
    TENON_TRY(put_launches());
    const Current current(*device_.runtime);
    TENON_TRY(current.status());
    if (from.size_bytes > kSlotBytes)
      return fail(TENON_INTERNAL, cat(device_.name, ": a run reads back more than a slot holds"));
    void* slot = nullptr;
    TENON_TRY(device_.slot(&slot));
    reads_->push_back({slot, to, from.size_bytes});
    return put(*work_, [line = work_->line.get(), slot, from] {
      return line->device().runtime->copy_out(line->stream(), slot, address_of(from),
                                              from.size_bytes);
    });
  }

  Status finish(tenon_fence_point_t signal, kg::Completion done) override {
    TENON_TRY(put_launches());
    const Current current(*device_.runtime);
    TENON_TRY(current.status());
    // The slots go back with the completion, whether it is called or not.
    std::shared_ptr<std::vector<Read>> reads(reads_.get(),
                                             [all = reads_, &device = device_](auto*) {
                                               for (const Read& read : *all)
                                                 device.give_slot(read.slot);
                                             });
    work_->done = [done = std::move(done), reads](std::span<const kg::KernelTime> times,
                                                  std::string* why) {
      for (const Read& read : *reads) std::memcpy(read.to, read.slot, read.bytes);
      return done(times, why);
    };
    reads.reset();
    if (!blocking_) {
      work_->signal = signal;
      finished_ = true;
      const Status status = stream::finish(work_);
      if (!status.ok()) work_->done = nullptr;  // gives the slots back
      return status;
    }
    Fence end(0);
    work_->signal = {reinterpret_cast<tenon_fence_t*>(&end), 1};
    finished_ = true;
    if (const Status status = stream::finish(work_); !status.ok()) {
      work_->done = nullptr;
      return status;
    }
    const Status status = end.timeline.wait(1, UINT64_MAX);
    if (status.ok() && signal.fence != nullptr)
      fence_of(signal.fence)->timeline.signal(signal.value);
    return status;
  }

 private:
  static Address address_of(const kg::MemoryRange& range) {
    return buffer_of(range.buffer)->address + range.offset_bytes;
  }

  Status put_launches() {
    if (launches_.empty()) return {};
    const Current current(*device_.runtime);
    TENON_TRY(current.status());
    return put(*work_, [work = work_.get(), code = code_, timed = timed_,
                        launches = std::exchange(launches_, {})]() mutable {
      return timed ? run_timed(*work, *code, launches) : run(*work, *code, launches);
    });
  }

  static Status run(Work& work, kg::LoadedText& code, std::span<OwnLaunch> launches) {
    Device& device = work.line->device();
    Runtime& runtime = *device.runtime;
    const StreamHandle stream = work.line->stream();
    Steady* const steady = runtime.steady(code);
    if (GraphRef graph = steady == nullptr ? nullptr : steady->graph_of(device.name, launches)) {
      work.graphs.push_back(graph);
      const Status status = graph->launch(stream);
      if (status.ok()) return status;
      steady->give_up(device.name, status.code());
    }
    for (OwnLaunch& launch : launches) TENON_TRY(runtime.launch(stream, code, launch.get()));
    return {};
  }

  static Status run_timed(Work& work, kg::LoadedText& code, std::span<OwnLaunch> launches) {
    Device& device = work.line->device();
    Runtime& runtime = *device.runtime;
    const StreamHandle stream = work.line->stream();
    for (OwnLaunch& launch : launches) {
      EventRef begin, end;
      TENON_TRY(device.event(true, &begin));
      TENON_TRY(device.event(true, &end));
      TENON_TRY(runtime.event_record(begin->handle(), stream));
      TENON_TRY(runtime.launch(stream, code, launch.get()));
      TENON_TRY(runtime.event_record(end->handle(), stream));
      work.timed.emplace_back(std::move(begin), std::move(end));
    }
    return {};
  }

  Device& device_;
  kg::LoadedText* code_ = nullptr;
  std::vector<OwnLaunch> launches_;  // not put on the stream yet, all of code_
  const bool blocking_, timed_;
  bool finished_ = false;
  const std::shared_ptr<std::vector<Read>> reads_ = std::make_shared<std::vector<Read>>();
  const WorkRef work_;
};

}  // namespace

Status TextDevice::submit(tenon_device_t* d, tenon_queue_t* queue,
                          std::span<const tenon_fence_point_t> waits, bool timed,
                          std::unique_ptr<kg::Submission>* out) const {
  Device& device = *device_of(d);
  auto work =
      std::make_unique<Submission>(device, queue != nullptr ? line_of(queue) : device.own, timed);
  work->wait_for(waits);
  *out = std::move(work);
  return {};
}

}  // namespace tenon::stream
