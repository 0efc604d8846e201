// The inputs of a run: from files, or random; symbolic dims decided by files and by --dim.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "sdk/tools/support/tensors.h"
#include "sdk/tools/tenon/host.h"
#include "sdk/tools/tenon/options.h"

namespace tenon::tools {

// One input with its memory: a blob of a file, or bytes of ours.
class Input {
 public:
  Input(const Host& host, std::string name) : name(std::move(name)), host_(&host) {}
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;
  ~Input();
  // Keeps the tensor of a file. An exit status.
  int keep(const tenon_tensor_t& tensor);
  // Random values for a type of constant dims. An exit status.
  int randomize(tenon_dtype_t dtype, std::vector<int64_t> dims, uint64_t seed, uint64_t stream);

  std::string name;
  std::string file;  // empty: random
  Dense tensor;

 private:
  const Host* host_;
  tenon_blob_t* blob_ = nullptr;
  void* memory_ = nullptr;
};
using Inputs = std::vector<std::unique_ptr<Input>>;

// Reads what --input names and, when `random`, makes the others. all missing inputs are told at
// once.
int gather_inputs(const Host& host, tenon_model_t* model, const RunOptions& options, bool random,
                  Inputs& inputs);

}  // namespace tenon::tools
