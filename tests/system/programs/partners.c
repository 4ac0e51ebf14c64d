/* Each function exchanges messages with a known number of ranks; see test_partners.py. */
#include <mpi.h>
#include <stdlib.h>

static int rank, size;
static double sent, received;

/* A communicator of all ranks, in the order rank + shift. */
static MPI_Comm rotated(int shift) {
  MPI_Comm comm;
  MPI_Comm_split(MPI_COMM_WORLD, 0, (rank + shift) % size, &comm);
  return comm;
}

/* The ends of a line have one neighbour. */
static void line(void) {
  int left = rank > 0 ? rank - 1 : MPI_PROC_NULL, right = rank < size - 1 ? rank + 1 : MPI_PROC_NULL;
  for (int i = 0; i < 50; i++)
    MPI_Sendrecv(&sent, 1, MPI_DOUBLE, right, 0, &received, 1, MPI_DOUBLE, left, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* Rank 0 receives from all others. */
static void star(void) {
  double all[64];
  MPI_Request requests[64];
  for (int round = 0; round < 3; round++) {
    for (int i = 1; i < size && !rank; i++)
      MPI_Irecv(&all[i], 1, MPI_DOUBLE, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &requests[i]);
    if (rank) MPI_Send(&sent, 1, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD);
    else MPI_Waitall(size - 1, requests + 1, MPI_STATUSES_IGNORE);
  }
}

/* The next rank of a ring has another rank in each communicator. The handle of a freed one is used again. */
static void ring(void) {
  for (int shift = 0; shift < 2 * size; shift++) {
    MPI_Comm comm = rotated(shift);
    int here;
    MPI_Comm_rank(comm, &here);
    if (rank % 2) MPI_Recv(&received, 1, MPI_DOUBLE, MPI_ANY_SOURCE, 2, comm, MPI_STATUS_IGNORE);
    MPI_Ssend(&sent, 1, MPI_DOUBLE, (here + 1) % size, 2, comm);
    if (rank % 2 == 0) MPI_Recv(&received, 1, MPI_DOUBLE, MPI_ANY_SOURCE, 2, comm, MPI_STATUS_IGNORE);
    MPI_Comm_free(&comm);
  }
}

/* Rank 0 sends to rank 1 of communicators in which that is always another rank. */
static void others(void) {
  for (int shift = 0; shift < size - 1; shift++) {
    MPI_Comm comm;
    int here;
    MPI_Comm_split(MPI_COMM_WORLD, 0, rank ? 1 + (rank + shift) % (size - 1) : 0, &comm);
    MPI_Comm_rank(comm, &here);
    if (here == 0) MPI_Bsend(&sent, 1, MPI_DOUBLE, 1, 3, comm);
    if (here == 1) MPI_Recv(&received, 1, MPI_DOUBLE, 0, 3, comm, MPI_STATUS_IGNORE);
    if (here == 0) MPI_Rsend(&sent, 0, MPI_DOUBLE, MPI_PROC_NULL, 3, comm);
    MPI_Comm_free(&comm);
  }
}

/* The source of a receive from any rank of another communicator is not known. */
static void unknown(void) {
  MPI_Comm comm = rotated(1);
  MPI_Request requests[2];
  int here;
  MPI_Comm_rank(comm, &here);
  MPI_Irecv(&received, 1, MPI_DOUBLE, MPI_ANY_SOURCE, 4, comm, &requests[0]);
  MPI_Issend(&sent, 1, MPI_DOUBLE, (here + 1) % size, 4, comm, &requests[1]);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  MPI_Comm_free(&comm);
}

/* Persistent requests, and a communicator with the ranks of MPI_COMM_WORLD. */
static void persistent(void) {
  MPI_Comm comm;
  MPI_Request requests[2];
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Send_init(&sent, 1, MPI_DOUBLE, (rank + 1) % size, 5, comm, &requests[0]);
  MPI_Recv_init(&received, 1, MPI_DOUBLE, MPI_ANY_SOURCE, 5, comm, &requests[1]);
  MPI_Startall(2, requests);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

/* Neighbours in a line and in a graph in which all ranks send to the first. */
static void topologies(void) {
  double all[64];
  int weights[64], ranks[64], is_periodic = 0;
  MPI_Comm cart, graph;
  MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &is_periodic, 0, &cart);
  for (int i = 0; i < 5; i++) MPI_Neighbor_allgather(&sent, 1, MPI_DOUBLE, all, 1, MPI_DOUBLE, cart);
  for (int i = 0; i < 64; i++) weights[i] = 1, ranks[i] = i;
  MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, rank ? 0 : size, ranks, weights, 1, (int[]){0}, weights, MPI_INFO_NULL,
                                 0, &graph);
  MPI_Neighbor_alltoall(all, 1, MPI_DOUBLE, all + 32, 1, MPI_DOUBLE, graph);
}

/* A counter of rank 0, and windows of the ranks around this one, some of which have the same handle. */
static void windows(void) {
  long one = 1, before, *memory;
  MPI_Win window;
  for (int shift = 0; shift < 2; shift++) {
    MPI_Comm comm = rotated(shift);
    int here;
    MPI_Comm_rank(comm, &here);
    MPI_Win_allocate(sizeof *memory, sizeof *memory, MPI_INFO_NULL, comm, &memory, &window);
    MPI_Comm_free(&comm);
    MPI_Win_lock(MPI_LOCK_SHARED, (here + 1) % size, 0, window);
    MPI_Win_unlock((here + 1) % size, window);
    MPI_Win_lock_all(0, window);
    for (int i = 0; i < 3; i++) MPI_Fetch_and_op(&one, &before, MPI_LONG, 0, 0, MPI_SUM, window);
    MPI_Put(&one, 0, MPI_LONG, (here + size - 1) % size, 0, 0, MPI_LONG, window);
    MPI_Put(&one, 0, MPI_LONG, MPI_PROC_NULL, 0, 0, MPI_LONG, window);
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
  }
}

/* Calls on a communicator of the ranks of a node, on a copy of it, and on one of the first two ranks. */
static void node(void) {
  MPI_Comm of_node, copy, pair;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &of_node);
  MPI_Comm_dup(of_node, &copy);
  MPI_Bcast(&sent, 1, MPI_DOUBLE, 0, of_node);
  MPI_Sendrecv(&sent, 1, MPI_DOUBLE, (rank + 1) % size, 0, &received, 1, MPI_DOUBLE, MPI_ANY_SOURCE, 0, copy,
               MPI_STATUS_IGNORE);
  MPI_Comm_split(MPI_COMM_WORLD, rank < 2, 0, &pair);
  MPI_Barrier(pair);
  MPI_Allreduce(&sent, &received, 1, MPI_DOUBLE, MPI_SUM, of_node);
  MPI_Allreduce(&sent, &received, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
  char *buffer = malloc(1 << 16);
  int provided;
  MPI_Init_thread(&argc, &argv, argc > 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
  MPI_Buffer_attach(buffer, 1 << 16);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  line();
  star();
  ring();
  others();
  unknown();
  persistent();
  topologies();
  windows();
  node();
  MPI_Finalize();
  return 0;
}
