// Preloaded: a thread is at times held up where it is about to take a lock, as by others on its core.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

int pthread_mutex_lock(pthread_mutex_t* lock) {
  static int (*take)(pthread_mutex_t*);
  static __thread unsigned drawn;
  if (!take) take = (int (*)(pthread_mutex_t*))dlsym(RTLD_NEXT, "pthread_mutex_lock");
  if (!drawn) drawn = (unsigned)(size_t)&drawn | 1;
  drawn = drawn * 1664525 + 1013904223;
  if (drawn >> 30 == 0) usleep(drawn >> 22 & 255);
  return take(lock);
}
