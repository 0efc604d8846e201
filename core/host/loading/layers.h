// Layers: the ones that TENON_LAYERS names, and the tables that route each call through them.
// Whether a slot goes through a layer or bypasses it is decided when a plugin is loaded
// (docs/adr/0015-layers.md).
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include <tenon/abi/layer.h>

#include "core/base/errors/status.h"
#include "core/host/loading/tables.h"

namespace tenon::host {

// One layer with its options, as the user wrote them.
struct LayerChoice {
  std::string name;
  std::vector<KeyValue> options;
  std::string text() const;  // "faults:alloc=3,copy=1"
};

// "validation,faults:alloc=3,copy=1,trace:file=t.json": layers in order from the host to the
// device. Each comma-separated part begins a layer, `NAME` or `NAME:KEY=VALUE`, unless it has a `=`
// before any `:`; then it is a further option of the preceding layer. P1001.
Result<std::vector<LayerChoice>> parse_layers(std::string_view text);

// Whether a layer can wrap any interface of this plugin.
bool has_layered_interfaces(const AdoptedPlugin& plugin);

// Puts a layer in front of the tables of `plugin`, which become full-size routing tables of the
// host. Layers closer to the device are applied first. position: 0 is nearest to the host. P1002 if
// the layer refuses, P1003 if its table makes no sense.
Status apply_layer(const tenon_layer_api_t& layer, const LayerChoice& choice, uint32_t position,
                   AdoptedPlugin* plugin);

}  // namespace tenon::host
