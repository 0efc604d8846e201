// Option again=1: what was executed is executed again with the same inputs and buffers of the
// layer's own, alone and then several times at once. Where the results differ, executions share
// what each should have for itself. Of devices that declare TENON_COMPILE_SAME_BITS.
#include <algorithm>
#include <barrier>
#include <thread>

#include "tenon/cpp/thread.hpp"
#include "validation.h"

namespace tenon::validation {
namespace {

constexpr uint32_t kTimes = 2;  // of each executable
constexpr size_t kAtOnce = 4, kRounds = 8;
constexpr uint64_t kMost = uint64_t{64} << 20;  // bytes of outputs and workspace

}  // namespace

// The buffers of one execution of the layer's own.
struct Validator::OwnCall {
  std::vector<tenon_span_t> outputs;
  tenon_buffer_t* workspace = nullptr;
  std::vector<std::vector<unsigned char>> got;
};

std::optional<Validator::Again> Validator::again(const ObjectRef& executable,
                                                 const tenon_call_t& call) {
  if (!again_ || device_ == nullptr || call.out_symbol_count != 0 || call.output != nullptr)
    return std::nullopt;
  Again out{.executable = executable};
  if (call.symbols.count != 0)
    out.symbols.assign(call.symbols.values, call.symbols.values + call.symbols.count);
  const std::lock_guard lock(objects_.mutex);
  const auto known = executable->needs.find(out.symbols);
  if (known == executable->needs.end() || executable->again >= kTimes) return std::nullopt;
  ++executable->again;
  out.needs = known->second;
  uint64_t bytes = out.needs.workspace_bytes;
  for (const KnownNeeds::Output& output : out.needs.outputs) {
    if (output.size_bytes_max > kMost) return std::nullopt;
    bytes += output.size_bytes_max;
  }
  for (uint32_t i = 0; i < call.input_count; ++i) out.inputs.push_back(*tenon_call_input(&call, i));
  if (bytes > kMost) return std::nullopt;
  return out;
}

bool Validator::make_own(const Again& of, OwnCall* out) {
  tenon_device_t* device = of.executable->device;
  for (const KnownNeeds::Output& output : of.needs.outputs) {
    tenon_span_t& span = out->outputs.emplace_back();
    if (device_->alloc(device_->self, device, output.size_bytes_max, &span.buffer) != TENON_OK)
      return out->outputs.pop_back(), false;
  }
  return of.needs.workspace_bytes == 0 ||
         device_->alloc(device_->self, device, of.needs.workspace_bytes, &out->workspace) ==
             TENON_OK;
}

void Validator::free_own(const Again& of, const OwnCall& own) {
  for (const tenon_span_t& span : own.outputs)
    (void)device_->free(device_->self, of.executable->device, span.buffer);
  if (own.workspace != nullptr)
    (void)device_->free(device_->self, of.executable->device, own.workspace);
}

bool Validator::run_own(const Again& of, OwnCall* own) {
  auto call = sized<tenon_call_t>();
  call.input_count = static_cast<uint32_t>(of.inputs.size());
  call.output_count = static_cast<uint32_t>(own->outputs.size());
  call.symbols = {of.symbols.data(), static_cast<uint32_t>(of.symbols.size())};
  call.span_bytes = sizeof(tenon_span_t);
  call.inputs = of.inputs.data();
  call.outputs = own->outputs.data();
  call.workspace = own->workspace;
  auto* executable = static_cast<tenon_executable_t*>(const_cast<void*>(of.executable->handle));
  if (compile_->execute(compile_->self, executable, &call) != TENON_OK) return false;
  own->got.resize(own->outputs.size());
  for (size_t i = 0; i < own->outputs.size(); ++i) {
    if (!read_back(of.executable->device, own->outputs[i].buffer, 0,
                   of.needs.outputs[i].size_bytes_max, &own->got[i]))
      return false;
  }
  return true;
}

// Whether the bits of results may not change from one execution to the next.
bool Validator::gives_same_bits(const Object& device) {
  auto properties = sized<tenon_compile_properties_t>();
  std::string target;
  {
    const std::lock_guard lock(mutex_);
    const auto known = infos_.find(device.ordinal);
    if (known == infos_.end()) return false;
    target = view(known->second.first.target);
  }
  return compile_->properties != nullptr &&
         compile_->properties(compile_->self, str(target), &properties) == TENON_OK &&
         (properties.flags & TENON_COMPILE_SAME_BITS) != 0;
}

void Validator::check_again(const Again& of) {
  std::string why;
  const ObjectRef device = objects_.find(Kind::kDevice, of.executable->device, nullptr, &why);
  if (device == nullptr || device->threading == TENON_THREADING_SERIAL || device->lost ||
      !gives_same_bits(*device))
    return;
  OwnCall alone;
  std::array<OwnCall, kAtOnce> together;
  bool ready = make_own(of, &alone) && run_own(of, &alone) && run_own(of, &alone);
  for (OwnCall& own : together) ready = ready && make_own(of, &own);
  std::atomic<size_t> differs = SIZE_MAX;
  if (ready) {
    std::barrier begin(kAtOnce);
    std::vector<std::thread> threads;
    for (OwnCall& own : together) {
      threads.push_back(start_thread([&] {
        for (size_t round = 0; round < kRounds; ++round) {
          begin.arrive_and_wait();
          if (!run_own(of, &own)) continue;
          for (size_t i = 0; i < own.got.size(); ++i) {
            if (own.got[i] != alone.got[i]) differs = i;
          }
        }
      }));
    }
    for (std::thread& thread : threads) thread.join();
  }
  for (const OwnCall& own : together) free_own(of, own);
  free_own(of, alone);
  if (differs != SIZE_MAX)
    broken("R-E13", "execute",
           cat("of ", kAtOnce,
               " executions at once, each with buffers of its own, one gives "
               "another output ",
               differs.load(), " than it gives alone"));
}

}  // namespace tenon::validation
