// Graphs compiled and run through tenon.host.session/1, as a program does: what results are
// compared with, and how the cases of group F run.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include <tenon/abi/session.h>

#include "core/conform/check.h"
#include "core/conform/open_device.h"
#include "core/tools/tensors.h"

namespace tenon::conform {

inline constexpr std::string_view kReference = "reference";

// The tables that a program works with.
struct Api {
  const tenon_host_t* host = nullptr;
  const tenon_host_graph_t* graph = nullptr;
  const tenon_host_session_t* session = nullptr;
};
// Skipped where the installed host does not start or lacks one.
Outcome find_api(Api* out);

// The host's last failure of this thread.
std::string last_failure(const Api& api);
std::string failure_id(const Api& api);

// A tensor of a program, with its bytes.
struct Named {
  std::string name;
  tools::Dense tensor;
  Bytes bytes;
};

// A model, compiled for one device.
class Program {
 public:
  explicit Program(const Api& api) : api_(api) {}
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program();
  // What the device does not take runs on the reference, which compiles nothing. whole: composites
  // are broken up before, and nothing may run elsewhere.
  tenon_code_t compile(const std::string& text, std::string_view kind, bool whole);
  // The same of a graph, which is cloned, as it stands.
  tenon_code_t compile(tenon_graph_t* graph, std::string_view kind);
  // Which device every node runs on, in order of nodes.
  std::vector<std::string> devices() const;
  // Of nodes on devices for which there are kernel sets: the plugin whose kernel or code runs the
  // node; else empty.
  std::vector<std::string> makers() const;
  tenon_model_info_t info() const;
  tenon_program_t* get() const { return program_; }
  const Api& api() const { return api_; }

 private:
  tenon_code_t compile_model(std::string_view kind, bool whole);
  std::vector<std::string> of_nodes(const char* key) const;
  const Api& api_;
  tenon_model_t* model_ = nullptr;
  tenon_program_t* program_ = nullptr;
};

// Fills one tensor. stream: a number of its own.
using Fill =
    std::function<void(tenon_dtype_t dtype, uint64_t stream, int64_t count, unsigned char* bytes)>;

// Inputs of a program without symbolic dims.
std::vector<Named> make_inputs(const tenon_model_info_t& info, const Fill& fill);

// One run; the outputs copied out. False with the reason when it fails.
bool run_program(const Program& program, const std::vector<Named>& inputs,
                 std::vector<Named>* outputs, std::string* why);

}  // namespace tenon::conform
