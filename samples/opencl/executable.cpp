// tenon.compile/1: compiles kernelgen's OpenCL C with the driver's compiler, and starts kernels.
#include <charconv>

#include "submission.h"
#include "tenon/cpp/process_guard.hpp"
#include "tenon/kernelgen/device/text_executable.h"
#include "tenon/kernelgen/print/intel.h"

namespace opencl_sample {
namespace {

namespace kg = tenon::kernelgen;
using tenon::cat;
using tenon::fail;
using tenon::Status;

// A program with its kernels. Arguments are state of a kernel, so one thread at a time sets them
// and starts it.
struct Program final : kg::LoadedText {
  const Functions* cl = nullptr;
  cl_program program = nullptr;
  std::vector<cl_kernel> kernels;
  std::mutex mutex;

  ~Program() override {
    for (cl_kernel k : kernels) cl->clReleaseKernel(k);
    if (program != nullptr) cl->clReleaseProgram(program);
  }
};

Status build(const Functions& cl, const Found& found, cl_program program) {
  const cl_device_id id = found.id;
  const cl_int code = cl.clBuildProgram(program, 1, &id, found.options.c_str(), nullptr, nullptr);
  if (code == CL_SUCCESS) return {};
  size_t size = 0;
  cl.clGetProgramBuildInfo(program, id, CL_PROGRAM_BUILD_LOG, 0, nullptr, &size);
  std::string log(size, '\0');
  cl.clGetProgramBuildInfo(program, id, CL_PROGRAM_BUILD_LOG, size, log.data(), nullptr);
  return fail(TENON_INTERNAL, cat("opencl: the driver refuses the generated text: ", log.c_str()));
}

// The number after `key` in a target; 0 if it has none.
uint32_t number_of(std::string_view target, std::string_view key) {
  uint32_t number = 0;
  if (const size_t at = target.find(key); at != std::string_view::npos)
    std::from_chars(target.data() + at + key.size(), target.data() + target.size(), number);
  return number;
}

// Sub-groups by local memory, which belongs to kernels alone. All items of a group exchange values
// together.
constexpr std::string_view kEmulated = R"CL(
static inline ulong word_of(local ulong* words, ulong x, uint by, uint warp) {
  const uint lane = get_local_id(0), first = lane / warp * warp, from = by == 0 ? first : lane + by;
  words[lane] = x;
  barrier(CLK_LOCAL_MEM_FENCE);
  const ulong word = from < first + warp ? words[from] : x;
  barrier(CLK_LOCAL_MEM_FENCE);
  return word;
}
#define warp_word(x, by, warp) word_of(words, x, by, warp)
)CL";

std::string emulated_sub_groups(std::string_view text, uint32_t group) {
  constexpr std::string_view kKernel = "\n__kernel ", kBody = ") {\n";
  std::string out(kEmulated);
  size_t at = 0;
  for (size_t next = 0; (next = text.find(kKernel, at)) != std::string_view::npos;) {
    const size_t body = text.find(kBody, next) + kBody.size();
    out += cat(text.substr(at, body - at), "  local ulong words[", group, "];\n");
    at = body;
  }
  return out.append(text.substr(at));
}

// What the driver gets.
std::string unit(std::string_view target, std::string_view text) {
  if (const uint32_t width = number_of(target, " sub_groups="); width != 0)
    return cat(kg::intel_sub_groups(width), text);
  if (number_of(target, " emulated=") != 0)
    return emulated_sub_groups(text, number_of(target, " group="));
  return std::string(text);
}

Status from_text(const Functions& cl, cl_context context, const Found& found, std::string_view text,
                 cl_program* out) {
  const std::string whole = unit(found.target, text);
  const char* source = whole.data();
  const size_t length = whole.size();
  cl_int code = CL_SUCCESS;
  *out = cl.clCreateProgramWithSource(context, 1, &source, &length, &code);
  TENON_TRY(check(code, "making a program"));
  return build(cl, found, *out);
}

bool from_binary(const Functions& cl, cl_context context, const Found& found,
                 std::string_view binary, cl_program* out) {
  const cl_device_id id = found.id;
  const auto* data = reinterpret_cast<const unsigned char*>(binary.data());
  const size_t length = binary.size();
  cl_int loaded = CL_SUCCESS, code = CL_SUCCESS;
  *out = cl.clCreateProgramWithBinary(context, 1, &id, &length, &data, &loaded, &code);
  if (code == CL_SUCCESS && loaded == CL_SUCCESS &&
      cl.clBuildProgram(*out, 1, &id, found.options.c_str(), nullptr, nullptr) == CL_SUCCESS)
    return true;
  if (*out != nullptr) cl.clReleaseProgram(*out);
  *out = nullptr;
  return false;
}

std::string binary_of(const Functions& cl, cl_program program) {
  size_t size = 0;
  if (cl.clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof size, &size, nullptr) !=
      CL_SUCCESS)
    return {};
  std::string binary(size, '\0');
  auto* data = reinterpret_cast<unsigned char*>(binary.data());
  if (cl.clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof data, &data, nullptr) != CL_SUCCESS)
    return {};
  return binary;
}

cl_ulong profiled(const Functions& cl, cl_event event, cl_profiling_info what) {
  cl_ulong ns = 0;
  cl.clGetEventProfilingInfo(event, what, sizeof ns, &ns, nullptr);
  return ns;
}

// A kernel's arguments, for a start that may happen later.
struct Start {
  Program* program;
  uint32_t kernel;
  std::string name;
  std::vector<kg::MemoryRange> memory;
  std::vector<int64_t> extents;
  size_t items, group;
  bool timed;
};

// Parts of buffers that are arguments of one kernel; OpenCL keeps them until it has run.
struct Views {
  const Functions& cl;
  std::vector<cl_mem> made;
  ~Views() {
    for (cl_mem m : made) cl.clReleaseMemObject(m);
  }
  Status of(const kg::MemoryRange& range, cl_mem* out) {
    *out = buffer_of(range.buffer)->memory;
    // A kernel that gets both a buffer and parts of it would be undefined. So buffers are passed as
    // parts, except those used whole.
    if (range.offset_bytes == 0 && range.size_bytes >= buffer_of(range.buffer)->size_bytes)
      return {};
    const cl_buffer_region region{range.offset_bytes, range.size_bytes == 0 ? 1 : range.size_bytes};
    cl_int code = CL_SUCCESS;
    *out =
        cl.clCreateSubBuffer(*out, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &region, &code);
    TENON_TRY(check(code, cat("viewing ", range.size_bytes, " bytes at ", range.offset_bytes)));
    made.push_back(*out);
    return {};
  }
};

Status start_kernel(Work& work, const Start& start) {
  const Functions& cl = *work.line.cl;
  const cl_kernel kernel = start.program->kernels[start.kernel];
  Views views{cl, {}};
  const std::lock_guard lock(start.program->mutex);
  cl_uint argument = 0;
  cl_int status = CL_SUCCESS;
  const auto set = [&](size_t size, const void* value) {
    if (status == CL_SUCCESS) status = cl.clSetKernelArg(kernel, argument++, size, value);
  };
  const auto set_memory = [&](const kg::MemoryRange& range) -> Status {
    cl_mem memory = nullptr;
    TENON_TRY(views.of(range, &memory));
    set(sizeof memory, &memory);
    return {};
  };
  for (size_t i = 0; i + 1 < start.memory.size(); ++i) TENON_TRY(set_memory(start.memory[i]));
  for (int64_t extent : start.extents) set(sizeof extent, &extent);
  // Scratch is the last argument. A kernel without scratch has no such argument, so OpenCL's
  // refusal is ignored. A kernel with scratch that needs none, for tensors without elements, still
  // requires the argument to be set.
  const cl_mem none = nullptr;
  if (start.memory.back().size_bytes != 0)
    TENON_TRY(set_memory(start.memory.back()));
  else if (status == CL_SUCCESS)
    (void)cl.clSetKernelArg(kernel, argument, sizeof none, &none);
  TENON_TRY(check(status, cat("setting the arguments of ", start.name)));
  cl_event event = nullptr;
  status = cl.clEnqueueNDRangeKernel(work.line.queue, kernel, 1, nullptr, &start.items,
                                     start.group == 0 ? nullptr : &start.group, 0, nullptr,
                                     start.timed ? &event : nullptr);
  if (event != nullptr) work.timed.push_back(event);
  return check(status, cat("starting ", start.name));
}

class Submission final : public kg::Submission {
 public:
  Submission(Device& device, std::shared_ptr<Line> line, bool timed)
      : device_(device),
        line_(*line),
        timed_(timed),
        work_(std::make_shared<Work>(std::move(line))) {}
  ~Submission() override {
    if (!finished_ && !work_->held) line_.cl->clFinish(line_.queue);
  }
  void wait_for(std::span<const tenon_fence_point_t> points) {
    opencl_sample::wait_for(points, work_);
  }

  Status start(kg::LoadedText& code, const kg::KernelStart& s) override {
    Start start{&static_cast<Program&>(code),
                s.kernel,
                std::string(s.name),
                {s.memory.begin(), s.memory.end()},
                {s.extents.begin(), s.extents.end()},
                s.items,
                s.group,
                timed_};
    start.memory.push_back(s.scratch);
    return put(*work_, [work = work_.get(), start = std::move(start)] {
      return start_kernel(*work, start);
    });
  }

  Status read(const kg::MemoryRange& from, void* to) override {
    return put(*work_, [&line = line_, from, to] {
      return check(
          line.cl->clEnqueueReadBuffer(line.queue, buffer_of(from.buffer)->memory, CL_FALSE,
                                       from.offset_bytes, from.size_bytes, to, 0, nullptr, nullptr),
          "reading what a run found");
    });
  }

  Status finish(tenon_fence_point_t signal, kg::Completion done) override {
    work_->done = [done = std::move(done), &cl = *line_.cl](std::span<const cl_event> timed,
                                                            std::string* why) {
      std::vector<kg::KernelTime> times;
      for (cl_event e : timed)
        times.push_back({profiled(cl, e, CL_PROFILING_COMMAND_START),
                         profiled(cl, e, CL_PROFILING_COMMAND_END)});
      return done(times, why);
    };
    if (&line_ != device_.own.get()) {
      work_->signal = signal;
      TENON_TRY(signal_after(work_));
      finished_ = true;
      return {};
    }
    auto end = std::make_shared<Fence>(&device_, 0);
    work_->signal = {reinterpret_cast<tenon_fence_t*>(&end), 1};
    TENON_TRY(signal_after(work_));
    finished_ = true;
    const Status status = end->wait(1, UINT64_MAX);
    if (status.ok() && signal.fence != nullptr) fence_of(signal.fence)->signal(signal.value);
    return status;
  }

 private:
  Device& device_;
  Line& line_;
  const bool timed_;
  bool finished_ = false;
  std::shared_ptr<Work> work_;
};

class OpenCl final : public kg::TextDevice {
 public:
  std::string_view name() const override { return "opencl"; }
  kg::DeviceRates rates() const override { return {10, 10, 50000}; }
  const tenon_device_api_t& memory() const override { return kDeviceTable; }
  uint64_t alignment_bytes(tenon_device_t* device) const override {
    return alignment_of(*device_of(device)->found);
  }

  kg::Target target(std::string_view text) const override {
    kg::Target out = kg::Target::opencl(text.find("fp64=1") != std::string_view::npos,
                                        number_of(text, " group="));
    out.warp = number_of(text, " sub_groups=") + number_of(text, " emulated=");
    return out;
  }

  Status compile(std::string_view target, std::string_view text,
                 std::string* out_binary) const override {
    const Found* found = find_target(target);
    std::string why;
    const Functions* cl = functions(&why);
    if (cl == nullptr || found == nullptr) return {};  // for a device of another machine
    const tenon::ProcessGuard guard;
    cl_int code = CL_SUCCESS;
    const cl_context context = cl->clCreateContext(nullptr, 1, &found->id, nullptr, nullptr, &code);
    TENON_TRY(check(code, "making a context"));
    Program built;
    built.cl = cl;
    const Status status = from_text(*cl, context, *found, text, &built.program);
    if (status.ok()) *out_binary = binary_of(*cl, built.program);
    cl->clReleaseContext(context);
    return status;
  }

  Status load(tenon_device_t* d, const kg::DeviceProgram& program,
              std::span<const std::string_view> binaries, std::string_view text,
              std::unique_ptr<kg::LoadedText>* out) const override {
    const std::string_view binary = binaries[0];
    const Device& device = *device_of(d);
    const Functions& cl = *device.cl;
    const tenon::ProcessGuard guard;
    auto built = std::make_unique<Program>();
    built->cl = &cl;
    if (binary.empty() ||
        !from_binary(cl, device.context, *device.found, binary, &built->program)) {
      TENON_TRY(from_text(cl, device.context, *device.found, text, &built->program));
    }
    cl_int code = CL_SUCCESS;
    for (const kg::ProgramKernel& kernel : program.kernels) {
      built->kernels.push_back(cl.clCreateKernel(built->program, kernel.entry.c_str(), &code));
      if (code != CL_SUCCESS) built->kernels.pop_back();
      TENON_TRY(check(code, cat("finding kernel ", kernel.entry)));
    }
    *out = std::move(built);
    return {};
  }

  Status submit(tenon_device_t* d, tenon_queue_t* queue, std::span<const tenon_fence_point_t> waits,
                bool timed, std::unique_ptr<kg::Submission>* out) const override {
    Device& device = *device_of(d);
    auto work = std::make_unique<Submission>(
        device, queue != nullptr ? queue_of(queue)->line : device.own, timed);
    work->wait_for(waits);
    *out = std::move(work);
    return {};
  }
};

OpenCl device;

}  // namespace

const tenon_compile_api_t kCompileTable = device.table();

}  // namespace opencl_sample
