#include "kernel.h"

#include <tenon/cpp/plugin.hpp>

#include <algorithm>

namespace tenon::cublaslt {
namespace {

// Memory that others lend begins at multiples of this; the host's own, of more.
constexpr uint32_t kAlignmentBytes = 16;
// Sizes whose products are kept: a choice of an algorithm costs the host some microseconds.
constexpr size_t kMostKnown = 16;

void* pointer(uint64_t address) {
  return reinterpret_cast<void*>(address);
}

}  // namespace

uint64_t workspace_bytes(const Problem& p) {
  constexpr double kMost = 32 << 20, kSplits = 16, kSumBytes = 4;
  constexpr uint64_t kGrain = 256;
  if (p.any_size) return static_cast<uint64_t>(kMost);
  const double sums = kSplits * kSumBytes * static_cast<double>(p.batch) *
                      static_cast<double>(p.result.rows) * static_cast<double>(p.result.columns);
  return (static_cast<uint64_t>(std::min(kMost, sums)) + kGrain - 1) / kGrain * kGrain;
}

Status Product::create(const Library& l, const Gpu& gpu, const Problem& problem,
                       std::unique_ptr<Product>* out) {
  std::unique_ptr<Product> made(new Product(l, gpu, problem));
  TENON_TRY(made->describe());
  TENON_TRY(made->choose());
  *out = std::move(made);
  return {};
}

Product::~Product() {
  if (desc_ != nullptr) (void)l_.desc_destroy(desc_);
  for (const Layout layout : {weights_, source_, result_}) {
    if (layout != nullptr) (void)l_.layout_destroy(layout);
  }
}

template <class T>
Status Product::set(DescAttribute attribute, const T& value) const {
  return check(l_.desc_set(desc_, attribute, &value, sizeof value), "describing a product");
}

Status Product::describe(const Matrix& m, Layout* out) const {
  constexpr std::string_view kDoing = "describing a matrix";
  TENON_TRY(check(l_.layout_create(out, m.type, static_cast<uint64_t>(m.rows),
                                   static_cast<uint64_t>(m.columns), m.leading),
                  kDoing));
  if (problem_.batch == 1) return {};
  const auto batch = static_cast<int32_t>(problem_.batch);
  TENON_TRY(check(l_.layout_set(*out, kLayoutBatchCount, &batch, sizeof batch), kDoing));
  return check(l_.layout_set(*out, kLayoutBatchStride, &m.batch_stride, sizeof m.batch_stride),
               kDoing);
}

Status Product::describe() {
  TENON_TRY(describe(problem_.weights, &weights_));
  TENON_TRY(describe(problem_.source, &source_));
  TENON_TRY(describe(problem_.result, &result_));
  TENON_TRY(check(l_.desc_create(&desc_, problem_.compute, kF32), "describing a product"));
  TENON_TRY(set<int32_t>(kDescTransposeA, problem_.weights.transpose));
  TENON_TRY(set<int32_t>(kDescTransposeB, problem_.source.transpose));
  TENON_TRY(set<uint32_t>(kDescEpilogue, problem_.epilogue()));
  if (problem_.bias == TENON_NONE) return {};
  // The choice of an algorithm looks at how it is aligned.
  return set<const void*>(kDescBias, pointer(kAlignmentBytes));
}

Status Product::choose() {
  constexpr std::string_view kDoing = "choosing an algorithm";
  Preference preference = nullptr;
  TENON_TRY(check(l_.preference_create(&preference), kDoing));
  struct Release {
    const Library& l;
    Preference preference;
    ~Release() { (void)l.preference_destroy(preference); }
  } const release{l_, preference};
  const uint64_t most = cublaslt::workspace_bytes(problem_);
  TENON_TRY(check(l_.preference_set(preference, kPreferenceWorkspace, &most, sizeof most), kDoing));
  TENON_TRY(check(l_.preference_set(preference, kPreferenceReductionSchemes, &kReductionInSumType,
                                    sizeof kReductionInSumType),
                  kDoing));
  for (const PreferenceAttribute side :
       {kPreferenceAlignmentA, kPreferenceAlignmentB, kPreferenceAlignmentC, kPreferenceAlignmentD})
    TENON_TRY(check(l_.preference_set(preference, side, &kAlignmentBytes, sizeof kAlignmentBytes),
                    kDoing));
  Heuristic best = {};
  int found = 0;
  TENON_TRY(check(l_.heuristic(gpu_.handle(), desc_, weights_, source_, result_, result_,
                               preference, 1, &best, &found),
                  kDoing));
  if (found < 1) return fail(TENON_INTERNAL, "cublaslt: there is no algorithm for this product");
  TENON_TRY(check(best.state, kDoing));
  if (best.workspace_bytes > most)
    return fail(TENON_INTERNAL, "cublaslt: the algorithm wants more workspace than it was offered");
  algorithm_ = best.algorithm;
  workspace_bytes_ = best.workspace_bytes;
  return {};
}

Status Product::submit(const Arrays& a, CUstream stream) {
  const float one = 1, zero = 0;
  if (a.bias != 0) TENON_TRY(set<const void*>(kDescBias, pointer(a.bias)));
  return check(
      l_.product(gpu_.handle(), desc_, &one, pointer(a.weights), weights_, pointer(a.source),
                 source_, a.residual != 0 ? &one : &zero,
                 pointer(a.residual != 0 ? a.residual : a.result), result_, pointer(a.result),
                 result_, &algorithm_, pointer(a.workspace), workspace_bytes_, stream),
      "starting a product");
}

Status Kernel::ask(const Library& l, int ordinal, const Problem& problem) {
  std::shared_ptr<Gpu> gpu;
  TENON_TRY(Gpu::to_ask(l, ordinal, &gpu));
  const Gpu::Current current(*gpu);
  TENON_TRY(current.status());
  std::unique_ptr<Product> product;
  return Product::create(l, *gpu, problem, &product);
}

Status Kernel::create(const Library& l, const Tables& tables, tenon_device_t* device,
                      const Problem& problem, std::unique_ptr<Kernel>* out) {
  std::unique_ptr<Kernel> made(new Kernel(l, tables, device, problem));
  TENON_TRY(Gpu::of(l, tables, device, &made->gpu_));
  const Gpu::Current current(*made->gpu_);
  TENON_TRY(current.status());
  // Of known sizes it is the only one. Of others, what the library cannot do at all is known now.
  std::unique_ptr<Product> product;
  TENON_TRY(Product::create(l, *made->gpu_, problem, &product));
  if (!problem.any_size) made->known_.push_front({{}, std::move(product)});
  *out = std::move(made);
  return {};
}

Kernel::~Kernel() = default;

Status Kernel::address(const tenon_kernel_args_t& args, uint32_t operand, uint64_t* out) const {
  *out = 0;
  if (operand == TENON_NONE) return {};
  return address_of(tables_, device_, args.inputs[operand], args.input_offsets_bytes[operand], out);
}

Status Kernel::run(const tenon_kernel_args_t& args) {
  const Gpu::Current current(*gpu_);
  TENON_TRY(current.status());
  if (args.native_queue != nullptr)
    return submit(args, reinterpret_cast<CUstream>(args.native_queue->handle));
  TENON_TRY(submit(args, nullptr));
  return check_driver(l_.stream_synchronize(nullptr), "waiting for a product");
}

Status Kernel::product_of(const tenon_kernel_args_t& args, Product** out) {
  if (!problem_.any_size) {
    *out = known_.front().product.get();
    return {};
  }
  *out = nullptr;
  const int64_t *const source = args.input_dims[kSource], *const weights =
                                                              args.input_dims[kWeights];
  Problem problem;
  TENON_TRY(resize_problem(problem_, source, weights, &problem));
  if (problem.result_bytes == 0) return {};
  std::vector<int64_t> sizes(source, source + problem_.dims.source_rank);
  sizes.insert(sizes.end(), weights, weights + problem_.dims.weights_rank);
  const auto found = std::find_if(known_.begin(), known_.end(),
                                  [&](const Known& known) { return known.sizes == sizes; });
  if (found != known_.end()) {
    known_.splice(known_.begin(), known_, found);
  } else {
    std::unique_ptr<Product> product;
    TENON_TRY(Product::create(l_, *gpu_, problem, &product));
    known_.push_front({std::move(sizes), std::move(product)});
    if (known_.size() > kMostKnown) known_.pop_back();
  }
  *out = known_.front().product.get();
  return {};
}

Status Kernel::submit(const tenon_kernel_args_t& args, CUstream stream) {
  const std::lock_guard lock(mutex_);
  Product* product = nullptr;
  TENON_TRY(product_of(args, &product));
  if (product == nullptr) return {};
  Product::Arrays arrays;
  TENON_TRY(address(args, kWeights, &arrays.weights));
  TENON_TRY(address(args, kSource, &arrays.source));
  TENON_TRY(address(args, problem_.bias, &arrays.bias));
  TENON_TRY(address(args, problem_.residual, &arrays.residual));
  TENON_TRY(
      address_of(tables_, device_, args.outputs[0], args.output_offsets_bytes[0], &arrays.result));
  if (product->workspace_bytes() != 0)
    TENON_TRY(address_of(tables_, device_, args.workspace, args.workspace_offset_bytes,
                         &arrays.workspace));
  return product->submit(arrays, stream);
}

}  // namespace tenon::cublaslt
