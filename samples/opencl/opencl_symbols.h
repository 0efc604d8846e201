// The OpenCL functions that this plugin calls, looked up at run time in the system's ICD loader, so
// that the plugin loads, and reports errors, on machines without OpenCL. Only this file includes
// the vendor's header.
#ifndef OPENCL_SAMPLE_SYMBOLS_H_
#define OPENCL_SAMPLE_SYMBOLS_H_

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <string>

#include "tenon/cpp/status.hpp"

namespace opencl_sample {

// clang-format off: it would indent each line further than the previous one.
#define OPENCL_SAMPLE_FUNCTIONS(F) \
  F(clGetPlatformIDs) F(clGetDeviceIDs) F(clGetDeviceInfo) F(clCreateContext) \
  F(clReleaseContext) F(clCreateCommandQueue) F(clReleaseCommandQueue) F(clCreateBuffer) \
  F(clCreateSubBuffer) F(clRetainMemObject) F(clReleaseMemObject) \
  F(clGetMemObjectInfo) F(clEnqueueMapBuffer) F(clEnqueueUnmapMemObject) F(clEnqueueReadBuffer) \
  F(clEnqueueWriteBuffer) F(clEnqueueCopyBuffer) F(clEnqueueFillBuffer) F(clFlush) \
  F(clFinish) F(clReleaseEvent) F(clSetEventCallback) F(clGetEventProfilingInfo) \
  F(clEnqueueMarkerWithWaitList) F(clEnqueueBarrierWithWaitList) F(clCreateProgramWithSource) \
  F(clCreateProgramWithBinary) F(clBuildProgram) F(clGetProgramInfo) \
  F(clGetProgramBuildInfo) F(clReleaseProgram) F(clCreateKernel) F(clReleaseKernel) \
  F(clSetKernelArg) F(clEnqueueNDRangeKernel) F(clRetainCommandQueue) F(clGetCommandQueueInfo) \
  F(clCreateUserEvent) F(clSetUserEventStatus) F(clRetainEvent) F(clGetEventInfo)
// clang-format on

struct Functions {
#define OPENCL_SAMPLE_MEMBER(name) decltype(&::name) name = nullptr;
  OPENCL_SAMPLE_FUNCTIONS(OPENCL_SAMPLE_MEMBER)
#undef OPENCL_SAMPLE_MEMBER
};

// Null, with a reason, if there is no OpenCL on this machine. Looks once. Threads: safe.
const Functions* functions(std::string* why);

// OK, or a failure that says what was tried and OpenCL's error.
tenon::Status check(cl_int code, std::string_view doing);

}  // namespace opencl_sample
#endif
