// Shared by `record` and `replay`: follows graphs from `compile`, through the artifact's bytes, to
// the executable, and observes each execution with its inputs and outputs as host arrays.
#ifndef TENON_PLUGINS_LAYERS_RECORD_SEGMENTS_H_
#define TENON_PLUGINS_LAYERS_RECORD_SEGMENTS_H_

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tenon/abi/compile.h"
#include "tenon/abi/host.h"
#include "tenon/abi/queue.h"
#include "tenon/abi/session.h"
#include "tenon/cpp/layer.hpp"

namespace tenon::record {

struct Port {
  std::string name;
  tenon_value_t value = 0;
};

// A graph that a device compiled. Kept until the end of the process.
struct Segment {
  tenon_graph_t* graph = nullptr;  // retained
  std::string hash;                // 32 hexadecimal digits; covers structure and constants
  std::vector<Port> inputs, outputs;
  uint64_t runs = 0;
};

// A dense tensor on the host.
struct Array {
  tenon_dtype_t dtype = TENON_DTYPE_NONE;
  std::vector<int64_t> dims;
  std::vector<unsigned char> bytes;
};

// Why the host's last operation failed: a full disk, an element type that no tensor file supports.
std::string last_failure_text();

class Segments {
 public:
  virtual ~Segments() = default;
  Status attach(LayerSubject& subject);

 protected:
  virtual Status read_options(LayerSubject& subject) = 0;
  // Called with a graph seen for the first time, before it is compiled. Under the lock.
  virtual Status compiled(Segment& segment) = 0;
  // Whether run `number` of a segment is to be read.
  virtual bool wants(const Segment& segment, uint64_t number) = 0;
  // An array is missing if it cannot be read: its size is data-dependent, or a copy failed.
  virtual void executed(const Segment& segment, uint64_t number,
                        const std::vector<std::optional<Array>>& inputs,
                        const std::vector<std::optional<Array>>& outputs, tenon_code_t code) = 0;

  const std::string& plugin() const { return plugin_; }
  const std::string& folder() const { return folder_; }
  const tenon_host_session_t* session() const { return session_; }
  const tenon_host_files_t* files() const { return files_; }
  std::string file(const Segment& segment, std::string_view rest) const {
    return cat(folder_, "/", segment.hash, rest);
  }

  std::string folder_;

 private:
  tenon_code_t compile(tenon_str_t target, tenon_graph_t* graph,
                       const tenon_compile_options_t* options, tenon_artifact_t** out);
  void artifact_release(tenon_artifact_t* artifact);
  tenon_code_t artifact_bytes(tenon_artifact_t* artifact, const tenon_sink_t* sink);
  tenon_code_t load(tenon_device_t* device, const void* bytes, uint64_t size,
                    tenon_blob_t* const* constants, uint32_t count, tenon_executable_t** out);
  void executable_release(tenon_executable_t* executable);
  tenon_code_t execute(tenon_executable_t* executable, const tenon_call_t* call);
  void await_inputs(const tenon_call_t& call, tenon_device_t* device) const;
  void await_work(const tenon_call_t& call, tenon_device_t* device) const;
  Segment* segment_of(tenon_graph_t* graph);
  std::string key_of(std::string_view bytes,
                     const std::vector<std::array<uint64_t, 2>>& digests) const;
  std::vector<std::array<uint64_t, 2>> constants_of(tenon_graph_t* graph) const;
  std::optional<Array> read(const Segment& segment, tenon_value_t value, tenon_device_t* device,
                            const tenon_span_t& span, const tenon_symbols_t& symbols) const;

  std::string plugin_;
  const tenon_host_session_t* session_ = nullptr;
  const tenon_host_files_t* files_ = nullptr;
  const tenon_device_api_t* device_ = nullptr;
  const tenon_queue_api_t* queue_ = nullptr;  // may be null
  const tenon_compile_api_t* compile_ = nullptr;
  tenon_compile_api_t table_ = {};
  struct Loaded {
    Segment* segment;
    tenon_device_t* device;
  };
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Segment>> segments_;  // by hash
  std::map<const tenon_artifact_t*, Segment*> artifacts_;
  std::map<std::string, Segment*> by_bytes_;  // by key_of
  std::map<const tenon_executable_t*, Loaded> executables_;
};

}  // namespace tenon::record

#endif
