// Tensors of the file as constants. They are ranges of the mapped file wherever its bytes are
// usable in place, so weights are not copied. Every size is checked before memory is allocated.
#ifndef FRONTENDS_ONNX_GRAPH_WEIGHTS_H_
#define FRONTENDS_ONNX_GRAPH_WEIGHTS_H_

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <tenon/abi/frontend.h>
#include <tenon/abi/host.h>
#include <tenon/cpp/graph.hpp>

#include "frontends/onnx/reader/model.h"

namespace tenon::onnx {

struct Constant {
  tenon_dtype_t dtype = TENON_DTYPE_NONE;
  std::vector<int64_t> dims;
  Blob blob;
};

// Where a model comes from. Borrowed during one load.
struct Source {
  Text name;
  tenon_str_t folder = {};
  tenon_blob_t* file = nullptr;
  Text bytes;                                 // of file
  const tenon_host_files_t* files = nullptr;  // null: external data is refused
  std::map<std::string, std::vector<int64_t>, std::less<>>
      values;  // inputs that the user fixed, by name: no inputs any more
  std::map<std::string, int64_t, std::less<>> dims;  // symbolic dims that the user fixed, by name
  std::map<std::string, Constant, std::less<>>
      guarded;  // inputs with the values that they have at every run; they stay inputs
  std::vector<int64_t> cases;                    // of its sizes: what earlier loads asked for
  std::set<std::string, std::less<>> overrides;  // initializers that the caller gives as inputs
};

// TENON_DTYPE_NONE for types that our tensors do not have (strings) and for unknown numbers.
tenon_dtype_t dtype_of_onnx(int32_t data_type);

// Product of the dims; -1 if one is negative or the limit of elements is exceeded.
int64_t element_count(const std::vector<int64_t>& dims);

// `where` begins the problem's sentence: "initializer 'w'". False with the problem reported.
bool read_tensor(const TensorProto& tensor, const Source& source, const std::string& where,
                 Problems* problems, Constant* out);

}  // namespace tenon::onnx

#endif  // FRONTENDS_ONNX_GRAPH_WEIGHTS_H_
