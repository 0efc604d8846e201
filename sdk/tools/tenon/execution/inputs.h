// The inputs of a run, from files or random; symbolic dims are set by files and by --dim.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sdk/tools/support/tensors.h"
#include "sdk/tools/tenon/cli/options.h"
#include "sdk/tools/tenon/host/host.h"

namespace tenon::tools {

// One input with its memory: a file's blob, or bytes of its own.
class Input {
 public:
  Input(const Host& host, std::string name) : name(std::move(name)), host_(&host) {}
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;
  ~Input();
  // Keeps a tensor of a file. Returns an exit status.
  int keep(const tenon_file_tensor_t& tensor);
  // Random values for a type of constant dims. Returns an exit status.
  int randomize(tenon_dtype_t dtype, std::vector<int64_t> dims, uint64_t seed, uint64_t stream);

  std::string name;
  std::string file;  // empty: random
  Dense tensor;

 private:
  const Host* host_;
  tenon_blob_t* blob_ = nullptr;
  void* memory_ = nullptr;
};
struct Inputs : std::vector<std::unique_ptr<Input>> {
  std::vector<std::pair<std::string, int64_t>> sizes;  // symbolic dims with their values
};

// What a model or a program takes and gives. Borrows from it.
struct Signature {
  explicit Signature(const Host& host) : graph(host) {}
  tenon_model_info_t info = sized<tenon_model_info_t>();
  Graph graph;                          // its arguments are the inputs
  std::vector<std::string> fixed_dims;  // that load() fixed: no symbols of the graph
};
int signature_of(const Host& host, const Model& model, Signature& out);
int signature_of(const Host& host, const Program& program, Signature& out);

// NAME=N of --dim. Returns an exit status.
int parse_dim(const std::string& text, std::string& name, int64_t& size);

// Whether the model has the dims of --dim, and takes their sizes. Returns an exit status.
int check_dims(const Host& host, const Signature& signature, const RunOptions& options);

// Reads the inputs that --input names and, if `random`, generates the others. All missing inputs
// are reported at once. Sizes are those that --dim names and, if `random`, likely ones
// that the model takes. A size that it cannot take is explained in words.
int gather_inputs(const Host& host, const Signature& signature, const RunOptions& options,
                  bool random, Inputs& inputs);

}  // namespace tenon::tools
