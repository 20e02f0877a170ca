// The host's side of the device library's hostcalls (ROCm-Device-Libs, ockl/src/hostcall_impl.cl and
// services.cl).
//
// A wave takes a packet from the stack of free ones, writes eight 64-bit words per lane, puts it on the ready
// stack and sleeps until its ready flag is cleared. printf sends a message of many packets: the first word of
// a lane describes what the other seven bring.
#include "hostcall.h"
#include "memory/device_heap.h"
#include "isa/lock.h"
#include <stdio.h>
#include <stdlib.h>

namespace {
struct Header {
  u64 next, active;
  u32 service, control;
};
struct Payload {
  u64 slots[WAVE][8];
};
struct Signal {
  i64 kind, value;
  u64 mailbox, event[5];
};  // amd_signal_t; no mailbox: nobody is to be interrupted
struct Buffer {
  Header* headers;
  Payload* payloads;
  Signal* doorbell;
  u64 free_stack, ready_stack, index_mask;
};
struct Message {
  List<u64> words;
  bool used;
};

constexpr u32 READY = 1, SERVICE_PRINTF = 2, SERVICE_MEMORY = 3;
constexpr u64 BEGIN = 1,
              END = 2;  // of a description; bits 5 to 7 count its words, those from 8 name its message
constexpr u32 LENGTH_SHIFT = 5, ID_SHIFT = 8;
}  // namespace

struct Hostcall {
  Buffer buffer;
  Signal doorbell;
  u32 packets;
  pthread_mutex_t lock;
  List<Message> messages;
  char assertion[400];
};

Hostcall* hostcall_open(u32 waves) {
  Hostcall* h = (Hostcall*)calloc(1, sizeof(Hostcall));
  u32 n = 1;
  while (n < waves) n *= 2;
  h->packets = n;
  h->buffer = {(Header*)calloc(n, sizeof(Header)), (Payload*)calloc(n, sizeof(Payload)), &h->doorbell, n, 0, n - 1};
  if (!h->buffer.headers || !h->buffer.payloads) {
    hostcall_close(h);
    return nullptr;
  }
  // A packet's name is its index with a tag above, which counts its uses and is never 0.
  for (u32 i = 0; i + 1 < n; i++) h->buffer.headers[i].next = n + i + 1;
  pthread_mutex_init(&h->lock, nullptr);
  return h;
}

u64 hostcall_buffer(const Hostcall* h) { return (u64)&h->buffer; }
void hostcall_memory(const Hostcall* h, List<MemoryRange>& out) {
  const Buffer& b = h->buffer;
  const auto add = [&](const void* base, u64 bytes) { out.push(memory_range((u64)base, bytes, "calls to the host")); };
  add(&b, sizeof b);
  add(b.headers, (b.index_mask + 1) * sizeof(Header));
  add(b.payloads, (b.index_mask + 1) * sizeof(Payload));
  add(b.doorbell, sizeof(Signal));
}
const char* hostcall_assertion(const Hostcall* h) { return h->assertion; }

void hostcall_close(Hostcall* h) {
  if (!h) return;
  for (Message& m : h->messages) m.words.release();
  h->messages.release();
  free(h->buffer.headers);
  free(h->buffer.payloads);
  free(h);
}

static u64 new_message(Hostcall* h) {
  u64 id = 0;
  while (id < h->messages.count && h->messages[id].used) id++;
  if (id == h->messages.count) h->messages.push({});
  h->messages[id].used = true;
  return id;
}

// --- printf --------------------------------------------------------------------------------------------

namespace {
struct Words {  // what is left of a message
  const u64* at;
  const u64* end;
  u64 next() { return at < end ? *at++ : 0; }
  const char* text() {  // strings lie in the message, filled up to a whole word; Triton's assertions end without a zero
    const char* s = (const char*)at;
    size_t words = strnlen(s, (size_t)(end - at) * 8) / 8 + 1;
    at = words < (size_t)(end - at) ? at + words : end;
    return s;
  }
};
struct Text {
  char data[4096];
  size_t used;
  size_t left() const { return sizeof data - used; }
  void wrote(int n) {
    if (n > 0) used = (size_t)n < left() ? used + n : sizeof data - 1;
  }
};
}  // namespace

// One conversion: `spec` is what stands between % and the letter, any * replaced by its number.
static void convert(Text& out, const char* spec, char letter, Words& words) {
  char format[64];
  char* to = out.data + out.used;
  size_t left = out.left();
  switch (letter) {
    case 'd':
    case 'i':
    case 'u':
    case 'x':
    case 'X':
    case 'o':
    case 'c': {
      bool is_long = strchr(spec, 'l') || strchr(spec, 'j') || strchr(spec, 'z') || strchr(spec, 't');
      u64 value = words.next();
      snprintf(format, sizeof format, "%%%s%c", spec, letter);
      out.wrote(is_long ? snprintf(to, left, format, value) : snprintf(to, left, format, (u32)value));
      return;
    }
    case 'f':
    case 'F':
    case 'e':
    case 'E':
    case 'g':
    case 'G':
    case 'a':
    case 'A':
      snprintf(format, sizeof format, "%%%s%c", spec, letter);
      out.wrote(snprintf(to, left, format, as_f64(words.next())));
      return;
    case 's':
      snprintf(format, sizeof format, "%%%ss", spec);
      out.wrote(snprintf(to, left, format, words.text()));
      return;
    case 'p':
      snprintf(format, sizeof format, "%%%sp", spec);
      out.wrote(snprintf(to, left, format, (void*)words.next()));
      return;
    default: words.next();
  }
}

static void format(Text& out, const char* f, Words& words) {
  out.used = 0;
  while (*f && out.left() > 1) {
    if (*f != '%') {
      out.data[out.used++] = *f++;
      continue;
    }
    if (*++f == '%') {
      out.data[out.used++] = *f++;
      continue;
    }
    char spec[48];
    size_t n = 0;
    for (; *f && strchr("-+ #0123456789.*hljztL", *f) && n < 32; f++) {
      if (*f == '*') n += snprintf(spec + n, sizeof spec - n, "%d", (int)words.next());
      else spec[n++] = *f;
    }
    spec[n] = 0;
    if (*f) convert(out, spec, *f++, words);
  }
  out.data[out.used] = 0;
}

// A whole message: 1 for standard error or 0, the format, its arguments. Returns what printf would.
static u64 print(Hostcall* h, const Message& m) {
  Words words = {m.words.begin(), m.words.end() - 1};
  bool to_stderr = words.next() & 1;
  const char* f = words.text();
  static thread_local Text text;
  format(text, f, words);
  if (strstr(text.data, "ssertion") && !h->assertion[0])
    snprintf(h->assertion, sizeof h->assertion, "%.*s", (int)strcspn(text.data, "\n"), text.data);
  if (to_stderr) fflush(stdout);
  fputs(text.data, to_stderr ? stderr : stdout);
  return text.used;
}

static void take(Hostcall* h, u64* slots) {  // one lane's share of a message
  u64 description = slots[0], id = description >> ID_SHIFT;
  if (description & BEGIN) {
    id = new_message(h);
    description = (description & ~(BEGIN | ~0ull << ID_SHIFT)) | id << ID_SHIFT;
  }
  if (id >= h->messages.count) return;
  Message& m = h->messages[id];
  u32 n = description >> LENGTH_SHIFT & 7;
  for (u32 i = 0; i < n; i++) m.words.push(slots[1 + i]);
  slots[0] = description;
  if (!(description & END)) return;
  m.words.push(0);  // a zero follows the message
  slots[0] = print(h, m);
  m.words.clear();
  m.used = false;
}

bool hostcall_serve(Hostcall* h, bool marks, const char** error) {
  Buffer& b = h->buffer;
  if (!__atomic_load_n(&b.ready_stack, __ATOMIC_ACQUIRE)) return false;
  const Lock locked(h->lock);
  u64 last_first = __atomic_exchange_n(&b.ready_stack, 0, __ATOMIC_ACQ_REL), first = 0;
  while (last_first) {  // the stack has the latest call on top
    u64& next = b.headers[last_first & b.index_mask].next;
    u64 below = next;
    next = first;
    first = last_first;
    last_first = below;
  }
  while (first) {
    u64 index = first & b.index_mask;
    Header& header = b.headers[index];
    first = header.next;
    if (header.service == SERVICE_PRINTF) {
      for (u64 lanes = header.active; lanes; lanes &= lanes - 1)
        take(h, b.payloads[index].slots[__builtin_ctzll(lanes)]);
      __atomic_store_n(&header.control, header.control & ~READY, __ATOMIC_RELEASE);
    } else if (header.service == SERVICE_MEMORY) {
      for (u64 lanes = header.active; lanes; lanes &= lanes - 1) {
        u64* slots = b.payloads[index].slots[__builtin_ctzll(lanes)];
        slots[0] = heap_call(slots[0], slots[1], marks, error);
      }
      __atomic_store_n(&header.control, header.control & ~READY, __ATOMIC_RELEASE);
    } else {
      *error = "the kernel asks the host for a service that the emulated device does not have";
    }
  }
  return true;
}
