// Each rank attaches a segment for each rank to a dynamic window, in each remesh.
// Repaired: for its two neighbours.
#include <array>
#include <list>
#include <mpi.h>
#include <vector>
using Segment = std::array<double, 8>;
struct Segments {
  MPI_Win window;
  std::list<Segment> all;
  __attribute__((noinline)) void attach(int count) {
    for (int i = 0; i < count; i++) {
      all.emplace_back();
      MPI_Win_attach(window, all.back().data(), sizeof(Segment));
    }
  }
  __attribute__((noinline)) void detach() {
    for (Segment &segment : all) MPI_Win_detach(window, segment.data());
    all.clear();
  }
};
__attribute__((noinline)) double relax(std::vector<double> &u) {
  for (int sweep = 0; sweep < 20; sweep++)
    for (std::size_t i = 1; i + 1 < u.size(); i++) u[i] = 0.5 * u[i] + 0.25 * (u[i - 1] + u[i + 1]);
  return u[1];
}
__attribute__((noinline)) void put_edge(Segments &segments, double value, int rank, int size) {
  MPI_Aint here, there;
  MPI_Get_address(segments.all.front().data(), &here);
  MPI_Sendrecv(&here, 1, MPI_AINT, (rank + 1) % size, 0, &there, 1, MPI_AINT, (rank + size - 1) % size, 0,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Win_fence(0, segments.window);
  MPI_Put(&value, 1, MPI_DOUBLE, (rank + size - 1) % size, there, 1, MPI_DOUBLE, segments.window);
  MPI_Win_fence(0, segments.window);
}
int main(int argc, char **argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  Segments segments;
  MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &segments.window);
  std::vector<double> u(20000, rank);
  for (int remesh = 0; remesh < 25; remesh++) {
    segments.attach(argc > 1 ? 2 : size);
    put_edge(segments, relax(u), rank, size);
    segments.detach();
  }
  MPI_Win_free(&segments.window);
  MPI_Finalize();
}
