#include "core/host/loading/layers.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include <tenon/abi/collective.h>
#include <tenon/abi/compile.h>
#include <tenon/abi/device.h>
#include <tenon/abi/exchange.h>
#include <tenon/abi/frontend.h>
#include <tenon/abi/importers.h>
#include <tenon/abi/kernels.h>
#include <tenon/abi/ops.h>
#include <tenon/abi/pass.h>
#include <tenon/abi/queue.h>
#include <tenon/abi/toolchain.h>
#include <tenon/cpp/record.hpp>

#include "core/base/errors/failure.h"
#include "core/base/str.h"

namespace tenon::host {
namespace {

constexpr size_t kLayersMax = 16;
constexpr size_t kOptionsMax = 64;

// A table with the spare room that layers are promised and, after the part that layers see, the
// targets of its slots.
struct Routed {
  alignas(16) std::byte table[TENON_LAYER_TABLE_BYTES];
  const void* layer;  // full-size; slots that the layer lacks are null
  const void* next;
};

// ---- One slot: through the layer, or around it ----

template <auto Member>
struct Slot;
template <class Api, class R, class... Args, R (*Api::*Member)(void*, Args...)>
struct Slot<Member> {
  static R through(void* self, Args... args) {
    const auto* layer = static_cast<const Api*>(static_cast<const Routed*>(self)->layer);
    return (layer->*Member)(layer->self, args...);
  }
  static R past(void* self, Args... args) {
    const auto* next = static_cast<const Api*>(static_cast<const Routed*>(self)->next);
    return (next->*Member)(next->self, args...);
  }
  static void route(const Routed& routed, Api* table) {
    const auto* layer = static_cast<const Api*>(routed.layer);
    const auto* next = static_cast<const Api*>(routed.next);
    if (next->*Member != nullptr) table->*Member = layer->*Member != nullptr ? &through : &past;
  }
};

// ---- The interfaces and their slots ----

struct LayeredInterface {
  std::string_view id;
  uint32_t size_bytes;
  void (*route)(Routed* routed);
};

// Data members are copied from the next table. Every slot is named; the assert counts them.
template <class Api, size_t kFirstSlot, auto... Members>
constexpr LayeredInterface interface_of(std::string_view id) {
  static_assert(kFirstSlot + sizeof...(Members) * sizeof(void*) == sizeof(Api),
                "a slot is missing here");
  static_assert(sizeof(Api) <= TENON_LAYER_TABLE_BYTES);
  return {id, sizeof(Api), [](Routed* routed) {
            auto* table = reinterpret_cast<Api*>(routed->table);
            std::memcpy(table, routed->next, kFirstSlot);
            table->size_bytes = sizeof(Api);
            table->self = routed;
            (Slot<Members>::route(*routed, table), ...);
          }};
}

using D = tenon_device_api_t;
using Q = tenon_queue_api_t;
using X = tenon_exchange_api_t;
using C = tenon_compile_api_t;
using K = tenon_kernels_api_t;
using T = tenon_toolchain_api_t;
using F = tenon_frontend_api_t;
using E = tenon_collective_api_t;
constexpr LayeredInterface kLayered[] = {
    interface_of<D, offsetof(D, count), &D::count, &D::info, &D::open, &D::close, &D::alloc,
                 &D::free, &D::copy, &D::map, &D::import, &D::memory, &D::alloc_pinned,
                 &D::free_pinned, &D::free_behind>(TENON_DEVICE_ID),
    interface_of<Q, offsetof(Q, queue_create), &Q::queue_create, &Q::queue_destroy, &Q::copy_async,
                 &Q::fence_create, &Q::fence_destroy, &Q::fence_query, &Q::fence_signal,
                 &Q::fence_wait, &Q::reaches>(TENON_QUEUE_ID),
    interface_of<X, offsetof(X, kinds), &X::kinds, &X::import_memory, &X::export_memory,
                 &X::queue_kinds, &X::import_queue, &X::export_queue, &X::import_fence>(
        TENON_EXCHANGE_ID),
    interface_of<C, offsetof(C, claim), &C::claim, &C::compile, &C::artifact_release,
                 &C::artifact_info, &C::artifact_bytes, &C::fits, &C::load, &C::executable_release,
                 &C::executable_info, &C::needs, &C::execute, &C::dump, &C::pack, &C::load_packed,
                 &C::properties>(TENON_COMPILE_ID),
    interface_of<K, offsetof(K, query), &K::query, &K::create, &K::destroy, &K::run, &K::prepack,
                 &K::save, &K::restore>(TENON_KERNELS_ID),
    interface_of<T, offsetof(T, build), &T::build, &T::load, &T::symbol, &T::release>(
        TENON_TOOLCHAIN_ID),
    interface_of<E, offsetof(E, launched), &E::launched, &E::open, &E::close, &E::comm_create,
                 &E::comm_release, &E::takes, &E::start, &E::test, &E::work_release, &E::abort,
                 &E::launcher, &E::group, &E::wait>(TENON_COLLECTIVE_ID),
    interface_of<F, offsetof(F, accepts), &F::accepts, &F::load, &F::read_tensors,
                 &F::write_tensor>(TENON_FRONTEND_ID),
};

const LayeredInterface* layered(std::string_view id) {
  for (const LayeredInterface& known : kLayered) {
    if (known.id == id) return &known;
  }
  return nullptr;
}

// Tables of data records, whose functions the host does not call through the table.
bool is_record_table(std::string_view id) {
  return id == TENON_OPS_ID || id == TENON_PASS_ID || id == TENON_LAYER_ID ||
         id == TENON_IMPORTERS_ID;
}

Status check_table(const void* table, std::string_view id, std::string_view layer) {
  uint32_t size = 0;
  std::memcpy(&size, table, sizeof(size));
  if (size >= 16 && size <= TENON_LAYER_TABLE_BYTES) return Status();
  return error(TENON_INVALID_ARGUMENT, "P1003",
               "the layer {} gives a table {} that claims {} bytes", quoted(layer), id, size);
}

Routed* new_routed() {
  auto* routed =
      new Routed();  // zeroed; never freed: callers keep tables for the life of the process
  keep_for_process(routed);
  return routed;
}

// The same table with the spare room that layers are promised.
const void* with_room(const LayeredInterface& known, const void* table) {
  Routed* room = new_routed();
  std::memcpy(room->table, table, known.size_bytes);
  return room->table;
}

Result<const void*> route(const LayeredInterface& known, const void* layer_table, const void* next,
                          std::string_view layer) {
  TENON_RETURN_IF_ERROR(check_table(layer_table, known.id, layer));
  uint32_t size = 0;
  std::memcpy(&size, layer_table, sizeof(size));
  Routed* full = new_routed();
  std::memcpy(full->table, layer_table, std::min(size, known.size_bytes));
  Routed* routed = new_routed();
  routed->layer = full->table;
  routed->next = next;
  known.route(routed);
  return static_cast<const void*>(routed->table);
}

}  // namespace

std::string LayerChoice::text() const {
  std::string out = name;
  for (size_t i = 0; i < options.size(); ++i)
    out += (i == 0 ? ":" : ",") + options[i].key + "=" + options[i].value;
  return out;
}

Result<std::vector<LayerChoice>> parse_layers(std::string_view text) {
  std::vector<LayerChoice> layers;
  auto wrong = [&](std::string_view part, std::string_view why) {
    return error(TENON_INVALID_ARGUMENT, "P1001", "TENON_LAYERS: {} {}", quoted(part), why);
  };
  for (std::string_view part : split(text, ',')) {
    part = trim(part);
    if (part.empty()) continue;
    std::string_view option = part;
    if (const size_t colon = part.find(':');
        colon < part.find('=') || part.find('=') == std::string_view::npos) {
      const std::string_view name = trim(part.substr(0, colon));
      if (name.empty()) return wrong(part, "begins with a colon, and a layer has a name");
      if (layers.size() == kLayersMax)
        return wrong(part, fmt::format("is one layer too many: there may be {}", kLayersMax));
      layers.push_back({std::string(name), {}});
      if (colon == std::string_view::npos) continue;
      option = part.substr(colon + 1);
    }
    const size_t equals = option.find('=');
    if (layers.empty()) return wrong(part, "is an option, but no layer precedes it");
    if (equals == std::string_view::npos || equals == 0)
      return wrong(part, "should be NAME:KEY=VALUE");
    if (layers.back().options.size() == kOptionsMax)
      return wrong(part, fmt::format("is one option too many: there may be {}", kOptionsMax));
    layers.back().options.push_back({std::string(trim(option.substr(0, equals))),
                                     std::string(trim(option.substr(equals + 1)))});
  }
  return layers;
}

bool has_layered_interfaces(const AdoptedPlugin& plugin) {
  return std::any_of(plugin.interfaces.begin(), plugin.interfaces.end(),
                     [](const AdoptedInterface& offered) { return !is_record_table(offered.id); });
}

Status apply_layer(const tenon_layer_api_t& layer, const LayerChoice& choice, uint32_t position,
                   AdoptedPlugin* plugin) {
  std::vector<AdoptedInterface*> below;
  std::vector<tenon_interface_t> interfaces;
  for (AdoptedInterface& offered : plugin->interfaces) {
    if (is_record_table(offered.id)) continue;
    const LayeredInterface* known = layered(offered.id);
    const void* table = known == nullptr ? offered.table : with_room(*known, offered.table);
    below.push_back(&offered);
    interfaces.push_back({to_abi_str(offered.id), offered.minor, 0, table});
  }
  // Texts live as long as the process, as layers are promised.
  auto* kept = new LayerChoice(choice);
  keep_for_process(kept);
  std::vector<tenon_key_value_t> options;
  for (const KeyValue& option : kept->options)
    options.push_back({to_abi_str(option.key), to_abi_str(option.value)});
  auto subject = sized<tenon_layer_subject_t>();
  subject.option_count = static_cast<uint32_t>(options.size());
  subject.plugin = to_abi_str(plugin->name);
  subject.version = to_abi_str(plugin->version);
  subject.options = options.data();
  subject.interfaces = interfaces.data();
  subject.interface_count = static_cast<uint32_t>(interfaces.size());
  subject.position = position;
  subject.interface_bytes = sizeof(tenon_interface_t);
  std::vector<const void*> tables(interfaces.size() + 1);
  clear_failure();
  if (const tenon_code_t code = layer.attach(layer.self, &subject, tables.data());
      code != TENON_OK) {
    const Status why = from_abi(code, "attach");
    return error(code, "P1002", "the layer {} refuses to wrap {}: {}", quoted(choice.text()),
                 quoted(plugin->name), why.message());
  }
  std::vector<const void*> routed(interfaces.size());
  for (size_t i = 0; i < interfaces.size(); ++i) {
    if (tables[i] == nullptr) continue;
    if (const LayeredInterface* known = layered(below[i]->id)) {
      TENON_ASSIGN_OR_RETURN(routed[i], route(*known, tables[i], interfaces[i].table, choice.name));
    } else {
      TENON_RETURN_IF_ERROR(check_table(tables[i], below[i]->id, choice.name));
      routed[i] = tables[i];
    }
  }
  for (size_t i = 0; i < interfaces.size(); ++i) {
    if (routed[i] != nullptr) below[i]->table = routed[i];
  }
  return Status();
}

}  // namespace tenon::host
