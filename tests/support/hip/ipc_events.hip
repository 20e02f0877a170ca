// An event of one process, which another waits for and records.
#include "check.h"
#include <sys/wait.h>
#include <unistd.h>

__global__ void wait_and_set(const int* go, int* x, int value) {
  while (__hip_atomic_load(go, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_SYSTEM) == 0) __builtin_amdgcn_s_sleep(8);
  *x = value;
}
__global__ void add(int* x, int y) { *x += y; }

struct Letter {
  hipIpcMemHandle_t memory;
  hipIpcEventHandle_t event;
};

void child(int from_parent, int to_parent) {
  Letter letter;
  EXPECT(read(from_parent, &letter, sizeof letter) == sizeof letter);
  int* x;
  hipEvent_t event;
  OK(hipIpcOpenMemHandle((void**)&x, letter.memory, hipIpcMemLazyEnablePeerAccess));
  OK(hipIpcOpenEventHandle(&event, letter.event));
  EXPECT(hipEventQuery(event) == hipErrorNotReady);  // the parent's kernel waits for the host
  hipStream_t s;
  OK(hipStreamCreateWithFlags(&s, hipStreamNonBlocking));
  OK(hipStreamWaitEvent(s, event, 0));
  add<<<1, 1, 0, s>>>(x, 1);
  EXPECT(hipStreamQuery(s) == hipErrorNotReady);
  EXPECT(write(to_parent, "1", 1) == 1);
  OK(hipStreamSynchronize(s));
  OK(hipEventSynchronize(event));
  OK(hipEventRecord(event, s));
  EXPECT(write(to_parent, "2", 1) == 1);
  char word;
  EXPECT(read(from_parent, &word, 1) == 1);
  OK(hipEventDestroy(event));
  OK(hipIpcCloseMemHandle(x));
}

int main() {
  int down[2], up[2];
  EXPECT(pipe(down) == 0 && pipe(up) == 0);
  pid_t process = fork();
  EXPECT(process >= 0);
  if (process == 0) {
    child(down[0], up[1]);
    std::exit(0);
  }
  hipEvent_t event, local, opened;
  Letter letter;
  EXPECT(hipEventCreateWithFlags(&event, hipEventInterprocess) == hipErrorInvalidValue);
  OK(hipEventCreate(&local));
  EXPECT(hipIpcGetEventHandle(&letter.event, local) == hipErrorInvalidConfiguration);
  OK(hipEventCreateWithFlags(&event, hipEventInterprocess | hipEventDisableTiming));
  OK(hipIpcGetEventHandle(&letter.event, event));
  EXPECT(hipIpcOpenEventHandle(&opened, letter.event) == hipErrorInvalidContext);
  OK(hipEventSynchronize(event));  // never recorded

  int *x, *go;
  OK(hipMalloc(&x, 4));
  OK(hipIpcGetMemHandle(&letter.memory, x));
  OK(hipHostMalloc(&go, 4, 0));
  *go = 0;
  hipStream_t s;
  OK(hipStreamCreateWithFlags(&s, hipStreamNonBlocking));
  wait_and_set<<<1, 1, 0, s>>>(go, x, 40);
  OK(hipEventRecord(event, s));
  EXPECT(hipEventQuery(event) == hipErrorNotReady);
  EXPECT(write(down[1], &letter, sizeof letter) == sizeof letter);
  char word;
  EXPECT(read(up[0], &word, 1) == 1);
  __atomic_store_n(go, 1, __ATOMIC_RELEASE);
  OK(hipEventSynchronize(event));
  EXPECT(read(up[0], &word, 1) == 1);  // the child has recorded it
  OK(hipStreamWaitEvent(s, event, 0));
  add<<<1, 1, 0, s>>>(x, 1);
  OK(hipStreamSynchronize(s));
  int got;
  OK(hipMemcpy(&got, x, 4, hipMemcpyDeviceToHost));
  EXPECT(got == 42 && hipEventQuery(event) == hipSuccess);
  EXPECT(write(down[1], "1", 1) == 1);
  int status = -1;
  EXPECT(waitpid(process, &status, 0) == process && status == 0);
  OK(hipEventDestroy(event));
}
