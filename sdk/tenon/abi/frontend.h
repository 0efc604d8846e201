/* Tenon ABI: frontends (tenon.frontend/1): convert a format to a graph, and read and write tensors
 * in files. A frontend never opens a file itself: it reads through the source or
 * tenon.host.files/1.
 *
 *
 * Stability: stable.
 */
#ifndef TENON_ABI_FRONTEND_H_
#define TENON_ABI_FRONTEND_H_

#include "tenon/abi/graph.h"
#include "tenon/abi/record.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_FRONTEND_ID "tenon.frontend/1"
#define TENON_FRONTEND_MINOR 0u

/* A dense row-major tensor with constant dims. `blob` is borrowed; retain it to keep it. */
typedef struct tenon_file_tensor_t {
  uint32_t size_bytes;
  tenon_dtype_t dtype;
  uint16_t reserved;
  uint32_t rank;
  uint32_t reserved2;
  const int64_t* dims;
  tenon_str_t name; /* may be empty */
  tenon_blob_t* blob;
} tenon_file_tensor_t;

/* A frontend reports inputs whose values decide sizes, axes or counts. When a program runs, the
 * host loads the source again with those values, and guards what it compiles by them. Strings are
 * borrowed for the call. */
typedef struct tenon_value_sink_t {
  uint32_t size_bytes;
  uint32_t reserved;
  void* self;
  /* input: its name. why: what needs it and where, "the shape of node 'r' (Reshape)". Each input is
   * reported once. */
  tenon_code_t (*input)(void* self, tenon_str_t input, tenon_str_t why);
  /* No single graph serves all values: the loaded one has the model's inputs and outputs and can
   * only be inspected. Reported at most once. */
  tenon_code_t (*only_by_value)(void* self, tenon_str_t why);
  /* Sizes decide which graph there is: the frontend goes on once it has the value of a dim of
   * the graph that it gives now, which is over the symbols of its inputs. When a program runs, the
   * host computes it, loads the source again with the answer (tenon_source_t::cases), and guards
   * what it compiles by it. Reported with only_by_value, once in a load. why: "the condition of
   * node 'c' (If)". */
  tenon_code_t (*size_case)(void* self, tenon_dim_t dim, tenon_str_t why);
} tenon_value_sink_t;

/* Borrowed. */
typedef struct tenon_source_t {
  uint32_t size_bytes;
  uint32_t option_count;
  tenon_str_t name; /* for diagnostics: the path as the user gave it */
  /* For files next to it (tenon.host.files/1 map_beneath); empty: there are none. */
  tenon_str_t folder;
  tenon_blob_t* bytes; /* the mapped file; ranges of it keep the mapping */
  const tenon_key_value_t* options;
  /* ---- load only: inputs by value ---- */
  /* Inputs, by name, that have these values in every run of this graph; they remain its inputs.
   * Records are as far apart as the first one's size_bytes says: tenon_source_value. */
  const tenon_file_tensor_t* values;
  /* null: the host cannot load again, so whatever needs the values of an input is refused. */
  const tenon_value_sink_t* value_sink;
  uint32_t value_count;
  /* The values of the dims that earlier loads of this source reported as size_case, in that order.
   */
  uint32_t case_count;
  const int64_t* cases;
} tenon_source_t;

/* Value i of a source. A helper. */
static inline const tenon_file_tensor_t* tenon_source_value(const tenon_source_t* source,
                                                            uint32_t i) {
  return (const tenon_file_tensor_t*)tenon_record_at(source->values, i, source->values->size_bytes);
}

typedef struct tenon_file_tensor_sink_t {
  uint32_t size_bytes;
  uint32_t reserved;
  void* self;
  tenon_code_t (*tensor)(void* self, const tenon_file_tensor_t* tensor);
} tenon_file_tensor_sink_t;

typedef struct tenon_frontend_api_t {
  uint32_t size_bytes;
  void* self;
  tenon_str_t name;       /* "onnx" */
  tenon_str_t extensions; /* comma-separated, with dots: ".onnx" */
  /* 0: not this format; higher is surer. Gets up to 4096 leading bytes. */
  uint32_t (*accepts)(void* self, tenon_str_t name, const void* head, uint64_t head_bytes);
  /* ---- Optional, at least one of load and read_tensors ---- */
  /* A new graph, which the host verifies afterwards. INVALID_ARGUMENT with every problem found and
   * its location. */
  tenon_code_t (*load)(void* self, const tenon_source_t* source, tenon_graph_t** out_graph);
  tenon_code_t (*read_tensors)(void* self, const tenon_source_t* source,
                               const tenon_file_tensor_sink_t* sink);
  tenon_code_t (*write_tensor)(void* self, const tenon_file_tensor_t* tensor,
                               const tenon_sink_t* sink);
} tenon_frontend_api_t;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif
