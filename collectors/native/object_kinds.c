/* Objects of runtimes and of MPI, by their names. */
#define _GNU_SOURCE
#include "object_kinds.h"

#include "image.h"

uint8_t insitu_object_kind(const char *path) {
  static const char *const runtime[] = {
      "libc.so",    "libc-",    "libm.so",      "libm-",        "libpthread", "libdl",      "librt",   "ld-linux",
      "libstdc++.", "libgcc_s", "libgfortran.", "libquadmath.", "libinsitu",  "linux-vdso", "libgomp", "libomp.",
      "libomp-",    "libiomp5", "libcuda.",     "libcudart",    "libcupti",   "libffi.",    "libffi-", "_ctypes."};
  static const char *const mpi[] = {"libmpi"};
  if (insitu_image_has_prefix(path, mpi, 1)) return OBJECT_OF_MPI;
  if (insitu_image_has_prefix(path, runtime, sizeof runtime / sizeof *runtime)) return OBJECT_OF_RUNTIME;
  return OBJECT_OF_PROGRAM;
}
