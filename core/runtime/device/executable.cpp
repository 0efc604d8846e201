#include "core/runtime/device/executable.h"

#include <tenon/cpp/record.hpp>

#include <algorithm>

#include "core/base/errors/failure.h"
#include "core/base/process/activity.h"
#include "core/base/str.h"

namespace tenon::runtime {

std::shared_ptr<const Needs> NeedsCache::find(std::span<const int64_t> symbols) {
  for (auto it = entries_.begin(); it != entries_.end(); ++it) {
    if (!std::equal(symbols.begin(), symbols.end(), it->symbols.begin(), it->symbols.end()))
      continue;
    entries_.splice(entries_.begin(), entries_, it);
    return it->needs;
  }
  return nullptr;
}

void NeedsCache::put(std::span<const int64_t> symbols, std::shared_ptr<const Needs> needs) {
  entries_.push_front({{symbols.begin(), symbols.end()}, std::move(needs)});
  if (entries_.size() > kEntriesMax) entries_.pop_back();
}

Result<std::unique_ptr<Executable>> Executable::load(std::shared_ptr<Device> device,
                                                     std::span<const std::byte> bytes,
                                                     Source source) {
  TENON_RETURN_IF_ERROR(device->open());
  std::unique_ptr<Executable> out(new Executable(device, source.by));
  out->output_ranks_ = std::move(source.output_ranks);
  const tenon_compile_api_t* api = out->api_;
  auto guard = device->serialise();
  clear_failure();
  tenon_executable_t* handle = nullptr;  // a local: a handle stored despite an error is not ours
  const auto count = static_cast<uint32_t>(source.constants.size());
  const tenon_code_t code =
      source.packed ? api->load_packed(api->self, device->handle(), bytes.data(), bytes.size(),
                                       source.constants.data(), count, &handle)
                    : api->load(api->self, device->handle(), bytes.data(), bytes.size(),
                                source.constants.data(), count, &handle);
  TENON_RETURN_IF_ERROR(device->check(code, source.packed ? "load_packed" : "load"));
  out->handle_ = handle;
  if (handle == nullptr)
    return error(TENON_INTERNAL, "T0612", "device {} loaded nothing", quoted(device->name()));
  out->info_.size_bytes = sizeof(tenon_executable_info_t);
  TENON_RETURN_IF_ERROR(
      device->check(api->executable_info(api->self, out->handle_, &out->info_), "executable_info"));
  return out;
}

Executable::~Executable() {
  if (handle_ == nullptr || plugins_shut_down()) return;
  if (device_->abandoned()) {
    device_->leave_behind(handle_);
    return;
  }
  auto guard = device_->serialise();
  api_->executable_release(api_->self, handle_);
}

Result<std::shared_ptr<const Needs>> Executable::needs(std::span<const int64_t> symbols) {
  std::lock_guard lock(mutex_);
  if (auto known = cache_.find(symbols)) return known;
  auto answer = std::make_shared<Needs>();
  std::vector<tenon_output_need_t> outputs(output_ranks_.size());
  answer->outputs.resize(output_ranks_.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    answer->outputs[i].dims.assign(output_ranks_[i], -1);
    outputs[i] = {0, answer->outputs[i].dims.data(), TENON_NO_ALIAS};
  }
  auto needs = sized<tenon_needs_t>();
  needs.output_count = static_cast<uint32_t>(outputs.size());
  needs.need_bytes = sizeof(tenon_output_need_t);
  needs.outputs = outputs.data();
  {
    auto guard = device_->serialise();
    clear_failure();
    TENON_RETURN_IF_ERROR(
        device_->check(api_->needs(api_->self, handle_,
                                   {symbols.data(), static_cast<uint32_t>(symbols.size())}, &needs),
                       "needs"));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    answer->outputs[i].size_bytes = outputs[i].size_bytes_max;
    answer->outputs[i].alias_input = outputs[i].alias_input;
    for (int64_t dim : answer->outputs[i].dims) {
      if (dim < 0 && outputs[i].size_bytes_max != TENON_SIZE_UNKNOWN)
        return error(TENON_INTERNAL, "T0612", "device {} gives output {} a dim of {}",
                     quoted(device_->name()), i, dim);
    }
  }
  answer->workspace_bytes = needs.workspace_bytes;
  answer->lower_bound_bytes = needs.lower_bound_bytes;
  cache_.put(symbols, answer);
  return std::shared_ptr<const Needs>(std::move(answer));
}

Status Executable::execute(const tenon_call_t& call) {
  TENON_RETURN_IF_ERROR(device_->alive());
  auto guard = device_->serialise_execution(call.queue != nullptr);
  clear_failure();
  const Activity activity("a run on device", device_->name(),
                          reinterpret_cast<const void*>(api_->execute));
  return device_->check(api_->execute(api_->self, handle_, &call), "run");
}

}  // namespace tenon::runtime
