// One kernel: a product as the library describes it, and how it runs on the arrays of a call.
#ifndef TENON_PLUGINS_CUBLASLT_KERNEL_H_
#define TENON_PLUGINS_CUBLASLT_KERNEL_H_

#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "gpu.h"
#include "problem.h"

namespace tenon::cublaslt {

// What a kernel may use of the workspace: enough to keep the sums of a product that is cut along
// its depth, and no more than the vendor advises.
uint64_t workspace_bytes(const Problem& problem);

// A product of known sizes as the library describes it, with the algorithm for it. Threads: one at
// a time.
class Product {
 public:
  // The GPU's context is current, then and later.
  static Status create(const Library& l, const Gpu& gpu, const Problem& problem,
                       std::unique_ptr<Product>* out);
  ~Product();
  Product(const Product&) = delete;

  struct Arrays {
    uint64_t weights = 0, source = 0, bias = 0, residual = 0, result = 0, workspace = 0;
  };
  Status submit(const Arrays& arrays, CUstream stream);
  uint64_t workspace_bytes() const { return workspace_bytes_; }  // of the algorithm

 private:
  Product(const Library& l, const Gpu& gpu, const Problem& problem)
      : l_(l), gpu_(gpu), problem_(problem) {}
  Status describe();
  Status describe(const Matrix& matrix, Layout* out) const;
  template <class T>
  Status set(DescAttribute attribute, const T& value) const;
  Status choose();

  const Library& l_;
  const Gpu& gpu_;
  const Problem problem_;
  Layout weights_ = nullptr, source_ = nullptr, result_ = nullptr;
  ProductDesc desc_ = nullptr;  // holds where the bias is
  Algorithm algorithm_ = {};
  uint64_t workspace_bytes_ = 0;
};

// Threads: safe once made.
class Kernel {
 public:
  // Whether the library has an algorithm for the problem on that GPU, by the driver's number.
  static Status ask(const Library& l, int gpu, const Problem& problem);
  static Status create(const Library& l, const Tables& tables, tenon_device_t* device,
                       const Problem& problem, std::unique_ptr<Kernel>* out);
  ~Kernel();
  Kernel(const Kernel&) = delete;
  Status run(const tenon_kernel_args_t& args);

 private:
  Kernel(const Library& l, const Tables& tables, tenon_device_t* device, const Problem& problem)
      : l_(l), tables_(tables), device_(device), problem_(problem) {}
  // 0 for TENON_NONE.
  Status address(const tenon_kernel_args_t& args, uint32_t operand, uint64_t* out) const;
  Status submit(const tenon_kernel_args_t& args, CUstream stream);
  // The product of a run's sizes; null: it has nothing to compute. The lock is held.
  Status product_of(const tenon_kernel_args_t& args, Product** out);

  const Library& l_;
  const Tables tables_;
  tenon_device_t* const device_;
  const Problem problem_;
  std::shared_ptr<Gpu> gpu_;
  std::mutex mutex_;
  // Those of the sizes that came last, the latest first. The library reads a description before it
  // returns, so work in flight needs none of them.
  struct Known {
    std::vector<int64_t> sizes;  // of the source and of the weights
    std::unique_ptr<Product> product;
  };
  std::list<Known> known_;
};

}  // namespace tenon::cublaslt

#endif
