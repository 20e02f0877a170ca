// Flat addresses.
#include "memory.h"

// A flat address may lie in LDS or in the lane's scratch: those apertures become host addresses here.
bool flat_apertures(Wave& w, u32 bytes, PrivateWindow& window) {
  EACH_LANE(w, i) {
    u64& a = w.address[i];
    u64 offset = (u32)a, size;
    bool shared = a >> 32 == SHARED_APERTURE >> 32;
    if (!shared && a >> 32 != PRIVATE_APERTURE >> 32) continue;
    size = shared ? w.wg->lds_bytes : w.scratch_bytes;
    if (offset + bytes > size) {
      fault(w, "lane %d: flat access of %u bytes at offset %llu of a segment of %llu bytes", i, bytes,
            (unsigned long long)offset, (unsigned long long)size);
      return false;
    }
    if (shared) {
      a = (u64)w.wg->lds + offset;
    } else {
      window.lanes |= 1ull << i;
      window.offset[i] = (u32)offset;
      scratch_read(w, i, (u32)offset, window.data[i], bytes);
      a = (u64)window.data[i];
    }
  }
  return true;
}
