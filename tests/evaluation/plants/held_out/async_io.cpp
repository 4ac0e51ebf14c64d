// A thread of rank 0 receives and encodes the frames of all ranks while they compute.
// Repaired: each rank encodes its own frame.
#include <cstdio>
#include <cstring>
#include <functional>
#include <mpi.h>
#include <string>
#include <thread>
#include <vector>
static int rank_, size_;
using Frame = std::vector<double>;
static std::size_t encode(const Frame &frame) {
  std::size_t length = 0;
  char text[40];
  for (double value : frame) length += snprintf(text, sizeof text, "%.7e,", value);
  return length;
}
class Writer {
public:
  void start(int frames) {
    thread_ = std::thread([this, frames] {
      Frame frame(700);
      for (int i = 0; i < frames * size_; i++) {
        MPI_Recv(frame.data(), 700, MPI_DOUBLE, MPI_ANY_SOURCE, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        bytes_ += encode(frame);
      }
    });
  }
  std::size_t stop() {
    thread_.join();
    return bytes_;
  }

private:
  std::thread thread_;
  std::size_t bytes_ = 0;
};
static void relax(Frame &field) {
  for (int sweep = 0; sweep < 30; sweep++)
    for (std::size_t i = 1; i + 1 < field.size(); i++) field[i] = 0.5 * field[i] + 0.25 * (field[i - 1] + field[i + 1]);
}
int main(int argc, char **argv) {
  int provided;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &size_);
  bool repaired = argc > 1 && !strcmp(argv[1], "repaired");
  const int frames = 40;
  Frame field(20000, 1.0 + rank_);
  Writer writer;
  std::size_t bytes = 0;
  if (rank_ == 0 && !repaired) writer.start(frames);
  for (int step = 0; step < frames; step++) {
    relax(field);
    if (repaired)
      bytes += encode(Frame(field.begin(), field.begin() + 700));
    else
      MPI_Send(field.data(), 700, MPI_DOUBLE, 0, 9, MPI_COMM_WORLD);
  }
  if (rank_ == 0 && !repaired) bytes = writer.stop();
  if (rank_ == 0) printf("%zu\n", bytes);
  MPI_Finalize();
}
