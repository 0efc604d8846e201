#include "objects.h"

#include "report.h"
#include "tenon/cpp/status.hpp"

namespace tenon::validation {

ObjectRef Objects::add(Kind kind, const void* handle, tenon_device_t* device, ObjectRef* out_twin) {
  auto object = std::make_shared<Object>();
  object->kind = kind;
  object->handle = handle;
  object->device = device;
  const std::lock_guard lock(map_mutex_);
  ObjectRef& place = living_[key(kind, handle, device)];
  *out_twin = place;
  if (place != nullptr && kind == Kind::kDevice) return place;
  return place = std::move(object);
}

ObjectRef Objects::find(Kind kind, const void* handle, tenon_device_t* device,
                        std::string* why) const {
  if (handle == nullptr) {
    *why = cat("the ", name_of(kind), " is null");
    return nullptr;
  }
  const std::lock_guard lock(map_mutex_);
  if (const auto found = living_.find(key(kind, handle, device)); found != living_.end())
    return found->second;
  const bool gone = gone_.count(key(kind, handle, device)) != 0;
  *why = cat("the ", name_of(kind), " ", hex(handle),
             gone ? " was released before" : " is none that this plugin made");
  for (const auto& [other, object] : living_) {
    if (std::get<0>(other) != kind && std::get<1>(other) == handle)
      *why += cat("; there is a ", name_of(std::get<0>(other)), " of that address");
    if (std::get<0>(other) == kind && std::get<1>(other) == handle)
      *why += "; another device has one of that address";
  }
  return nullptr;
}

void Objects::remove(const Object& object) {
  const std::lock_guard lock(map_mutex_);
  const Key k = key(object.kind, object.handle, object.device);
  living_.erase(k);
  if (gone_.size() > 100000)
    gone_.clear();  // a long run; messages then say "none that this plugin made"
  gone_[k] = true;
}

std::vector<ObjectRef> Objects::living(tenon_device_t* device) const {
  std::vector<ObjectRef> found;
  const std::lock_guard lock(map_mutex_);
  for (const auto& [k, object] : living_) {
    if (device == nullptr || (object->device == device && object->kind != Kind::kDevice))
      found.push_back(object);
  }
  return found;
}

std::vector<ObjectRef> Objects::living_of(Kind kind, tenon_device_t* device) const {
  std::vector<ObjectRef> found;
  const std::lock_guard lock(map_mutex_);
  for (const auto& [k, object] : living_) {
    if (object->kind == kind && (device == nullptr || object->device == device))
      found.push_back(object);
  }
  return found;
}

std::string summary(const std::vector<ObjectRef>& objects) {
  std::array<uint64_t, kKindNames.size()> counts = {};
  for (const ObjectRef& object : objects) ++counts[static_cast<size_t>(object->kind)];
  std::string text;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] != 0)
      text +=
          cat(text.empty() ? "" : ", ", counts[i], " ", kKindNames[i], counts[i] == 1 ? "" : "s");
  }
  return text;
}

}  // namespace tenon::validation
