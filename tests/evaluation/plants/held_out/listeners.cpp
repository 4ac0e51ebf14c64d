// A thread for each other rank packs the message for it in each step. Repaired: two neighbours have messages.
#include <cstdio>
#include <cstring>
#include <mpi.h>
#include <thread>
#include <vector>
static int rank_, size_;
struct Channel {
  int peer;
  std::vector<double> buffer;
};
static void pack(Channel &channel, const std::vector<double> &field) {
  channel.buffer.resize(200);
  for (std::size_t i = 0; i < channel.buffer.size(); i++) channel.buffer[i] = field[i * 7] + channel.peer;
}
static std::vector<Channel> open_channels(bool neighbours_only) {
  std::vector<Channel> channels;
  for (int peer = 0; peer < size_; peer++) {
    if (peer == rank_) continue;
    bool is_neighbour = peer == (rank_ + 1) % size_ || peer == (rank_ + size_ - 1) % size_;
    if (neighbours_only && !is_neighbour) continue;
    channels.push_back({peer, {}});
  }
  return channels;
}
static void pack_all(std::vector<Channel> &channels, const std::vector<double> &field) {
  std::vector<std::thread> threads;
  for (auto &channel : channels) threads.emplace_back(pack, std::ref(channel), std::cref(field));
  for (auto &thread : threads) thread.join();
}
static void send_neighbours(const std::vector<Channel> &channels) {
  std::vector<double> inbox(200);
  int right = (rank_ + 1) % size_, left = (rank_ + size_ - 1) % size_;
  for (const auto &channel : channels)
    if (channel.peer == right) {
      MPI_Sendrecv(channel.buffer.data(), 200, MPI_DOUBLE, right, 4, inbox.data(), 200, MPI_DOUBLE, left, 4,
                   MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}
static void relax(std::vector<double> &field) {
  for (int sweep = 0; sweep < 40; sweep++)
    for (std::size_t i = 1; i + 1 < field.size(); i++) field[i] = 0.5 * field[i] + 0.25 * (field[i - 1] + field[i + 1]);
}
int main(int argc, char **argv) {
  int provided;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &size_);
  auto channels = open_channels(argc > 1 && !strcmp(argv[1], "repaired"));
  std::vector<double> field(30000, 1.0 + rank_);
  for (int step = 0; step < 60; step++) {
    relax(field);
    pack_all(channels, field);
    send_neighbours(channels);
  }
  if (rank_ == 0) printf("%g\n", field[100]);
  MPI_Finalize();
}
