// Without a limit: heat in slabs with OpenMP, and one file for all ranks, written together with MPI-IO.
#include <mpi.h>
#include <vector>
class Slab {
 public:
  Slab(int rank, int size) : rank_(rank), size_(size), now_(nx * (ny + 2), rank), next_(now_) {}
  void exchange() {
    MPI_Request requests[4];
    int up = rank_ + 1 < size_ ? rank_ + 1 : MPI_PROC_NULL, down = rank_ ? rank_ - 1 : MPI_PROC_NULL;
    MPI_Irecv(&now_[0], nx, MPI_DOUBLE, down, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(&now_[(ny + 1) * nx], nx, MPI_DOUBLE, up, 2, MPI_COMM_WORLD, &requests[1]);
    MPI_Isend(&now_[ny * nx], nx, MPI_DOUBLE, up, 1, MPI_COMM_WORLD, &requests[2]);
    MPI_Isend(&now_[nx], nx, MPI_DOUBLE, down, 2, MPI_COMM_WORLD, &requests[3]);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
  }
  void step() {
#pragma omp parallel for
    for (int j = 1; j <= ny; j++)
      for (int i = 1; i < nx - 1; i++) {
        int k = j * nx + i;
        next_[k] = 0.6 * now_[k] + 0.1 * (now_[k - 1] + now_[k + 1] + now_[k - nx] + now_[k + nx]);
      }
    now_.swap(next_);
  }
  void save(MPI_File file) const {
    MPI_File_write_at_all(file, MPI_Offset(rank_) * nx * ny * 8, &now_[nx], nx * ny, MPI_DOUBLE, MPI_STATUS_IGNORE);
  }

 private:
  static constexpr int nx = 500, ny = 400;
  int rank_, size_;
  std::vector<double> now_, next_;
};
int main(int argc, char **argv) {
  int rank, size, provided;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  Slab slab(rank, size);
  MPI_File file;
  MPI_File_open(MPI_COMM_WORLD, "heat.out", MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file);
  for (int step = 0; step < 200; step++) {
    slab.exchange();
    slab.step();
    if (step % 100 == 99) slab.save(file);
  }
  MPI_File_close(&file);
  MPI_Finalize();
}
