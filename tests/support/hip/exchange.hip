// Two processes share device memory by an IPC handle; each waits in a kernel for what the other's kernel
// writes.
#include "check.h"
#include <sys/wait.h>
#include <unistd.h>

__global__ void ping_pong(volatile int* flags, int me, int rounds) {
  for (int r = 1; r <= rounds; r++) {
    __hip_atomic_store((int*)&flags[me * 64], r, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_SYSTEM);
    while (__hip_atomic_load((int*)&flags[(1 - me) * 64], __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_SYSTEM) < r)
      __builtin_amdgcn_s_sleep(1);
  }
  flags[me * 64 + 1] = 100 + me;
}

int main() {
  int pipes[2];
  EXPECT(pipe(pipes) == 0);
  pid_t child = fork();
  EXPECT(child >= 0);
  if (child == 0) {
    hipIpcMemHandle_t handle;
    EXPECT(read(pipes[0], &handle, sizeof handle) == sizeof handle);
    int* flags;
    OK(hipIpcOpenMemHandle((void**)&flags, handle, hipIpcMemLazyEnablePeerAccess));
    ping_pong<<<1, 1>>>(flags, 1, 20);
    OK(hipDeviceSynchronize());
    OK(hipIpcCloseMemHandle(flags));
    std::exit(0);
  }
  int* flags;
  OK(hipExtMallocWithFlags((void**)&flags, 512, hipDeviceMallocUncached));
  OK(hipMemset(flags, 0, 512));
  hipIpcMemHandle_t handle;
  OK(hipIpcGetMemHandle(&handle, flags));
  EXPECT(write(pipes[1], &handle, sizeof handle) == sizeof handle);
  ping_pong<<<1, 1>>>(flags, 0, 20);
  OK(hipDeviceSynchronize());
  int status = -1;
  EXPECT(waitpid(child, &status, 0) == child && status == 0);
  int got[2];
  OK(hipMemcpy(&got[0], flags + 1, 4, hipMemcpyDeviceToHost));
  OK(hipMemcpy(&got[1], flags + 65, 4, hipMemcpyDeviceToHost));
  EXPECT(got[0] == 100 && got[1] == 101);
}
