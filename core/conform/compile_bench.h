// A device that compiles, worked by hand as the host's partitioner works it: graphs as it gets
// them, what it makes of them, and executions in buffers with guards around.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <tenon/abi/compile.h>
#include <tenon/abi/extract.h>

#include "core/conform/open_device.h"
#include "core/conform/program.h"

namespace tenon::conform {

// A frozen graph. Immutable, so that several threads may use it.
class Part {
 public:
  static Outcome read(const Api& api, const std::string& text, std::unique_ptr<Part>* out);
  Part(const Api& api, tenon_graph_t* graph);  // takes over a reference
  Part(const Part&) = delete;
  ~Part();

  tenon_graph_t* graph() const { return graph_; }
  const Api& api() const { return api_; }
  const tenon_region_view_t& main() const { return main_; }
  const tenon_graph_view_t& whole() const { return whole_; }
  std::span<const tenon_node_t> nodes() const { return {main_.nodes, main_.node_count}; }
  tenon_node_view_t node(tenon_node_t node) const;
  tenon_value_view_t value(tenon_value_t value) const;
  std::string op_of(tenon_node_t node) const;
  std::vector<tenon_blob_t*> constants() const;  // in order of value index; the graph's
  // A value's shape; nothing where a dim is data-dependent.
  std::optional<std::vector<int64_t>> dims_of(tenon_value_t value,
                                              std::span<const int64_t> symbols) const;

  // Values for every argument; what the reference makes of them.
  std::vector<Named> inputs(std::span<const int64_t> symbols, const Fill& fill) const;
  Outcome expected(const std::vector<Named>& inputs, std::vector<Named>* out) const;

  std::string text() const;

 private:
  const Api& api_;
  tenon_graph_t* graph_;
  tenon_graph_view_t whole_ = {};
  tenon_region_view_t main_ = {};
};

// The graph that these nodes of another make, as the host cuts it out.
Outcome cut_out(const Part& from, std::span<const tenon_node_t> nodes, std::unique_ptr<Part>* out);

struct Claims {
  struct Claim {
    std::vector<tenon_node_t> nodes;
    double cost_ns;
    bool operator==(const Claim&) const = default;
  };
  struct Refusal {
    tenon_node_t node;
    tenon_code_t code;
    std::string reason;
    bool operator==(const Refusal&) const = default;
  };
  std::vector<Claim> claims;
  std::vector<Refusal> refusals;
  bool takes(tenon_node_t node) const;
};

// A compiled graph; released at the end.
struct Compiled {
  const tenon_compile_api_t* api = nullptr;
  tenon_artifact_t* artifact = nullptr;
  tenon_executable_t* executable = nullptr;
  Bytes bytes;
  Compiled() = default;
  Compiled(const Compiled&) = delete;
  ~Compiled();
  void release_artifact();
  void release_executable();
};

class CompileBench {
 public:
  explicit CompileBench(Session& session) : session_(session) {}
  // Finds tables and target. Not offered or skipped where there are none. Opens no device. The
  // compiler's table has so many optional slots.
  Outcome find(size_t optional_slots = SIZE_MAX);
  // The device of that number, closed with the bench.
  Outcome open(uint32_t ordinal, OpenDevice** out);

  Session& session() { return session_; }
  const Api& api() const { return api_; }
  const tenon_compile_api_t& compiler() const { return *compiler_; }
  const tenon_queue_api_t* queues() const { return queues_; }
  const tenon_device_info_t& info() const { return info_; }
  tenon_str_t target() const { return info_.target; }
  uint32_t device_count() const { return device_count_; }

  Outcome claim(const Part& part, Claims* out);
  // The graph of this text. Skipped unless the device takes every node of it.
  Outcome taken(const std::string& text, std::unique_ptr<Part>* out);

  // Finds, opens device 0, and reads a graph that it takes.
  Outcome ready(const std::string& text, OpenDevice** device, std::unique_ptr<Part>* part);

  tenon_code_t compile_code(const Part& part, tenon_artifact_t** out);
  Outcome compile(const Part& part, Compiled* out);  // artifact and bytes
  Outcome bytes_of(tenon_artifact_t* artifact, Bytes* out);
  tenon_code_t load_code(OpenDevice& device, const Bytes& bytes,
                         std::span<tenon_blob_t* const> constants, tenon_executable_t** out);
  Outcome load(OpenDevice& device, const Part& part, Compiled* out);

 private:
  Session& session_;
  Api api_;
  const tenon_device_api_t* devices_ = nullptr;
  const tenon_compile_api_t* compiler_ = nullptr;
  const tenon_queue_api_t* queues_ = nullptr;
  tenon_device_info_t info_ = {};
  uint32_t device_count_ = 0;
  std::map<uint32_t, std::unique_ptr<OpenDevice>> open_;
};

// What an execution needs for these symbols, as the device says.
struct Needs {
  tenon_needs_t needs = {};
  std::vector<tenon_output_need_t> outputs;
  std::vector<std::vector<int64_t>> dims;
};
tenon_code_t needs_code(const CompileBench& bench, tenon_executable_t* executable, const Part& part,
                        std::span<const int64_t> symbols, Needs* out);
// Fails where the dims of an output are none, or need more bytes than the output is said to have.
Outcome sound_needs(const Part& part, const Needs& needs);

// Buffers of one executable's executions. Every span has a guard on both sides of it.
class Execution {
 public:
  Execution(CompileBench& bench, OpenDevice& device, const Part& part,
            tenon_executable_t* executable, std::vector<int64_t> symbols)
      : bench_(bench),
        device_(device),
        part_(part),
        executable_(executable),
        symbols_(std::move(symbols)) {}
  Execution(const Execution&) = delete;
  ~Execution();

  // Makes buffers; outputs, workspace and guards hold `filler`. Output `shared_output` lies in the
  // memory of input `shared_input`.
  static constexpr uint32_t kNone = UINT32_MAX;
  Outcome prepare(const std::vector<Named>& inputs, unsigned char filler,
                  uint32_t shared_output = kNone, uint32_t shared_input = kNone);
  // Before `prepare`: one buffer stands for all inputs, which are equal.
  void put_inputs_together() { inputs_together_ = true; }
  tenon_call_t call() const;
  tenon_code_t run_code() const;
  Outcome run() const;
  const Needs& needs() const { return needs_; }

  // Outputs as they stand.
  Outcome outputs(std::vector<Named>* out);
  // Guards, and inputs but the shared one, are as they were.
  Outcome kept_all();

 private:
  struct Room {
    tenon_buffer_t* buffer = nullptr;
    uint64_t size_bytes = 0;
    tenon_span_t span(uint64_t guard) const { return {buffer, guard}; }
  };
  Outcome make_room(uint64_t size_bytes, Room* out);
  Outcome guarded(const Room& room, std::string_view what, Bytes* inside);

  CompileBench& bench_;
  OpenDevice& device_;
  const Part& part_;
  tenon_executable_t* executable_;
  std::vector<int64_t> symbols_;
  Needs needs_;
  std::vector<Named> input_values_;
  unsigned char filler_ = 0;
  bool inputs_together_ = false;
  uint64_t guard_ = 0;
  uint32_t shared_output_ = kNone, shared_input_ = kNone;
  std::vector<Room> inputs_, outputs_;
  Room workspace_;
  std::vector<tenon_span_t> input_spans_, output_spans_;
  std::vector<tenon_buffer_t*> buffers_;
};

// Fails unless both hold the same, within the tolerance of their element types.
Outcome same_tensors(const std::vector<Named>& got, const std::vector<Named>& expected,
                     std::string_view what);
// Fails unless both are the same to the bit.
Outcome same_bits(const std::vector<Named>& got, const std::vector<Named>& expected,
                  std::string_view what);

// Standard normal values and the like.
void fill_normal(tenon_dtype_t dtype, uint64_t stream, int64_t count, unsigned char* bytes);

}  // namespace tenon::conform
