/* Tenon ABI: frontends (tenon.frontend/1): bytes of some format into a graph, and tensors from and
 * to files. A frontend never opens a file itself: what it reads comes through the source or
 * tenon.host.files/1.
 *
 * Users: frontends/onnx (graphs), frontends/npy (tensors).
 */
#ifndef TENON_ABI_FRONTEND_H_
#define TENON_ABI_FRONTEND_H_

#include "tenon/abi/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_FRONTEND_ID "tenon.frontend/1"

/* A dense row-major tensor; dims all constant. `blob` is borrowed, retain to keep. */
typedef struct tenon_tensor_t {
  uint32_t size_bytes;
  tenon_dtype_t dtype;
  uint16_t reserved;
  uint32_t rank;
  uint32_t reserved2;
  const int64_t* dims;
  tenon_str_t name; /* may be empty */
  tenon_blob_t* blob;
} tenon_tensor_t;

/* What a frontend tells of inputs whose values decide sizes, axes or counts. The host loads the
 * source again with those values when a program is run, and guards what it compiles by them.
 * Strings are borrowed for the call. */
typedef struct tenon_value_sink_t {
  void* self;
  /* input: its name. why: what needs it and where, "the shape of node 'r' (Reshape)". An input is
   * told once. */
  tenon_code_t (*input)(void* self, tenon_str_t input, tenon_str_t why);
  /* No one graph serves all values: the loaded one has the model's inputs and outputs and can only
   * be looked at. Told at most once. */
  tenon_code_t (*only_by_value)(void* self, tenon_str_t why);
} tenon_value_sink_t;

/* Borrowed. */
typedef struct tenon_source_t {
  uint32_t size_bytes;
  uint32_t option_count;
  tenon_str_t name; /* for diagnostics: the path as the user gave it */
  tenon_str_t
      folder; /* for files beside it (tenon.host.files/1 map_beneath); empty: there are none */
  tenon_blob_t* bytes; /* the mapped file; ranges of it keep the mapping */
  const tenon_key_value_t* options;
  /* ---- load only: inputs by value ---- */
  const tenon_tensor_t* values; /* inputs, by name, that have these values at every run of this
                                   graph: they stay inputs of it */
  const tenon_value_sink_t* value_sink; /* null: the host cannot load again, and what needs the
                                           values of an input is refused */
  uint32_t value_count;
  uint32_t reserved;
} tenon_source_t;

typedef struct tenon_tensor_sink_t {
  void* self;
  tenon_code_t (*tensor)(void* self, const tenon_tensor_t* tensor);
} tenon_tensor_sink_t;

/* A recorded case of a test folder: inputs and expected outputs, by position. */
typedef struct tenon_case_sink_t {
  void* self;
  tenon_code_t (*begin)(void* self, tenon_str_t name);
  tenon_code_t (*input)(void* self, const tenon_tensor_t* tensor);
  tenon_code_t (*output)(void* self, const tenon_tensor_t* tensor);
} tenon_case_sink_t;

typedef struct tenon_frontend_api_t {
  uint32_t size_bytes;
  void* self;
  tenon_str_t name;       /* "onnx" */
  tenon_str_t extensions; /* comma-separated, with dots: ".onnx" */
  /* 0: not mine; higher is surer. Sees up to 4096 leading bytes. */
  uint32_t (*accepts)(void* self, tenon_str_t name, const void* head, uint64_t head_bytes);
  /* ---- Optional, at least one of load and read_tensors ---- */
  /* A new graph, verified by the host afterwards. INVALID_ARGUMENT with every problem found,
   * located. */
  tenon_code_t (*load)(void* self, const tenon_source_t* source, tenon_graph_t** out_graph);
  tenon_code_t (*read_tensors)(void* self, const tenon_source_t* source,
                               const tenon_tensor_sink_t* sink);
  tenon_code_t (*write_tensor)(void* self, const tenon_tensor_t* tensor, const tenon_sink_t* sink);
  /* Test cases beside a model (test_data_set_N folders). */
  tenon_code_t (*cases)(void* self, const tenon_source_t* source, const tenon_case_sink_t* sink);
} tenon_frontend_api_t;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif
