// The serial forms of graphs: .tir text (docs/guide/tir.md) and a versioned binary form.
//
// Reading any bytes yields a graph that passed the verifier, or a failure with a location. It runs
// no code, opens no file, and is bounded by the limits of core/base/limits.h.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/ir/graph.h"

namespace tenon::ir {

// Constants above TENON_TEXT_INLINE_BYTES_MAX appear in the text as a digest and an offset into
// `sidecar`, which is kept beside the text under its name + ".bin". Offsets are multiples of 64;
// equal blobs are stored once.
struct SidecarPart {
  uint64_t offset = 0;
  Ref<Blob> blob;
};
struct TextForm {
  std::string text;
  std::vector<SidecarPart> sidecar;  // in order of offset; gaps are zeros
  uint64_t sidecar_bytes = 0;
};

// First bytes of the binary form.
inline constexpr std::string_view kBinaryMagic("\x89TIR\r\n\x1a\n", 8);

Result<TextForm> write_text(const Graph& graph);
// For people: without the elements of constants of more than a few bytes. Cannot be read back.
Result<std::string> write_elided(const Graph& graph);
// The same, and values without a name are named by their index in the graph.
Result<std::string> write_numbered(const Graph& graph);
// For viewers, as TENON_FORMAT_JSON says.
Result<std::string> write_json(const Graph& graph);
// " {axis = 1}": the attributes of a node that have not their defaults, as in the text form.
Result<std::string> attributes_text(const Graph& graph, Node node);
Result<std::string> write_binary(const Graph& graph);
// The complete bytes of a text form's sidecar.
Result<std::string> sidecar_bytes(const TextForm& form);

// Detects the form. `name` is for diagnostics; `sidecar` may be null if the text needs none.
Result<Ref<Graph>> read_graph(Ref<Blob> bytes, std::string_view name, Ref<Blob> sidecar);
// any_note_space: for text that a program wrote, perhaps on a machine with other plugins.
Result<Ref<Graph>> read_text(std::string_view text, std::string_view name, Ref<Blob> sidecar,
                             bool any_note_space = false);
Result<Ref<Graph>> read_binary(Ref<Blob> bytes, std::string_view name);

}  // namespace tenon::ir
