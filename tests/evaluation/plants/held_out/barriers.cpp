// Debug output left in: after each step the ranks print in turn, one barrier each, through a logger class.
#include <mpi.h>
#include <sstream>
#include <string>
#include <vector>
class Logger {
public:
  explicit Logger(MPI_Comm comm) : comm_(comm) {
    MPI_Comm_rank(comm, &rank_);
    MPI_Comm_size(comm, &size_);
  }
  void in_turn(double value) {
    std::ostringstream line;
    for (int turn = 0; turn < size_; turn++) {
      if (turn == rank_) line << "rank " << rank_ << ": " << value << '\n';
      MPI_Barrier(comm_);
    }
    text_ += line.str();
  }
  void together(double value) {
    text_ += std::to_string(value);
    MPI_Barrier(comm_);
  }

private:
  MPI_Comm comm_;
  int rank_, size_;
  std::string text_;
};
static double advance(std::vector<double> &u) {
  for (int sweep = 0; sweep < 30; sweep++)
    for (std::size_t i = 1; i + 1 < u.size(); i++) u[i] = 0.5 * u[i] + 0.25 * (u[i - 1] + u[i + 1]) + 1e-3;
  return u[u.size() / 2];
}
int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  {
    Logger logger(MPI_COMM_WORLD);
    std::vector<double> u(20000);
    for (int step = 0; step < 50; step++) {
      double value = advance(u);
      if (argc > 1) logger.together(value);
      else logger.in_turn(value);
    }
  }
  MPI_Finalize();
}
