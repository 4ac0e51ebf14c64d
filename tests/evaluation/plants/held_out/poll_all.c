// Once per step each rank asks MPI for a message of each other rank.
// Repaired: it asks for a message of any rank.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
static int rank, size, received;
static double state[20000];
static void receive_from(int source) {
  double value;
  MPI_Recv(&value, 1, MPI_DOUBLE, source, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  state[0] += value;
  received++;
}
static void look_for(int source) {
  int flag;
  MPI_Status status;
  MPI_Iprobe(source, 5, MPI_COMM_WORLD, &flag, &status);
  if (flag) receive_from(status.MPI_SOURCE);
}
static void poll_mail(int any) {
  if (any) {
    look_for(MPI_ANY_SOURCE);
    return;
  }
  for (int source = 0; source < size; source++)
    if (source != rank) look_for(source);
}
static void work(void) {
  for (int pass = 0; pass < 12; pass++)
    for (int i = 1; i < 19999; i++) state[i] = 0.5 * state[i] + 0.25 * (state[i - 1] + state[i + 1]);
}
int main(int argc, char **argv) {
  (void)argv;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (int i = 0; i < 20000; i++) state[i] = i % 7;
  int sent = 0;
  for (int step = 0; step < 400; step++) {
    work();
    poll_mail(argc > 1);
    if (step % 50 == 0 && size > 1) {
      double value = 1;
      MPI_Send(&value, 1, MPI_DOUBLE, (rank + 1) % size, 5, MPI_COMM_WORLD);
      sent++;
    }
  }
  while (received < sent) receive_from(MPI_ANY_SOURCE);
  if (state[3] < 0) printf("%g\n", state[3]);
  MPI_Finalize();
  return 0;
}
