// Preloaded: who reads the clock is at times held up before it can use what it read, as by another process on its core.
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec* time) {
  static __thread unsigned calls;
  long result = syscall(SYS_clock_gettime, clock, time);
  if (clock == CLOCK_MONOTONIC && ++calls % 64 == 0) usleep(2000);
  return (int)result;
}
