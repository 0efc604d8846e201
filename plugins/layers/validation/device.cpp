// tenon.device/1: requirements on devices and their memory, and on those who use them.
#include <bit>
#include <cmath>

#include "validation.h"

namespace tenon::validation {
namespace {

bool is_utf8_text(tenon_str_t text) {
  if (text.data == nullptr) return text.size == 0;
  for (char c : view(text)) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return false;
  }
  return true;
}
bool is_kind(tenon_str_t kind) {
  if (kind.data == nullptr || kind.size == 0) return false;
  for (char c : view(kind)) {
    if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-')) return false;
  }
  return true;
}
std::string text_of(const tenon_device_info_t& info) {
  return cat(info.kind, '\0', info.description, '\0', info.target);
}
bool equal(const tenon_device_info_t& a, const tenon_device_info_t& b) {
  return a.threading == b.threading && a.memory_bytes == b.memory_bytes &&
         a.alignment_bytes == b.alignment_bytes &&
         a.copy_gigabytes_per_second == b.copy_gigabytes_per_second &&
         a.copy_latency_ns == b.copy_latency_ns;
}
bool finite(double value) {
  return std::isfinite(value) && value >= 0;
}

uint64_t digest(const void* data, uint64_t size) {
  uint64_t hash = 1469598103934665603u;
  for (uint64_t i = 0; i < size; ++i)
    hash = (hash ^ static_cast<const unsigned char*>(data)[i]) * 1099511628211u;
  return hash;
}

// What is wrong with a requested copy; the plugin must refuse it with `code`.
struct Wrong {
  std::string text;
  std::string_view requirement;  // the requirement that the plugin breaks if it does not refuse
  tenon_code_t code = TENON_OK;
};

Wrong wrong_range(std::string_view which, const Object* buffer, uint64_t offset, uint64_t length) {
  if (buffer == nullptr || (offset <= buffer->size_bytes && length <= buffer->size_bytes - offset))
    return {};
  return {cat("bytes ", offset, " to ", offset, " + ", length, " of the ", which, " buffer ",
              hex(buffer->handle), " of ", buffer->size_bytes, " bytes"),
          "R-C17", TENON_OUT_OF_RANGE};
}

Wrong wrong_in(const tenon_copy_t& c, const Object* from, const Object* to) {
  if (c.direction < TENON_COPY_HOST_TO_DEVICE || c.direction > TENON_COPY_FILL) {
    return {cat("the direction ", c.direction), "R-C20", TENON_INVALID_ARGUMENT};
  }
  if (c.direction == TENON_COPY_FILL) {
    const uint32_t p = c.pattern_bytes;
    if (p != 1 && p != 2 && p != 4 && p != 8)
      return {cat("a pattern of ", p, " bytes"), "R-C16", TENON_INVALID_ARGUMENT};
  }
  Wrong wrong = wrong_range("source", from, c.from_offset_bytes, c.length_bytes);
  if (wrong.code == TENON_OK) wrong = wrong_range("target", to, c.to_offset_bytes, c.length_bytes);
  return wrong;
}

}  // namespace

void Validator::attach_device(LayerSubject& subject) {
  if ((device_ = subject.next<tenon_device_api_t>(TENON_DEVICE_ID)) == nullptr) return;
  tenon_device_api_t& t = device_table_;
  t.count = layer_slot<&Validator::count>;
  t.info = layer_slot<&Validator::info>;
  t.open = layer_slot<&Validator::open>;
  t.close = layer_slot<&Validator::close>;
  t.alloc = layer_slot<&Validator::alloc>;
  t.free = layer_slot<&Validator::free>;
  t.copy = layer_slot<&Validator::copy>;
  t.map = layer_slot<&Validator::map>;
  t.import = layer_slot<&Validator::import>;
  t.memory = layer_slot<&Validator::memory>;
  if (device_->free_behind != nullptr) t.free_behind = layer_slot<&Validator::free_behind>;
  subject.put(TENON_DEVICE_ID, &t, this);
}

// ---- What there is ----

tenon_code_t Validator::count(uint32_t* out) {
  if (!need_pointer("count", out, "out_count")) return refuse("count");
  TENON_TRY(ask_for("count", out, [&](uint32_t* o) { return device_->count(device_->self, o); }));
  const std::lock_guard lock(mutex_);
  if (*out > 64) broken("R-C01", "count", cat("it gave ", *out, ", and 64 are the most"));
  if (count_ >= 0 && count_ != *out)
    broken("R-C01", "count", cat("it gave ", *out, " after ", count_));
  count_ = *out;
  return TENON_OK;
}

void Validator::check_info(uint32_t ordinal, const tenon_device_info_t& info) {
  if (!is_kind(info.kind))
    broken("R-C02", "info", cat("the kind ", quoted(view(info.kind)), " is not of a-z 0-9 _ -"));
  if (!is_utf8_text(info.description) || !is_utf8_text(info.target))
    broken("R-C02", "info", "description or target is not UTF-8 text");
  if (!std::has_single_bit(info.alignment_bytes) || info.alignment_bytes < 8)
    broken("R-C03", "info", cat("an alignment of ", info.alignment_bytes));
  if (info.threading > TENON_THREADING_FREE)
    broken("R-C03", "info", cat("a threading of ", info.threading));
  if (!finite(info.copy_gigabytes_per_second) || !finite(info.copy_latency_ns))
    broken("R-C03", "info", "a speed or latency of copies that is not a finite number >= 0");
  const std::lock_guard lock(mutex_);
  if (count_ >= 0 && ordinal >= count_)
    broken("R-C05", "info", cat("it gave OK for ordinal ", ordinal, " of ", count_));
  const auto [known, is_new] = infos_.try_emplace(ordinal, info, text_of(info));
  if (!is_new && (!equal(known->second.first, info) || known->second.second != text_of(info))) {
    broken("R-C04", "info", cat("it describes ordinal ", ordinal, " differently than before"));
    known->second = {info, text_of(info)};
  }
}

tenon_code_t Validator::info(uint32_t ordinal, tenon_device_info_t* out) {
  if (!need_pointer("info", out, "out_info")) return refuse("info");
  if (!need_size("info", out->size_bytes, sizeof out->size_bytes, "out_info"))
    return refuse("info");
  Guarded<tenon_device_info_t> guarded;
  TENON_TRY(ask_for_record("info", out, guarded, [&](tenon_device_info_t* o) {
    return device_->info(device_->self, ordinal, o);
  }));
  check_info(ordinal, guarded.record);
  return TENON_OK;
}

tenon_code_t Validator::open(uint32_t ordinal, tenon_device_t** out) {
  if (!need_pointer("open", out, "out_device")) return refuse("open");
  TENON_TRY(ask_for("open", out,
                    [&](tenon_device_t** o) { return device_->open(device_->self, ordinal, o); }));
  Guarded<tenon_device_info_t>
      guarded;  // `info` reports a device that writes beyond the record; here it does no harm
  tenon_device_info_t& info = guarded.record;
  const bool known = device_->info(device_->self, ordinal, &info) == TENON_OK;
  {
    const std::lock_guard lock(mutex_);
    if (count_ >= 0 && ordinal >= count_)
      broken("R-C05", "open", cat("it gave OK for ordinal ", ordinal, " of ", count_));
  }
  const ObjectRef device = made("open", "R-C06", Kind::kDevice, *out, *out);
  if (device == nullptr) return TENON_OK;
  const std::lock_guard lock(objects_.mutex);
  ++device->opens;
  device->ordinal = ordinal;
  if (known) {
    device->alignment = info.alignment_bytes;
    device->memory_bytes = info.memory_bytes;
    device->threading = info.threading;
  }
  return TENON_OK;
}

tenon_code_t Validator::close(tenon_device_t* device) {
  const ObjectRef d = need("close", Kind::kDevice, device);
  if (d == nullptr) return refuse("close");
  bool last = false;
  {
    const std::lock_guard lock(objects_.mutex);
    last = --d->opens == 0;
  }
  if (last) {
    const std::vector<ObjectRef> left = objects_.living(device);
    if (!left.empty())
      broken("R-M04", "close",
             cat("the host still holds ", summary(left), " of device ", d->ordinal));
    for (const ObjectRef& object : left) objects_.remove(*object);
    forget_work_of(device, nullptr);
    objects_.remove(*d);
  }
  return ask("close", [&] { return device_->close(device_->self, device); });
}

// ---- Memory ----

tenon_code_t Validator::alloc(tenon_device_t* device, uint64_t size, tenon_buffer_t** out) {
  const ObjectRef d = need("alloc", Kind::kDevice, device);
  if (d == nullptr || !need_pointer("alloc", out, "out_buffer")) return refuse("alloc");
  const Inside inside = enter(d, "alloc");
  const tenon_code_t code = ask_for("alloc", out, [&](tenon_buffer_t** o) {
    return device_->alloc(device_->self, device, size, o);
  });
  note_lost(*d, "alloc", code);
  if (code == TENON_INVALID_ARGUMENT || code == TENON_OUT_OF_RANGE) {
    broken(size == 0 ? "R-C08" : "R-C10", "alloc",
           cat("it fails with ", code, " for ", size, " bytes"));
  }
  if (code != TENON_OK) return code;
  if (d->memory_bytes != 0 && size > d->memory_bytes)
    broken("R-C10", "alloc", cat("it gave ", size, " bytes of ", d->memory_bytes));
  if (const ObjectRef buffer = made("alloc", "R-C09", Kind::kBuffer, *out, device)) {
    const std::lock_guard lock(objects_.mutex);
    buffer->size_bytes = size;
  }
  return TENON_OK;
}

tenon_code_t Validator::free(tenon_device_t* device, tenon_buffer_t* buffer) {
  const ObjectRef d = need("free", Kind::kDevice, device);
  const ObjectRef b = d == nullptr ? nullptr : need("free", Kind::kBuffer, buffer, device);
  if (b == nullptr) return refuse("free");
  if (in_flight(*b))
    broken("R-M05", "free", cat("submitted work in flight refers to the buffer ", hex(buffer)));
  if (data_ && b->imported != nullptr && !b->imported_to_write &&
      digest(b->imported, b->size_bytes) != b->imported_digest) {
    broken("R-C24", "free",
           cat("the memory at ", hex(b->imported), " was changed while it was imported"));
  }
  const Inside inside = enter(d, "free");
  objects_.remove(*b);  // before the call: the address may be reused at once
  const tenon_code_t code =
      ask("free", [&] { return device_->free(device_->self, device, buffer); });
  if (code != TENON_OK) broken(d->lost ? "R-J04" : "R-C11", "free", cat("it failed with ", code));
  return code;
}

// Work in flight may refer to the buffer: that of others does.
tenon_code_t Validator::free_behind(tenon_device_t* device, tenon_buffer_t* buffer,
                                    const tenon_fence_point_t* points, uint32_t point_count) {
  const ObjectRef d = need("free_behind", Kind::kDevice, device);
  const ObjectRef b = d == nullptr ? nullptr : need("free_behind", Kind::kBuffer, buffer, device);
  if (b == nullptr || !check_points("free_behind", points, point_count, {}))
    return refuse("free_behind");
  const Inside inside = enter(d, "free_behind");
  objects_.remove(*b);  // before the call: the address may be reused at once
  const tenon_code_t code = ask("free_behind", [&] {
    return device_->free_behind(device_->self, device, buffer, points, point_count);
  });
  if (code != TENON_OK)
    broken(d->lost ? "R-J04" : "R-D32", "free_behind", cat("it failed with ", code));
  return code;
}

tenon_code_t Validator::checked_copy(
    const ObjectRef& device, const ObjectRef& from_device, const tenon_copy_t& c,
    std::string_view slot, bool complete,
    const std::function<tenon_code_t(const tenon_copy_t&)>& pass_on) {
  if (!need_size(slot, c.size_bytes, sizeof c, "the copy")) return refuse(slot);
  const bool reads =
      c.direction == TENON_COPY_DEVICE_TO_HOST || c.direction == TENON_COPY_DEVICE_TO_DEVICE;
  const bool to_device = c.direction != TENON_COPY_DEVICE_TO_HOST &&
                         c.direction >= TENON_COPY_HOST_TO_DEVICE && c.direction <= TENON_COPY_FILL;
  const ObjectRef from = reads ? need(slot, Kind::kBuffer, c.from, from_device->device) : nullptr;
  const ObjectRef to = to_device ? need(slot, Kind::kBuffer, c.to, device->device) : nullptr;
  if ((reads && from == nullptr) || (to_device && to == nullptr)) return refuse(slot);
  const void* host = c.direction == TENON_COPY_HOST_TO_DEVICE   ? c.host_from
                     : c.direction == TENON_COPY_DEVICE_TO_HOST ? c.host_to
                                                                : slot.data();
  if (c.length_bytes != 0 && !need_pointer(slot, host, "the host memory")) return refuse(slot);
  const Wrong wrong = wrong_in(c, from.get(), to.get());
  if (wrong.code != TENON_OK) broken("R-M07", slot, wrong.text);
  if (wrong.code == TENON_OK && c.direction == TENON_COPY_FILL &&
      c.length_bytes % c.pattern_bytes != 0) {
    broken("R-M07", slot,
           cat("a pattern of ", c.pattern_bytes, " bytes for ", c.length_bytes, " bytes"));
  }
  if (from != nullptr && from == to && c.length_bytes != 0 &&
      c.from_offset_bytes < c.to_offset_bytes + c.length_bytes &&
      c.to_offset_bytes < c.from_offset_bytes + c.length_bytes && wrong.code == TENON_OK) {
    broken("R-M07", slot, cat("two ranges of the buffer ", hex(c.from), " that overlap"));
  }
  if (complete && from != nullptr) check_waited(slot, from, false, "the buffer that it reads");
  if (complete && to != nullptr) check_waited(slot, to, true, "the buffer that it writes");
  const bool compare = complete && data_ && wrong.code == TENON_OK;
  const tenon_code_t code =
      compare ? copy_and_compare(*device, c, pass_on) : ask(slot, [&] { return pass_on(c); });
  note_lost(*device, slot, code);
  // Work on a queue may also fail through its signal.
  const bool later = !complete && code == TENON_OK;
  if (wrong.code != TENON_OK && code != wrong.code && code != TENON_DEVICE_LOST && !later) {
    broken(wrong.requirement, slot,
           cat("it gave ", code, " and should have ", wrong.code, ", for ", wrong.text));
  }
  if (wrong.code == TENON_OK && (code == TENON_OUT_OF_RANGE || code == TENON_INVALID_ARGUMENT)) {
    broken(c.length_bytes == 0 ? "R-C18" : "R-C12", slot,
           cat("it refuses a right copy of ", c.length_bytes, " bytes with ", code));
  }
  return code;
}

tenon_code_t Validator::copy(tenon_device_t* device, const tenon_copy_t* c) {
  const ObjectRef d = need("copy", Kind::kDevice, device);
  if (d == nullptr || !need_pointer("copy", c, "the copy")) return refuse("copy");
  const Inside inside = enter(d, "copy");
  return checked_copy(d, d, *c, "copy", true, [&](const tenon_copy_t& one) {
    return device_->copy(device_->self, device, &one);
  });
}

tenon_code_t Validator::map(tenon_device_t* device, tenon_buffer_t* buffer, void** out) {
  const ObjectRef d = need("map", Kind::kDevice, device);
  const ObjectRef b = d == nullptr ? nullptr : need("map", Kind::kBuffer, buffer, device);
  if (b == nullptr || !need_pointer("map", out, "out_data")) return refuse("map");
  const Inside inside = enter(d, "map");
  const tenon_code_t code =
      ask_for("map", out, [&](void** o) { return device_->map(device_->self, device, buffer, o); });
  note_lost(*d, "map", code);
  if (code != TENON_OK) return code;
  const std::lock_guard lock(objects_.mutex);
  const auto address = reinterpret_cast<uintptr_t>(*out);
  if (b->imported == nullptr && !b->foreign && address % d->alignment != 0)
    broken("R-C22", "map", cat(hex(*out), " is not a multiple of ", d->alignment));
  if (*out == nullptr && b->size_bytes != 0) broken("R-C22", "map", "it gave OK and null");
  if (b->mapped != nullptr && b->mapped != *out)
    broken("R-C22", "map", cat("it gave ", hex(*out), " after ", hex(b->mapped)));
  b->mapped = *out;
  if (b->imported != nullptr || b->foreign || b->size_bytes == 0) return code;
  for (const ObjectRef& other : objects_.living_of(Kind::kBuffer, device)) {
    const auto begin = reinterpret_cast<uintptr_t>(other->mapped);
    if (other == b || other->mapped == nullptr || other->imported != nullptr || other->foreign ||
        other->size_bytes == 0)
      continue;
    if (address < begin + other->size_bytes && begin < address + b->size_bytes) {
      broken("R-C09", "map",
             cat("the buffers ", hex(b->handle), " and ", hex(other->handle), " share bytes"));
    }
  }
  return code;
}

tenon_code_t Validator::import(tenon_device_t* device, const tenon_memory_import_t* memory,
                               tenon_buffer_t** out) {
  const ObjectRef d = need("import", Kind::kDevice, device);
  if (d == nullptr || !need_pointer("import", out, "out_buffer")) return refuse("import");
  if (!need_pointer("import", memory, "the record")) return refuse("import");
  if (!need_size("import", memory->size_bytes, sizeof *memory, "the record"))
    return refuse("import");
  const auto [size_bytes, flags, data, size] = *memory;
  if (size != 0 && !need_pointer("import", data, "the memory")) return refuse("import");
  const Inside inside = enter(d, "import");
  const uint64_t before = data_ ? digest(data, size) : 0;
  const tenon_code_t code = ask_for("import", out, [&](tenon_buffer_t** o) {
    return device_->import(device_->self, device, memory, o);
  });
  note_lost(*d, "import", code);
  if (code != TENON_OK) return code;
  if (data_ && digest(data, size) != before)
    broken("R-C24", "import", cat("it changed the memory at ", hex(data)));
  if (const ObjectRef buffer = made("import", "R-C24", Kind::kBuffer, *out, device)) {
    const std::lock_guard lock(objects_.mutex);
    buffer->size_bytes = size;
    buffer->imported = data;
    buffer->imported_to_write = (flags & TENON_IMPORT_WRITE) != 0;
    buffer->imported_digest = before;
  }
  std::vector<unsigned char> contents;
  if (data_ && size != 0 &&
      (!read_back(device, *out, 0, size, &contents) ||
       std::memcmp(contents.data(), data, size) != 0)) {
    broken("R-C24", "import", "the buffer has not the contents of the memory");
  }
  return TENON_OK;
}

tenon_code_t Validator::memory(tenon_device_t* device, uint64_t* used, uint64_t* peak) {
  const ObjectRef d = need("memory", Kind::kDevice, device);
  if (d == nullptr || !need_pointer("memory", used, "out_used_bytes") ||
      !need_pointer("memory", peak, "out_peak_bytes"))
    return refuse("memory");
  const Inside inside = enter(d, "memory");
  const tenon_code_t code =
      ask("memory", [&] { return device_->memory(device_->self, device, used, peak); });
  note_lost(*d, "memory", code);
  if (code == TENON_OK && *peak < *used)
    broken("R-C25", "memory", cat("a peak of ", *peak, " below ", *used, " in use"));
  return code;
}

}  // namespace tenon::validation
