/* Kernels and regions that Kokkos reports to tools are regions.
 *
 * Kokkos is usually linked into programs statically. It finds the functions here by their names (annotations.c). They
 * are called by functions of Kokkos such as Kokkos::Tools::beginParallelFor, which node.py leaves out. */
#include "annotations.h"
#include "regions.h"

#include <stdbool.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

#define NAME_BYTES 1000u

/* A kernel begins. One without a name has that of its type, as the compiler encodes it: symbols.py decodes it. */
static inline __attribute__((always_inline)) void begin_kernel(const char *name, const uintptr_t *frame) {
  static const char type[] = "_ZTS";
  char text[NAME_BYTES + 1];
  if (__builtin_expect(*name == 'Z' || *name == 'N' || *name == 'S' || (*name >= '0' && *name <= '9'), 0)) {
    memcpy(text, type, sizeof type - 1);
    size_t bytes = strnlen(name, NAME_BYTES - sizeof type);
    memcpy(text + sizeof type - 1, name, bytes);
    text[sizeof type - 1 + bytes] = 0;
    name = text;
  }
  insitu_region_begin_at(name, frame);
}

#define KERNELS(X) X(for) X(reduce) X(scan)
#define X(kind)                                                                                \
  EXPORT void kokkosp_begin_parallel_##kind(const char *name, uint32_t device, uint64_t *id) { \
    (void)device;                                                                              \
    *id = 0;                                                                                   \
    begin_kernel(name, __builtin_frame_address(0));                                            \
  }                                                                                            \
  EXPORT void kokkosp_end_parallel_##kind(uint64_t id) {                                       \
    (void)id;                                                                                  \
    insitu_region_end();                                                                       \
  }
KERNELS(X)
#undef X

EXPORT void kokkosp_push_profile_region(const char *name) {
  insitu_region_begin_at(name, __builtin_frame_address(0));
}

EXPORT void kokkosp_pop_profile_region(void) {
  insitu_region_end();
}

/* Without this function, Kokkos waits for the device after each kernel. */
EXPORT void kokkosp_request_tool_settings(uint32_t count, bool *requires_global_fencing) {
  if (count) *requires_global_fencing = false;
}
