// Three threads of rank 0 check the blocks of all ranks, under one mutex.
#include <mpi.h>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

constexpr int BLOCK = 4000;
static int rank, size;
static std::mutex mutex;
static std::condition_variable changed;
static std::deque<std::vector<int>> blocks;
static bool closed = false;
static long checked = 0;

__attribute__((noinline)) static long checksum(const std::vector<int> &block) {
  unsigned long sum = 1;
  for (int pass = 0; pass < 6; pass++)
    for (int value : block) sum = (sum * 31 + value) % 1000003;
  return long(sum);
}

__attribute__((noinline)) static void check_blocks() {
  std::unique_lock<std::mutex> lock(mutex);
  while (true) {
    changed.wait(lock, [] { return closed || !blocks.empty(); });
    if (blocks.empty()) return;
    checked += checksum(blocks.front());
    blocks.pop_front();
  }
}

__attribute__((noinline)) static void receive_blocks(MPI_Comm group) {
  int members;
  MPI_Comm_size(group, &members);
  for (int source = 1; source < members; source++) {
    std::vector<int> block(BLOCK);
    MPI_Recv(block.data(), BLOCK, MPI_INT, source, 1, group, MPI_STATUS_IGNORE);
    std::lock_guard<std::mutex> lock(mutex);
    blocks.push_back(std::move(block));
    changed.notify_one();
  }
}

__attribute__((noinline)) static void fill(std::vector<int> &block, int step) {
  for (int pass = 0; pass < 30; pass++)
    for (int i = 1; i < BLOCK; i++) block[i] = (block[i - 1] * 5 + block[i] + step) % 4093;
}

int main(int argc, char **argv) {
  int provided;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  bool repaired = argc > 1 && !std::strcmp(argv[argc - 1], "repaired");
  MPI_Comm group;
  MPI_Comm_split(MPI_COMM_WORLD, repaired ? rank / 2 : 0, rank, &group);
  int member;
  MPI_Comm_rank(group, &member);
  std::vector<std::thread> threads;
  if (member == 0)
    for (int i = 0; i < 3; i++) threads.emplace_back(check_blocks);
  std::vector<int> block(BLOCK, rank);
  for (int step = 0; step < 25; step++) {
    fill(block, step);
    if (member == 0)
      receive_blocks(group);
    else
      MPI_Send(block.data(), BLOCK, MPI_INT, 0, 1, group);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  {
    std::lock_guard<std::mutex> lock(mutex);
    closed = true;
  }
  changed.notify_all();
  for (auto &thread : threads) thread.join();
  MPI_Finalize();
}
