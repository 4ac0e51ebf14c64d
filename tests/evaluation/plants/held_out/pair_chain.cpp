// Each edge between two ranks has a communicator; all ranks use the left one first, so a chain.
#include <mpi.h>
#include <cmath>
#include <cstring>
#include <vector>

static int rank, size;

class Edge {
 public:
  Edge(MPI_Comm comm, bool exists) : comm_(comm), exists_(exists) {}
  __attribute__((noinline)) void merge(std::vector<double> &shared) {
    if (!exists_) return;
    MPI_Allreduce(MPI_IN_PLACE, shared.data(), int(shared.size()), MPI_DOUBLE, MPI_SUM, comm_);
    for (int sweep = 0; sweep < 25; sweep++)
      for (auto &value : shared) value = 0.5 * std::sin(value);
  }

 private:
  MPI_Comm comm_;
  bool exists_;
};

static Edge make_edge(bool odd) {
  int lower = odd == (rank % 2 == 1) ? rank : rank - 1;
  bool exists = lower >= 0 && lower + 1 < size;
  MPI_Comm comm;
  MPI_Comm_split(MPI_COMM_WORLD, exists ? lower : MPI_UNDEFINED, rank, &comm);
  return Edge(comm, exists);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  bool repaired = argc > 1 && !std::strcmp(argv[argc - 1], "repaired");
  Edge even = make_edge(false), odd = make_edge(true);
  Edge *first = repaired || rank % 2 ? &even : &odd, *second = first == &even ? &odd : &even;
  std::vector<double> shared(2000, 1.0 + rank);
  for (int step = 0; step < 12; step++) {
    first->merge(shared);
    second->merge(shared);
    double largest = shared[0];
    MPI_Allreduce(MPI_IN_PLACE, &largest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  }
  MPI_Finalize();
}
