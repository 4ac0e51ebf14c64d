// Each rank has a box of outgoing particles for each other rank. Repaired: for its two neighbours.
#include <cstring>
#include <mpi.h>
#include <vector>

struct Particle {
  double x, v, charge, weight;
};

struct Outboxes {
  std::vector<std::vector<Particle>> boxes;

  explicit Outboxes(int count) {
    boxes.resize(count);
    for (auto &box : boxes) box.resize(8000);
    for (auto &box : boxes) box.clear();
  }
};

Outboxes *make_outboxes(int count) {
  return new Outboxes(count);
}

void push(std::vector<Particle> &mine, double dt) {
  for (int sweep = 0; sweep < 200; sweep++)
    for (auto &p : mine) {
      p.v += 0.01 * dt * p.charge - 0.001 * p.v;
      p.x += dt * p.v;
    }
}

void migrate(Outboxes &out, std::vector<Particle> &mine, int to_left, int to_right, int rank, int size) {
  int left = (rank + size - 1) % size, right = (rank + 1) % size;
  out.boxes[to_left].assign(mine.begin(), mine.begin() + 50);
  out.boxes[to_right].assign(mine.end() - 50, mine.end());
  const int bytes = 50 * sizeof(Particle);
  MPI_Sendrecv(out.boxes[to_left].data(), bytes, MPI_BYTE, left, 0, &mine[mine.size() - 50], bytes, MPI_BYTE, right, 0,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Sendrecv(out.boxes[to_right].data(), bytes, MPI_BYTE, right, 1, &mine[0], bytes, MPI_BYTE, left, 1,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, size;
  bool repaired = argc > 1 && !std::strcmp(argv[1], "repaired");
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  std::vector<Particle> mine(4000, Particle{0.5, 0.1, rank % 3 - 1.0, 1.0});
  Outboxes *out = make_outboxes(repaired ? 2 : size);
  int to_left = repaired ? 0 : (rank + size - 1) % size, to_right = repaired ? 1 : (rank + 1) % size;
  for (int step = 0; step < 60; step++) {
    push(mine, 1e-3);
    migrate(*out, mine, to_left, to_right, rank, size);
  }
  double energy = 0, total;
  for (auto &p : mine) energy += p.v * p.v;
  MPI_Allreduce(&energy, &total, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  delete out;
  MPI_Finalize();
  return total < 0;
}
