// Kokkos with settings that the program passes itself: the first word, if there is one, names a tool.
#include <Kokkos_Core.hpp>
#include <cstdio>
#include <mpi.h>

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  Kokkos::InitArguments arguments;
  if (argc > 1) arguments.tool_lib = argv[1];
  Kokkos::initialize(arguments);
  double sum = 0;
  Kokkos::parallel_reduce("sum", 100, KOKKOS_LAMBDA(int i, double &local) { local += i; }, sum);
  std::printf("%g\n", sum);
  Kokkos::finalize();
  MPI_Finalize();
}
