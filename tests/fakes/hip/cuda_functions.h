// The functions of the tests' CUDA driver that other vendors' fakes call.
#ifndef TENON_TESTS_FAKES_HIP_CUDA_FUNCTIONS_H_
#define TENON_TESTS_FAKES_HIP_CUDA_FUNCTIONS_H_

#include <cstddef>

extern "C" {
int cuInit(unsigned);
int cuDeviceGetCount(int*);
int cuDeviceGetName(char*, int, int);
int cuDeviceTotalMem_v2(size_t*, int);
int cuDeviceGetUuid_v2(unsigned char*, int);
int cuDeviceGetAttribute(int*, int, int);
int cuStreamCreate(void**, unsigned);
int cuStreamDestroy_v2(void*);
int cuStreamSynchronize(void*);
int cuStreamWaitEvent(void*, void*, unsigned);
int cuEventCreate(void**, unsigned);
int cuEventDestroy_v2(void*);
int cuEventRecord(void*, void*);
int cuEventSynchronize(void*);
int cuEventQuery(void*);
int cuEventElapsedTime(float*, void*, void*);
int cuMemAlloc_v2(unsigned long long*, size_t);
int cuMemFree_v2(unsigned long long);
int cuMemAllocFromPoolAsync(unsigned long long*, size_t, void*, void*);
int cuMemFreeAsync(unsigned long long, void*);
int cuMemPoolCreate(void**, const void*);
int cuMemPoolDestroy(void*);
int cuMemPoolSetAttribute(void*, int, void*);
int cuMemPoolTrimTo(void*, size_t);
int cuMemPoolSetAccess(void*, const void*, size_t);
int cuDeviceCanAccessPeer(int*, int, int);
int cuCtxEnablePeerAccess(void*, unsigned);
int cuMemcpyPeerAsync(unsigned long long, void*, unsigned long long, void*, size_t, void*);
int cuMemHostAlloc(void**, size_t, unsigned);
int cuMemFreeHost(void*);
int cuMemcpyHtoDAsync_v2(unsigned long long, const void*, size_t, void*);
int cuMemcpyDtoHAsync_v2(void*, unsigned long long, size_t, void*);
int cuMemcpyDtoDAsync_v2(unsigned long long, unsigned long long, size_t, void*);
int cuMemsetD8Async(unsigned long long, unsigned char, size_t, void*);
int cuMemsetD16Async(unsigned long long, unsigned short, size_t, void*);
int cuMemsetD32Async(unsigned long long, unsigned, size_t, void*);
int cuThreadExchangeStreamCaptureMode(int*);
int cuStreamIsCapturing(void*, int*);
int cuStreamBeginCapture_v2(void*, int);
int cuStreamEndCapture(void*, void**);
int cuGraphInstantiateWithFlags(void**, void*, unsigned long long);
int cuGraphLaunch(void*, void*);
int cuGraphDestroy(void*);
int cuGraphExecDestroy(void*);
int cuPointerGetAttribute(void*, int, unsigned long long);
int cuModuleLoadDataEx(void**, const void*, unsigned, int*, void**);
int cuModuleUnload(void*);
int cuModuleGetFunction(void**, void*, const char*);
int cuLaunchKernel(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                   void*, void**, void**);
}

#endif
