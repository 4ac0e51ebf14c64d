/* Ranges of NVTX, in every form in which they can be pushed. Prints what the calls return. */
#include <locale.h>
#include <mpi.h>
#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static nvtxDomainHandle_t domain;
static nvtxStringHandle_t registered, wide;

static nvtxEventAttributes_t attributes(int32_t type) {
  nvtxEventAttributes_t result = {0};
  result.version = NVTX_VERSION;
  result.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  result.messageType = type;
  return result;
}

__attribute__((noinline)) static void forms(void) {
  nvtxEventAttributes_t ascii = attributes(NVTX_MESSAGE_TYPE_ASCII);
  ascii.message.ascii = "ascii";
  nvtxEventAttributes_t unicode = attributes(NVTX_MESSAGE_TYPE_UNICODE);
  unicode.message.unicode = L"gr\u00fc\u00dfe \u4e16 \U0001F600";
  nvtxEventAttributes_t handle = attributes(NVTX_MESSAGE_TYPE_REGISTERED);
  handle.message.registered = registered;
  nvtxEventAttributes_t wide_handle = attributes(NVTX_MESSAGE_TYPE_REGISTERED);
  wide_handle.message.registered = wide;
  nvtxEventAttributes_t nameless = attributes(NVTX_MESSAGE_UNKNOWN);

  int sum = nvtxRangePushEx(&ascii);
  sum += nvtxDomainRangePushEx(domain, &unicode) + nvtxDomainRangePushEx(domain, &handle);
  sum += nvtxDomainRangePushEx(domain, &wide_handle) + nvtxRangePushW(L"wide") + nvtxRangePushEx(&nameless);
  MPI_Barrier(MPI_COMM_WORLD);
  sum += nvtxRangePop() + nvtxRangePop() + nvtxDomainRangePop(domain);
  MPI_Barrier(MPI_COMM_WORLD);
  sum += nvtxDomainRangePop(domain) + nvtxDomainRangePop(domain) + nvtxRangePop() + nvtxRangePop();
  printf("sum %d\n", sum);
}

__attribute__((noinline)) static void solve(int depth) {
  char name[32];
  snprintf(name, sizeof name, "level %d", depth);
  nvtxRangePushA(name);
  memset(name, 'x', sizeof name - 1);
  MPI_Barrier(MPI_COMM_WORLD);
  if (depth) solve(depth - 1);
  nvtxRangePop();
}

static void *work(void *unused) {
  for (int i = 0; i < 1000; i++) {
    nvtxRangePushA("of a thread");
    nvtxStringHandle_t known = nvtxDomainRegisterStringA(domain, "registered");
    if (known != registered) abort();
    nvtxRangePop();
  }
  return unused;
}

/* The fastest of some blocks counts. */
static void cost(void) {
  double best = 1e9;
  for (int block = 0; block < 2000; block++) {
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    for (int i = 0; i < 500; i++) nvtxRangePushA("cost"), nvtxRangePop();
    clock_gettime(CLOCK_MONOTONIC, &to);
    double ns = ((to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec)) / 500;
    if (ns < best) best = ns;
  }
  printf("COST %.1f\n", best);
}

int main(int argc, char **argv) {
  pthread_t threads[4];
  setvbuf(stdout, NULL, _IONBF, 0);
  MPI_Init(&argc, &argv);
  domain = nvtxDomainCreateA("library");
  registered = nvtxDomainRegisterStringA(domain, "registered");
  wide = nvtxDomainRegisterStringW(domain, L"registered \u00e9");
  if (argc > 1) {
    cost();
    MPI_Finalize();
    return 0;
  }
  forms();
  for (int i = 0; i < 3; i++) solve(2);
  for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, work, NULL);
  pid_t child = fork();
  if (!child) {
    nvtxRangePushA("of a child");
    _exit(nvtxRangePop() == -2 ? 0 : 1);
  }
  int status;
  waitpid(child, &status, 0);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  nvtxRangePop(); /* no range is open */
  nvtxRangeEnd(nvtxRangeStartA("not on a stack"));
  int variables = !!getenv("KOKKOS_TOOLS_LIBS") + !!getenv("INTEL_LIBITTNOTIFY64") + !!getenv("INTEL_ITTNOTIFY_GROUPS");
  printf("status %d variables %d %d\n", status, variables, system("env | grep -c -e NVTX_ -e KOKKOS -e INTEL_"));
  MPI_Finalize();
  return 0;
}
