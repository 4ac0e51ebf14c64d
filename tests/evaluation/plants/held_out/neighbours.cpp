// A graph communicator in which each rank names all ranks as neighbours, most with empty blocks.
#include <mpi.h>
#include <numeric>
#include <vector>
struct Exchange {
  MPI_Comm graph;
  std::vector<int> peers, counts, displs;
  std::vector<double> in, out;
  Exchange(int rank, int size, bool all) {
    if (all)
      for (int r = 0; r < size; r++) peers.push_back(r);
    else {
      peers.push_back((rank + 1) % size);
      if (size > 2) peers.push_back((rank + size - 1) % size);
    }
    int n = peers.size();
    counts.assign(n, 0);
    displs.assign(n, 0);
    for (int i = 0; i < n; i++) {
      int d = (peers[i] - rank + size) % size;
      counts[i] = (d == 1 || d == size - 1) ? 100 : 0;
    }
    for (int i = 1; i < n; i++) displs[i] = displs[i - 1] + counts[i - 1];
    in.resize(400);
    out.resize(400, rank);
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, n, peers.data(), MPI_UNWEIGHTED, n, peers.data(), MPI_UNWEIGHTED,
                                   MPI_INFO_NULL, 0, &graph);
  }
  void run() {
    MPI_Neighbor_alltoallv(out.data(), counts.data(), displs.data(), MPI_DOUBLE, in.data(), counts.data(),
                           displs.data(), MPI_DOUBLE, graph);
  }
};
int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  Exchange e(rank, size, argc == 1);
  std::vector<double> f(20000, 1);
  for (int s = 0; s < 100; s++) {
    for (int k = 0; k < 5; k++)
      for (auto &x : f) x = 0.9 * x + 0.1;
    e.run();
  }
  MPI_Comm_free(&e.graph);
  MPI_Finalize();
}
