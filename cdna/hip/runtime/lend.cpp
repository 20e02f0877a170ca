// Files in memory that processes share: who holds a handle asks the process that gave it, at a socket that the kernel
// names. To take one through /proc would need rights to all that the other has, its judge's files among it.
#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>
#include "isa/lock.h"
#include "runtime.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static List<int> lent;
static int counter = -1;  // the socket at which others ask
static u32 name;          // five digits behind a zero

constexpr socklen_t UNNAMED = sizeof(sa_family_t), NAMED = UNNAMED + 6;
constexpr timeval PATIENCE = {20, 0}, SHORT = {1, 0};  // of who asks; of who answers, while others wait

struct Letter {  // a number, and room for a descriptor
  int number;
  iovec text;
  alignas(cmsghdr) char beside[CMSG_SPACE(sizeof(int))];
  msghdr message;
  explicit Letter(int n) : number(n), text{&number, sizeof number}, beside{}, message{} {
    message.msg_iov = &text;
    message.msg_iovlen = 1;
    message.msg_control = beside;
    message.msg_controllen = sizeof beside;
  }
  cmsghdr* descriptor() { return CMSG_FIRSTHDR(&message); }
};

static bool is_ours(int line, timeval patience) {  // of this user, whoever else may connect
  ucred other = {};
  socklen_t size = sizeof other;
  for (int way : {SO_RCVTIMEO, SO_SNDTIMEO}) setsockopt(line, SOL_SOCKET, way, &patience, sizeof patience);
  return !getsockopt(line, SOL_SOCKET, SO_PEERCRED, &other, &size) && other.uid == geteuid();
}

static void answer(int line) {
  int file;
  if (!is_ours(line, SHORT) || recv(line, &file, sizeof file, 0) != sizeof file) return;
  const Lock locked(lock);
  if (!lent.contains(file)) return;
  Letter letter(file);
  *letter.descriptor() = {CMSG_LEN(sizeof file), SOL_SOCKET, SCM_RIGHTS};
  memcpy(CMSG_DATA(letter.descriptor()), &file, sizeof file);
  (void)sendmsg(line, &letter.message, MSG_NOSIGNAL);
}

static void* serve(void* at) {
  while (true) {
    int line = accept4((int)(size_t)at, nullptr, nullptr, SOCK_CLOEXEC);
    if (line >= 0) {
      answer(line);
      close(line);
    } else if (errno == EBADF || errno == EINVAL || errno == ENOTSOCK) {
      return nullptr;  // closed by the program, with all that it has open
    } else {
      usleep(1000);
    }
  }
}

static void in_child() {  // which has no such thread: who asks its parent must not wait for it
  pthread_mutex_init(&lock, nullptr);
  if (counter >= 0) close(counter);
  counter = -1;
  lent.clear();
}

static bool open_counter() {
  static int prepared = pthread_atfork(nullptr, nullptr, in_child);
  int s = prepared ? -1 : socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  sockaddr_un at = {AF_UNIX, {}};
  socklen_t size = sizeof at;
  bool there = s >= 0 && !bind(s, (sockaddr*)&at, UNNAMED) && !listen(s, 128) &&
               !getsockname(s, (sockaddr*)&at, &size) && size == NAMED;
  name = there ? (u32)strtoul(at.sun_path + 1, nullptr, 16) : 0;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  there = there && !pthread_create(&thread, nullptr, serve, (void*)(size_t)s);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (there) pthread_detach(thread);
  else if (s >= 0) close(s);
  counter = there ? s : -1;
  return there;
}

u32 lender_threads() { return counter >= 0; }

bool lend(int file, u32* where) {
  const Lock locked(lock);
  if (counter < 0 && !open_counter()) return false;
  if (!lent.contains(file)) lent.push(file);
  *where = name;
  return true;
}

int borrow(int file, u32 where) {
  int line = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), got = -1;
  if (line < 0) return -1;
  (void)is_ours(line, PATIENCE);  // connecting is bounded, too
  sockaddr_un at = {AF_UNIX, {}};
  snprintf(at.sun_path + 1, 6, "%05x", where & 0xfffff);
  Letter letter(file);
  int error = connect(line, (sockaddr*)&at, NAMED) ? errno : is_ours(line, PATIENCE) ? 0 : EPERM;
  if (!error &&
      (send(line, &file, sizeof file, MSG_NOSIGNAL) < 0 || recvmsg(line, &letter.message, MSG_CMSG_CLOEXEC) < 0))
    error = errno;
  if (!error && letter.descriptor()) memcpy(&got, CMSG_DATA(letter.descriptor()), sizeof got);
  close(line);
  errno = error ? error : got < 0 ? ENOENT : 0;  // it has not lent such a file
  return got;
}
