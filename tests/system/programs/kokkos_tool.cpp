/* A tool for Kokkos that counts kernels and regions by name. */
#include <cstdint>
#include <cstdio>
#include <cxxabi.h>
#include <map>
#include <string>

static std::map<std::string, int> counts;

extern "C" {
#define KERNEL(kind)                                                                 \
  void kokkosp_begin_parallel_##kind(const char *name, const uint32_t, uint64_t *) { \
    int status = 0;                                                                  \
    char *type = abi::__cxa_demangle(name, nullptr, nullptr, &status);               \
    counts[type ? type : name]++;                                                    \
  }                                                                                  \
  void kokkosp_end_parallel_##kind(uint64_t) {                                       \
  }
KERNEL(for)
KERNEL(reduce)
KERNEL(scan)
void kokkosp_push_profile_region(const char *name) {
  counts[name]++;
}
void kokkosp_pop_profile_region() {
}
void kokkosp_finalize_library() {
  for (const auto &entry : counts) std::printf("KOKKOS %d %s\n", entry.second, entry.first.c_str());
}
}
