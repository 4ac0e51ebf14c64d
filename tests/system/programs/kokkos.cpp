/* Kernels and regions of Kokkos, with and without names. */
#include <Kokkos_Core.hpp>
#include <cstdio>
#include <ctime>
#include <mpi.h>
#include <string>

struct Functor {
  KOKKOS_INLINE_FUNCTION void operator()(int) const {
  }
};

__attribute__((noinline)) static void solve(int times) {
  Kokkos::Profiling::pushRegion("solve");
  for (int i = 0; i < times; i++) {
    Kokkos::View<double *> x("x", 100);
    double sum = 0;
    Kokkos::parallel_for("axpy", 100, KOKKOS_LAMBDA(int j) { x(j) += j; });
    Kokkos::parallel_reduce("dot", 100, KOKKOS_LAMBDA(int j, double &value) { value += x(j); }, sum);
    Kokkos::parallel_scan("scan", 100, KOKKOS_LAMBDA(int j, double &value, bool) { value += x(j); });
    Kokkos::parallel_for(10, Functor());
    Kokkos::parallel_for(10, KOKKOS_LAMBDA(int){});
    MPI_Barrier(MPI_COMM_WORLD);
  }
  Kokkos::Profiling::popRegion();
}

/* The fastest of some blocks counts. */
static void measure() {
  const std::string name = "cost";
  double best = 1e9;
  for (int block = 0; block < 2000; block++) {
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    for (int i = 0; i < 500; i++) {
      Kokkos::Profiling::pushRegion(name);
      Kokkos::Profiling::popRegion();
    }
    clock_gettime(CLOCK_MONOTONIC, &to);
    double ns = ((double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec)) / 500;
    if (ns < best) best = ns;
  }
  printf("COST %.1f\n", best);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  Kokkos::initialize(argc, argv);
  if (argc > 1 && std::string(argv[1]) == "cost") measure();
  else
    for (int i = 1; i < 4; i++) solve(i);
  Kokkos::finalize();
  MPI_Finalize();
  std::puts("done");
}
