// Stands in for HIP's: the threads of a kernel run on the CPU, one behind the other.
//
// FAULT is `device` (there is none), `memory` (none can be had), `kernel` (it cannot run), `thread`
// (the last one does nothing), or nothing.
#pragma once

#include <cstdlib>
#include <cstring>

#define __global__

enum hipError_t { hipSuccess, hipErrorUnknown };

static struct {
    unsigned x;
} threadIdx;

inline bool fault(const char *name) {
    const char *given = std::getenv("FAULT");
    return given && !std::strcmp(given, name);
}

inline hipError_t hipGetDeviceCount(int *count) {
    *count = 1;
    return fault("device") ? hipErrorUnknown : hipSuccess;
}

template <class T> hipError_t hipMallocManaged(T **place, size_t size) {
    *place = static_cast<T *>(std::malloc(size));
    return fault("memory") ? hipErrorUnknown : hipSuccess;
}

inline hipError_t hipDeviceSynchronize() { return fault("kernel") ? hipErrorUnknown : hipSuccess; }

inline void stand_in_launch(void (*kernel)(int *), unsigned threads, int *given) {
    for (threadIdx.x = 0; threadIdx.x < threads - fault("thread"); threadIdx.x++) kernel(given);
}
