// Kernels, copies, memsets and a graph from known functions, in numbers that the command line gives:
// gpu_steps STEPS GRAPHS MICROSECONDS KERNELS, where a step has so much work of the host, and with KERNELS = 1 as many
// times the kernels as there are ranks.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include <cuda_runtime.h>
#include <mpi.h>

#define CHECK(call)                                                                    \
  do {                                                                                 \
    cudaError_t failed = (call);                                                       \
    if (failed != cudaSuccess) {                                                       \
      std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(failed));             \
      MPI_Abort(MPI_COMM_WORLD, 3);                                                    \
    }                                                                                  \
  } while (0)

constexpr int N = 1 << 20;

namespace field {
template <typename T> __global__ void scale(T *values, T factor) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < N) values[i] *= factor;
}
}  // namespace field

__global__ void advance(double *values, const double *other) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < N) values[i] += 0.5 * other[i];
}

__attribute__((noinline)) void step(double *values, double *other, cudaStream_t stream) {
  advance<<<N / 256, 256, 0, stream>>>(values, other);
  field::scale<double><<<N / 256, 256, 0, stream>>>(values, 0.999);
}

__attribute__((noinline)) void read_back(double *values, double *host) {
  CHECK(cudaMemcpy(host, values, 8000, cudaMemcpyDeviceToHost));
}

__attribute__((noinline)) void repeat_graph(double *values, double *other, cudaStream_t stream, int times) {
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  step(values, other, stream);
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  for (int i = 0; i < times; i++) CHECK(cudaGraphLaunch(executable, stream));
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaGraphExecDestroy(executable));
  CHECK(cudaGraphDestroy(graph));
}

static void work_on_host(int microseconds) {
  auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(microseconds);
  while (std::chrono::steady_clock::now() < until) continue;
}

static void work_in_thread(double *values, double *other, int steps) {
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  for (int i = 0; i < steps; i++) step(values, other, stream);
  CHECK(cudaStreamSynchronize(stream));
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int steps = argc > 1 ? std::atoi(argv[1]) : 100, graphs = argc > 2 ? std::atoi(argv[2]) : 5;
  int microseconds = argc > 3 ? std::atoi(argv[3]) : 0, is_growing = argc > 4 && std::atoi(argv[4]), ranks;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  double *values, *other, *host = new double[N]();
  cudaStream_t stream;
  CHECK(cudaMalloc(&values, N * sizeof *values));
  CHECK(cudaMalloc(&other, N * sizeof *other));
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaMemcpy(other, host, N * sizeof *host, cudaMemcpyHostToDevice));
  CHECK(cudaMemsetAsync(values, 0, N * sizeof *values, stream));

  double begin = MPI_Wtime();
  for (int i = 0; i < steps; i++) {
    if (i == steps / 10) { // what the first launches take is no part of the time
      CHECK(cudaDeviceSynchronize());
      begin = MPI_Wtime();
    }
    for (int k = 0; k < (is_growing ? ranks : 1); k++) step(values, other, stream);
    work_on_host(microseconds);
    if (i % 10 == 9) {
      read_back(values, host);
      MPI_Allreduce(MPI_IN_PLACE, host, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
  }
  CHECK(cudaDeviceSynchronize());
  double elapsed = MPI_Wtime() - begin;
  if (graphs) {
    repeat_graph(values, other, stream, graphs);
    std::thread thread(work_in_thread, values, other, 7);
    thread.join();
  }
  CHECK(cudaFree(values));
  CHECK(cudaFree(other));
  std::printf("elapsed %.6f\n", elapsed);
  MPI_Finalize();
  return 0;
}
