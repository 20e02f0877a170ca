// What belongs to a CUDA device and not to the process: the official evaluator gives a process another rank, so another
// GPU, from case to case. Host code; "static", for what two builds in one process have asked is not the same.
#pragma once

#include <map>
#include <mutex>
#include <utility>

static int current_device() {
    int device = 0;
    cudaGetDevice(&device);
    return device;
}

// Lets `kernel` have that much shared memory at launch on the current device, where beyond 48 KB there is only what was
// asked for. Asks once a kernel and device.
static cudaError_t allow_shared_memory(const void* kernel, int bytes) {
    static std::mutex lock;
    static std::map<std::pair<const void*, int>, cudaError_t> answers;
    const int device = current_device();
    const std::lock_guard<std::mutex> held(lock);
    const auto [answer, is_new] = answers.try_emplace({kernel, device}, cudaSuccess);
    if (is_new) answer->second = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    return answer->second;
}

// Of the current device.
static int processor_count() {
    int count = 0;
    cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, current_device());
    return count;
}
