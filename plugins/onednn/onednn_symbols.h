// The functions of oneDNN's library, which is opened when it is first needed. No other file of the
// plugin knows where they come from; the headers give types alone.
#ifndef TENON_PLUGINS_ONEDNN_SYMBOLS_H_
#define TENON_PLUGINS_ONEDNN_SYMBOLS_H_

#include <oneapi/dnnl/dnnl.h>

#include <string>

#define TENON_ONEDNN_FUNCTIONS(X)               \
  X(dnnl_version)                               \
  X(dnnl_get_effective_cpu_isa)                 \
  X(dnnl_engine_create)                         \
  X(dnnl_stream_create)                         \
  X(dnnl_stream_wait)                           \
  X(dnnl_stream_destroy)                        \
  X(dnnl_memory_create)                         \
  X(dnnl_memory_destroy)                        \
  X(dnnl_memory_desc_init_by_strides)           \
  X(dnnl_memory_desc_init_by_tag)               \
  X(dnnl_memory_desc_equal)                     \
  X(dnnl_memory_desc_get_size)                  \
  X(dnnl_matmul_desc_init)                      \
  X(dnnl_dilated_convolution_forward_desc_init) \
  X(dnnl_primitive_attr_create)                 \
  X(dnnl_primitive_attr_destroy)                \
  X(dnnl_primitive_attr_set_post_ops)           \
  X(dnnl_primitive_attr_set_scratchpad_mode)    \
  X(dnnl_post_ops_create)                       \
  X(dnnl_post_ops_destroy)                      \
  X(dnnl_post_ops_append_eltwise)               \
  X(dnnl_post_ops_append_sum)                   \
  X(dnnl_primitive_desc_create)                 \
  X(dnnl_primitive_desc_destroy)                \
  X(dnnl_primitive_desc_query_md)               \
  X(dnnl_reorder_primitive_desc_create)         \
  X(dnnl_primitive_create)                      \
  X(dnnl_primitive_destroy)                     \
  X(dnnl_primitive_execute)

namespace tenon::onednn {

struct Library {
#define TENON_ONEDNN_SLOT(name) decltype(&::name) name = nullptr;
  TENON_ONEDNN_FUNCTIONS(TENON_ONEDNN_SLOT)
#undef TENON_ONEDNN_SLOT
  // Of the OpenMP runtime that the library is linked with; null where it uses no threads.
  void (*omp_set_num_threads)(int) = nullptr;
  int (*omp_get_max_threads)() = nullptr;
  dnnl_engine_t engine = nullptr;  // the processor; lives as long as the process
};

// Opens the library on first use. Null if it cannot be used: *why says why not. Threads: safe.
const Library* library(std::string* why);

// While one exists, its thread calls the library, which then uses this thread alone: a pool of its
// own would spin while the host's runs. Afterwards the program has its number of OpenMP threads
// again.
class OneThread {
 public:
  explicit OneThread(const Library& l)
      : l_(l), before_(l.omp_get_max_threads == nullptr ? 1 : l.omp_get_max_threads()) {
    if (before_ != 1) l_.omp_set_num_threads(1);
  }
  ~OneThread() {
    if (before_ != 1) l_.omp_set_num_threads(before_);
  }
  OneThread(const OneThread&) = delete;

 private:
  const Library& l_;
  const int before_;
};

}  // namespace tenon::onednn

#endif
