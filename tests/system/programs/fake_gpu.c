/* A program that uses the stand-ins of fake_cuda.c, as one with CUDA's runtime linked in does: fake_gpu STEPS.
 * Compiled with -DPROFILES, it uses CUPTI itself halfway. */
#include <dlfcn.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { COPY = 1, MEMSET = 2, KERNEL = 10, MEMORY = 49, GRAPH = 51 };
enum { HOST_TO_DEVICE = 1, DEVICE_TO_HOST = 2 };
enum { ALLOCATION = 1, RELEASE = 2 };

static void (*work)(int kind, const char *name, uint64_t start, uint64_t end, uint64_t bytes, uint32_t detail);

#ifdef PROFILES
extern int cuptiSubscribe(void **subscriber, void *call, void *user);
extern int cuptiUnsubscribe(void *subscriber);
#endif

/* A kernel from 0 to 60 ns of the step, and a copy from 30 to 80, reported the other way round in every other step. */
__attribute__((noinline)) static void step(int i) {
  uint64_t begin = 1000 + 100 * (uint64_t)i;
  if (i % 2) work(COPY, NULL, begin + 30, begin + 80, 1000, DEVICE_TO_HOST);
  work(KERNEL, "_ZN5field7advanceIdEEvPT_i", begin, begin + 60, 0, 0);
  if (i % 2 == 0) work(COPY, NULL, begin + 30, begin + 80, 1000, DEVICE_TO_HOST);
}

__attribute__((noinline)) static void prepare(void) {
  work(MEMORY, NULL, 0, 0, 4096, ALLOCATION);
  work(MEMORY, NULL, 0, 0, 1000, ALLOCATION);
  work(MEMORY, NULL, 0, 0, 1000, RELEASE);
  work(COPY, NULL, 900, 950, 4096, HOST_TO_DEVICE);
  work(MEMSET, NULL, 950, 1000, 4096, 0);
  work(GRAPH, NULL, 960, 990, 0, 0);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int steps = atoi(argv[1]);
  void *driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (!driver) {
    puts(dlerror());
    return 2;
  }
  int (*initialize)(unsigned) = (int (*)(unsigned))dlsym(driver, "cuInit");
  work = (void (*)(int, const char *, uint64_t, uint64_t, uint64_t, uint32_t))dlsym(driver, "fake_work");
  initialize(0);
  prepare();
  for (int i = 0; i < steps; i++) step(i);
#ifdef PROFILES
  void *subscriber = NULL;
  printf("subscribed %d\n", cuptiSubscribe(&subscriber, NULL, NULL));
  for (int i = 0; i < steps; i++) step(i);
  cuptiUnsubscribe(subscriber);
#endif
  puts("done");
  MPI_Finalize();
  return 0;
}
