// For tests of kernelgen only: runs generated OpenCL C on the first platform of the machine (PoCL
// in CI).
#ifndef TENON_KERNELGEN_TESTING_TEST_OPENCL_H_
#define TENON_KERNELGEN_TESTING_TEST_OPENCL_H_

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include "tenon/kernelgen/testing/test_support.h"

namespace tenon::kernelgen::testing {

class OpenCl {
 public:
  explicit OpenCl(uint32_t group) : target_(Target::opencl(true, group)) {
    cl_platform_id platform = nullptr;
    cl_uint n = 0;
    if (clGetPlatformIDs(1, &platform, &n) != CL_SUCCESS || n == 0) return;
    if (clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device_, nullptr) != CL_SUCCESS) return;
    context_ = clCreateContext(nullptr, 1, &device_, nullptr, nullptr, nullptr);
    if (context_) queue_ = clCreateCommandQueue(context_, device_, 0, nullptr);
  }
  bool present() const { return queue_ != nullptr; }

  bool run(const Kernel& source, const std::vector<int64_t>& ext, std::vector<Data>* memory,
           std::string* why) {
    std::vector<Kernel> kernels = partition(source, target_);
    Module m;
    if (!generate(kernels, target_, &m, why)) return false;
    const char* text = m.text.c_str();
    cl_program program = clCreateProgramWithSource(context_, 1, &text, nullptr, nullptr);
    if (clBuildProgram(program, 1, &device_, "-cl-std=CL1.2 -w", nullptr, nullptr) != CL_SUCCESS) {
      std::string log(20000, 0);
      clGetProgramBuildInfo(program, device_, CL_PROGRAM_BUILD_LOG, log.size(), log.data(),
                            nullptr);
      *why = log.c_str() + m.text;
      return false;
    }
    std::vector<cl_mem> buffers;
    for (Data& d : *memory) {
      buffers.push_back(clCreateBuffer(context_, CL_MEM_COPY_HOST_PTR,
                                       std::max<size_t>(1, d.bytes.size()), d.bytes.data(),
                                       nullptr));
    }
    bool ok = true;
    for (size_t i = 0; i < kernels.size() && ok; ++i)
      ok = launch(program, kernels[i], m.launches[i], ext, buffers, why);
    for (size_t i = 0; i < buffers.size(); ++i) {
      clEnqueueReadBuffer(queue_, buffers[i], CL_TRUE, 0, (*memory)[i].bytes.size(),
                          (*memory)[i].bytes.data(), 0, nullptr, nullptr);
      clReleaseMemObject(buffers[i]);
    }
    clReleaseProgram(program);
    return ok;
  }

 private:
  bool launch(cl_program program, const Kernel& k, const Launch& l, const std::vector<int64_t>& ext,
              const std::vector<cl_mem>& buffers, std::string* why) {
    cl_kernel kernel = clCreateKernel(program, l.entry.c_str(), nullptr);
    std::vector<int64_t> e;
    for (uint32_t x : k.extent_origin) e.push_back(ext[x]);
    cl_uint arg = 0;
    for (uint32_t b : l.buffers)
      clSetKernelArg(kernel, arg++, sizeof(cl_mem), &buffers[k.buffer_origin[b]]);
    for (int64_t& x : e) clSetKernelArg(kernel, arg++, sizeof x, &x);
    const size_t items = static_cast<size_t>(l.range.evaluate(e)), group = l.group;
    if (items == 0) return clReleaseKernel(kernel), true;
    const size_t n = global_size(items, l.group, l.together);
    cl_mem scratch = nullptr;
    if (const int64_t s = l.scratch_bytes.evaluate(e); s != 0) {
      scratch = clCreateBuffer(context_, CL_MEM_READ_WRITE, static_cast<size_t>(s) * items, nullptr,
                               nullptr);
      clSetKernelArg(kernel, arg++, sizeof(cl_mem), &scratch);
    }
    const cl_int rc = clEnqueueNDRangeKernel(queue_, kernel, 1, nullptr, &n,
                                             group == 0 ? nullptr : &group, 0, nullptr, nullptr);
    clFinish(queue_);
    if (rc != CL_SUCCESS) *why = "clEnqueueNDRangeKernel: " + std::to_string(rc);
    if (scratch) clReleaseMemObject(scratch);
    clReleaseKernel(kernel);
    return rc == CL_SUCCESS;
  }

  const Target target_;
  cl_device_id device_ = nullptr;
  cl_context context_ = nullptr;
  cl_command_queue queue_ = nullptr;
};

}  // namespace tenon::kernelgen::testing
#endif
