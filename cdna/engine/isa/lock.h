// A mutex, held to the end of the block.
#pragma once
#include <pthread.h>

class Lock {
  pthread_mutex_t& mutex;

 public:
  explicit Lock(pthread_mutex_t& of) : mutex(of) { pthread_mutex_lock(&mutex); }
  ~Lock() { pthread_mutex_unlock(&mutex); }
};
