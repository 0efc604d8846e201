#include "validation.h"

#include <cfenv>
#include <utility>
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace tenon::validation {
namespace {

// Rounding, masks and flushing. The sticky flags may change.
uint32_t float_state() {
#if defined(__SSE__)
  return _mm_getcsr() & ~uint32_t{0x3f};
#else
  return static_cast<uint32_t>(std::fegetround());
#endif
}

// The device whose execution is asking the host for an output on this thread.
thread_local const Object* t_asking = nullptr;

constexpr std::string_view kNothingSaid = "validation: the plugin gave no text";

tenon_failure_t last_failure() {
  auto failure = sized<tenon_failure_t>();
  if (context().host->last_failure(context().host->self, &failure) != TENON_OK) failure = {};
  return failure;
}

// Never destroyed: destructors of libraries run before the host's shutdown.
struct All {
  std::mutex mutex;
  std::vector<std::pair<Report*, Objects*>> plugins;
};
All& all() {
  static auto* instance = new All;
  return *instance;
}

}  // namespace

Watch::Watch(Report& report, std::string_view slot)
    : report_(report), slot_(slot), float_state_(float_state()) {
  // A record left from an earlier call would pass for the text of this call.
  if (last_failure().code != TENON_OK) (void)fail(TENON_UNKNOWN, kNothingSaid);
}

void Watch::after(tenon_code_t code) {
  if (float_state() != float_state_)
    report_.broken("R-I08", slot_, "it changed the floating-point state of the thread");
  if (code == TENON_OK) return;
  if (code > TENON_DEVICE_LOST)
    return report_.broken("R-B17", slot_, cat("it gave ", code, ", which is not a code of base.h"));
  const tenon_failure_t failure = last_failure();
  if (failure.code == TENON_OK || view(failure.message) == kNothingSaid ||
      view(failure.message).empty()) {
    return report_.broken("R-B17", slot_,
                          cat("it failed with ", code, " and gave no text to the host's fail"));
  }
  if (failure.code != code) {
    report_.broken("R-B17", slot_,
                   cat("it gave ", code, ", and ", failure.code,
                       " to the host's fail: ", quoted(view(failure.message))));
  }
}

Validator::Inside::Inside(Validator& v, const ObjectRef& object, std::string_view slot,
                          bool exclusive) {
  if (object == nullptr || !exclusive || object.get() == t_asking) return;
  object_ = object;
  if (object_->inside.fetch_add(1) != 0) {
    v.broken("R-M10", slot,
             cat("another call of ", name_of(object_->kind), " ", hex(object_->handle),
                 " is not over, and its calls come one at a time"));
  }
}
tenon_code_t Validator::AskedOutput::give(void* self, uint32_t index, uint64_t size_bytes,
                                          tenon_buffer_t** out_buffer, uint64_t* out_offset_bytes) {
  const auto& asked = *static_cast<AskedOutput*>(self);
  const Object* const before = std::exchange(t_asking, asked.device);
  const tenon_code_t code =
      asked.call.output(asked.call.output_self, index, size_bytes, out_buffer, out_offset_bytes);
  t_asking = before;
  return code;
}
Validator::Inside::~Inside() {
  if (object_ != nullptr) object_->inside.fetch_sub(1);
}

Status Validator::attach(LayerSubject& subject) {
  uint64_t most = 10, aborts = 0, data = 0, again = 0;
  TENON_TRY(subject.number("most", &most));
  TENON_TRY(subject.number("abort", &aborts));
  TENON_TRY(subject.number("data", &data));
  TENON_TRY(subject.number("again", &again));
  TENON_TRY(subject.options_done());
  data_ = data != 0;
  again_ = again != 0;
  report_ = std::make_unique<Report>(subject.plugin(), most, aborts != 0);
  attach_device(subject);
  attach_queue(subject);
  attach_exchange(subject);
  attach_compile(subject);
  attach_kernels(subject);
  if (device_ == nullptr && compile_ == nullptr && kernels_ == nullptr) return {};
  const std::lock_guard lock(all().mutex);
  all().plugins.emplace_back(report_.get(), &objects_);
  return {};
}

// Objects alive here are alive at the end of the process. That breaks nothing, but helps to find a
// leak.
Status Validator::shutdown() {
  const std::lock_guard lock(all().mutex);
  for (auto& [report, objects] : all().plugins) {
    std::vector<ObjectRef> left;
    for (ObjectRef& object : objects->living(nullptr)) {
      if (object->kind != Kind::kDevice) left.push_back(std::move(object));
    }
    if (!left.empty())
      report->note(cat("at the end of the process the host still holds ", summary(left)));
    report->sum_up();
  }
  return {};
}

ObjectRef Validator::need(std::string_view slot, Kind kind, const void* handle,
                          tenon_device_t* device) {
  std::string why;
  ObjectRef object = objects_.find(kind, handle, device, &why);
  if (object == nullptr) broken("R-M01", slot, why);
  return object;
}

bool Validator::need_pointer(std::string_view slot, const void* pointer, std::string_view what) {
  if (pointer != nullptr) return true;
  broken("R-M02", slot, cat(what, " is null"));
  return false;
}

bool Validator::need_size(std::string_view slot, uint32_t size_bytes, uint64_t least,
                          std::string_view what) {
  if (size_bytes >= least) return true;
  broken("R-M03", slot,
         cat(what, " says that it has ", size_bytes, " bytes, and needs at least ", least));
  return false;
}

tenon_code_t Validator::refuse(std::string_view slot) {
  return fail(TENON_FAILED_PRECONDITION,
              cat("validation: ", slot, " was called in a way that cannot be passed on"))
      .code();
}

ObjectRef Validator::made(std::string_view slot, std::string_view requirement, Kind kind,
                          const void* handle, tenon_device_t* device) {
  if (handle == nullptr) {
    broken(requirement, slot, cat("it gave OK and no ", name_of(kind)));
    return nullptr;
  }
  ObjectRef twin;
  ObjectRef object = objects_.add(kind, handle, device, &twin);
  if (twin != nullptr && kind != Kind::kDevice) {
    broken(requirement, slot,
           cat("it gave the ", name_of(kind), " ", hex(handle), ", which is alive already"));
  }
  return object;
}

void Validator::note_lost(Object& device, std::string_view slot, tenon_code_t code,
                          bool is_release) {
  if (code == TENON_DEVICE_LOST) {
    device.lost = true;
  } else if (device.lost && !is_release && code == TENON_OK) {
    broken("R-C30", slot, "it returns OK on a lost device");
  }
}

}  // namespace tenon::validation

TENON_LAYER("validation", "0.1.0", tenon::validation::Validator)
