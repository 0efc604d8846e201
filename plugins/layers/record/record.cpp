// The layer `record`: writes a folder with every graph that a device compiles, the inputs and
// outputs of the graph's first runs, and commands that repeat these runs.
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "segments.h"

namespace tenon::record {
namespace {

bool is_plain(std::string_view name) {
  for (char c : name) {
    const bool fine = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '_' || c == '.' || c == '-';
    if (!fine) return false;
  }
  return !name.empty();
}

class Record : public Segments {
 public:
  static Status shutdown() { return {}; }

 private:
  Status read_options(LayerSubject& subject) override {
    folder_ = subject.option("dir");
    TENON_TRY(subject.number("runs", &runs_));
    TENON_TRY(subject.options_done());
    if (folder_.empty()) return subject.refuse("the option dir names the folder to write");
    if (mkdir(folder_.c_str(), 0700) != 0 && errno != EEXIST)
      return subject.refuse(
          cat("the folder ", quoted(folder_), " cannot be made: ", strerror(errno)));
    return {};
  }

  Status compiled(Segment& segment) override {
    const tenon_host_graph_t* host = context().graph;
    std::string bytes;
    const tenon_sink_t sink = sink_to(&bytes);
    TENON_TRY(host->graph_write(host->self, segment.graph, TENON_FORMAT_BINARY, &sink));
    TENON_TRY(
        files()->write(files()->self, str(file(segment, ".tirb")), bytes.data(), bytes.size()));
    log("record", TENON_LOG_INFO, plugin(), ": kept ", file(segment, ".tirb"));
    return {};
  }

  bool wants(const Segment&, uint64_t number) override { return number < runs_; }

  void write(const std::string& path, const Array& array) {
    const tenon_host_graph_t* host = context().graph;
    auto tensor = sized<tenon_file_tensor_t>();
    tensor.dtype = array.dtype;
    tensor.rank = static_cast<uint32_t>(array.dims.size());
    tensor.dims = array.dims.data();
    if (host->blob_bytes(host->self, array.bytes.data(), array.bytes.size(), &tensor.blob) !=
        TENON_OK)
      return;
    if (session()->tensor_write(session()->self, str(path), &tensor) != TENON_OK) {
      log("record", TENON_LOG_WARN, "the tensor ", path, " is not kept: ", last_failure_text());
    }
    host->blob_release(host->self, tensor.blob);
  }

  void executed(const Segment& segment, uint64_t number,
                const std::vector<std::optional<Array>>& inputs,
                const std::vector<std::optional<Array>>& outputs, tenon_code_t code) override {
    std::string command = cat("TENON_LAYERS=replay:dir=. tenon run ", segment.hash,
                              ".tirb --passes none --no-fallback --device ", plugin());
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i]) continue;
      const std::string name = cat(".run", number, ".in", static_cast<uint64_t>(i), ".npy");
      write(file(segment, name), *inputs[i]);
      // The name if it needs no quoting in a shell, else NAME.
      command +=
          cat(" --input ", is_plain(segment.inputs[i].name) ? segment.inputs[i].name : "NAME", "=",
              segment.hash, name);
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i])
        write(file(segment, cat(".run", number, ".out", static_cast<uint64_t>(i), ".npy")),
              *outputs[i]);
    }
    command += code == TENON_OK ? "\n" : cat("  # failed with code ", code, "\n");
    const std::string path = file(segment, cat(".run", number, ".txt"));
    if (files()->write(files()->self, str(path), command.data(), command.size()) != TENON_OK) {
      log("record", TENON_LOG_WARN, "the command ", path, " is not kept: ", last_failure_text());
    }
  }

  uint64_t runs_ = 4;
};

}  // namespace
}  // namespace tenon::record

TENON_LAYER("record", "0.1.0", tenon::record::Record)
