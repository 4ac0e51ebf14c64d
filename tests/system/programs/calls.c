/* Every kind of MPI call on three ranks. test_mpi_compiled.py computes the expected amounts. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define P 3
#define N 10
#define W MPI_COMM_WORLD
#define D MPI_DOUBLE

static int rank, size, right, left;
static double one[N], two[N], many[P * N], more[P * N];

static void blocking(void) {
  MPI_Request request;
  MPI_Status status;
  MPI_Message message;
  char *buffer = malloc(4096);
  int bytes;
  for (int i = 0; i < 2; i++) { /* shorter than the buffer, statuses ignored and not */
    MPI_Irecv(two, N, D, left, 1, W, &request);
    MPI_Send(one, 7, D, right, 1, W);
    MPI_Wait(&request, i ? MPI_STATUS_IGNORE : &status);
  }
  MPI_Irecv(two, N, D, left, 2, W, &request);
  MPI_Ssend(one, N, D, right, 2, W);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Irecv(two, N, D, left, 3, W, &request);
  MPI_Barrier(W);
  MPI_Rsend(one, N, D, right, 3, W);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Buffer_attach(buffer, 4096);
  MPI_Bsend(one, N, D, right, 4, W);
  MPI_Mprobe(left, 4, W, &message, &status);
  MPI_Mrecv(two, N, D, &message, MPI_STATUS_IGNORE);
  MPI_Buffer_detach(&buffer, &bytes);
  free(buffer);
  MPI_Isend(one, N, D, right, 5, W, &request);
  MPI_Probe(left, 5, W, &status);
  MPI_Recv(two, N, D, left, 5, W, MPI_STATUS_IGNORE);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Isend(one, N, D, right, 6, W, &request);
  MPI_Mprobe(MPI_ANY_SOURCE, 6, W, &message, &status);
  MPI_Request arriving;
  MPI_Imrecv(two, N, D, &message, &arriving);
  MPI_Wait(&arriving, MPI_STATUS_IGNORE);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Sendrecv(one, N, D, right, 7, two, N, D, left, 7, W, MPI_STATUS_IGNORE);
  MPI_Sendrecv_replace(one, N, D, right, 8, left, 8, W, MPI_STATUS_IGNORE);
  /* MPI_PROC_NULL */
  MPI_Send(one, N, D, MPI_PROC_NULL, 9, W);
  MPI_Recv(one, N, D, MPI_PROC_NULL, 9, W, MPI_STATUS_IGNORE);
  MPI_Mprobe(MPI_PROC_NULL, 9, W, &message, &status);
  MPI_Mrecv(two, N, D, &message, MPI_STATUS_IGNORE);
  MPI_Irecv(one, N, D, MPI_PROC_NULL, 9, W, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Sendrecv(one, N, D, rank ? left : MPI_PROC_NULL, 9, two, N, D, rank < size - 1 ? right : MPI_PROC_NULL, 9, W,
               MPI_STATUS_IGNORE);
  /* a receive that never happens */
  MPI_Irecv(one, N, D, left, 99, W, &request);
  MPI_Cancel(&request);
  MPI_Wait(&request, &status);
  MPI_Test_cancelled(&status, &bytes);
  if (!bytes) MPI_Abort(W, 1);
}

static void started(MPI_Request *requests) {
  MPI_Irecv(two, N, D, left, 20, W, &requests[0]);
  MPI_Irecv(more, N, D, left, 21, W, &requests[1]);
  MPI_Issend(one, N, D, right, 20, W, &requests[2]);
  MPI_Irsend(one, 0, D, MPI_PROC_NULL, 21, W, &requests[3]);
  MPI_Isend(one, 5, D, right, 21, W, &requests[4]);
}

static void completion(void) {
  MPI_Request requests[5];
  MPI_Status statuses[5];
  int at, flag, count, indices[5];
  started(requests);
  for (int i = 0; i < 5; i++) MPI_Waitany(5, requests, &at, i % 2 ? MPI_STATUS_IGNORE : statuses);
  started(requests);
  for (int done = 0; done < 5; done += count)
    MPI_Waitsome(5, requests, &count, indices, done ? MPI_STATUSES_IGNORE : statuses);
  started(requests);
  for (int done = 0; done < 5; done += count) MPI_Testsome(5, requests, &count, indices, MPI_STATUSES_IGNORE);
  started(requests);
  for (int done = 0; done < 5; done += flag) MPI_Testany(5, requests, &at, &flag, MPI_STATUS_IGNORE);
  started(requests);
  for (flag = 0; !flag;) MPI_Testall(5, requests, &flag, MPI_STATUSES_IGNORE);
  started(requests);
  for (int i = 0; i < 5; i++)
    for (flag = 0; !flag;) MPI_Test(&requests[i], &flag, MPI_STATUS_IGNORE);
  started(requests);
  MPI_Waitall(5, requests, statuses);
  started(requests);
  MPI_Waitall(5, requests, MPI_STATUSES_IGNORE);
}

static void persistent(void) {
  MPI_Request requests[2];
  MPI_Recv_init(two, N, D, left, 30, W, &requests[0]);
  MPI_Send_init(one, N, D, right, 30, W, &requests[1]);
  for (int i = 0; i < 4; i++) {
    MPI_Startall(2, requests);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  }
  MPI_Start(&requests[0]);
  MPI_Start(&requests[1]);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE); /* inactive: nothing arrives */
  MPI_Request_free(&requests[0]);
  MPI_Request_free(&requests[1]);
#if MPI_VERSION >= 4
  MPI_Allreduce_init(one, two, N, D, MPI_SUM, W, MPI_INFO_NULL, &requests[0]);
  for (int i = 0; i < 3; i++) {
    MPI_Start(&requests[0]);
    MPI_Waitall(1, requests, MPI_STATUSES_IGNORE);
  }
  MPI_Request_free(&requests[0]);
#endif
}

static void types(void) {
  for (int n = 1; n <= 4; n++) { /* a handle may be reused for a type of another size */
    MPI_Datatype type;
    MPI_Type_contiguous(n, D, &type);
    MPI_Type_commit(&type);
    MPI_Scan(one, two, 1, MPI_INT, MPI_SUM, W);
    MPI_Allgather(one, 1, type, many, 1, type, W);
    MPI_Type_free(&type);
  }
  for (int i = 0; i < 3; i++) { /* and for another communicator */
    MPI_Comm comm;
    MPI_Comm_split(W, i == 1 ? 0 : rank, 0, &comm);
    MPI_Exscan(one, two, N, D, MPI_SUM, comm);
    MPI_Comm_free(&comm);
  }
}

static void collectives(void) {
  MPI_Request r;
  int counts[P] = {1, 2, 3}, at[P] = {0, 1, 3}, mine[P] = {rank + 1, rank + 1, rank + 1};
  int froms[P] = {0, 80, 160}, tens[P] = {N, N, N};
  MPI_Datatype doubles[P] = {D, D, D};
  MPI_Bcast(one, N, D, 1, W);
  MPI_Reduce(rank == 1 ? MPI_IN_PLACE : one, rank == 1 ? one : NULL, N, D, MPI_SUM, 1, W);
  MPI_Allreduce(MPI_IN_PLACE, one, N, D, MPI_SUM, W);
  MPI_Gather(rank == 1 ? MPI_IN_PLACE : one, N, D, many, N, D, 1, W);
  MPI_Gatherv(rank == 1 ? MPI_IN_PLACE : one, counts[rank], D, many, counts, at, D, 1, W);
  MPI_Scatter(many, N, D, rank == 1 ? MPI_IN_PLACE : one, N, D, 1, W);
  MPI_Scatterv(many, counts, at, D, rank == 1 ? MPI_IN_PLACE : one, counts[rank], D, 1, W);
  MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, many, counts, at, D, W);
  MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, many, N, D, W);
  MPI_Alltoallv(many, mine, at, D, more, counts, at, D, W);
  MPI_Alltoallw(many, tens, froms, doubles, more, tens, froms, doubles, W);
  MPI_Reduce_scatter(many, one, counts, D, MPI_SUM, W);
  MPI_Reduce_scatter_block(many, one, 2, D, MPI_SUM, W);
  MPI_Ibarrier(W, &r);
  MPI_Waitall(1, &r, MPI_STATUSES_IGNORE);
  MPI_Ibcast(one, N, D, 2, W, &r);
  MPI_Waitall(1, &r, MPI_STATUSES_IGNORE);
  MPI_Iallgather(one, N, D, many, N, D, W, &r);
  MPI_Waitall(1, &r, MPI_STATUSES_IGNORE);
  MPI_Ialltoallv(many, mine, at, D, more, counts, at, D, W, &r);
  MPI_Waitall(1, &r, MPI_STATUSES_IGNORE);
}

static void between(void) {
  MPI_Comm half, other;
  int is_first = rank == 0, root = is_first ? MPI_ROOT : 0;
  MPI_Comm_split(W, is_first, rank, &half);
  MPI_Intercomm_create(half, 0, W, is_first ? 1 : 0, 40, &other);
  MPI_Request r;
  MPI_Ibcast(one, N, D, root, other, &r);
  MPI_Waitall(1, &r, MPI_STATUSES_IGNORE);
  MPI_Igather(one, N, D, many, N, D, root, other, &r);
  MPI_Waitall(1, &r, MPI_STATUSES_IGNORE);
  MPI_Iscatter(many, N, D, one, N, D, root, other, &r);
  MPI_Waitall(1, &r, MPI_STATUSES_IGNORE);
  MPI_Iallgatherv(one, N, D, many, (int[]){N, N}, (int[]){0, N}, D, other, &r);
  MPI_Waitall(1, &r, MPI_STATUSES_IGNORE);
  MPI_Ireduce(one, two, N, D, MPI_SUM, root, other, &r);
  MPI_Waitall(1, &r, MPI_STATUSES_IGNORE);
  MPI_Comm_disconnect(&other);
  MPI_Comm_free(&half);
}

static void neighbours(void) {
  MPI_Comm line, star;
  int sides[1] = {P}, is_periodic[1] = {0}, to[2] = {1, 2}, from[2] = {2, 1}, at[2] = {0, 2};
  MPI_Cart_create(W, 1, sides, is_periodic, 0, &line);
  MPI_Neighbor_allgather(one, N, D, many, N, D, line);
  MPI_Neighbor_alltoall(many, N, D, more, N, D, line);
  MPI_Neighbor_alltoallv(many, to, at, D, more, from, at, D, line);
  MPI_Comm_free(&line);
  /* 1 and 2 send to 0 */
  int sources[2] = {1, 2}, targets[1] = {0};
  MPI_Dist_graph_create_adjacent(W, rank ? 0 : 2, sources, MPI_UNWEIGHTED, rank ? 1 : 0, targets, MPI_UNWEIGHTED,
                                 MPI_INFO_NULL, 0, &star);
  MPI_Neighbor_allgatherv(one, rank ? N : 0, D, many, (int[]){N, N}, (int[]){0, N}, D, star);
  MPI_Comm_free(&star);
}

static void one_sided(void) {
  MPI_Win window;
  double *memory;
  long counter = 1, before, compare = 0;
  MPI_Request r;
  MPI_Win_allocate(1024, 8, MPI_INFO_NULL, W, &memory, &window);
  memset(memory, 0, 1024);
  MPI_Win_fence(0, window);
  MPI_Put(one, 4, D, right, 0, 4, D, window);
  MPI_Put(one, 4, D, MPI_PROC_NULL, 0, 4, D, window);
  MPI_Win_fence(0, window);
  MPI_Get(two, 3, D, left, 0, 3, D, window);
  MPI_Accumulate(one, 2, D, right, 10, 2, D, MPI_SUM, window);
  MPI_Win_fence(0, window);
  MPI_Get_accumulate(one, 2, D, two, 2, D, right, 20, 2, D, MPI_SUM, window);
  MPI_Get_accumulate(NULL, 0, D, two, 5, D, right, 20, 5, D, MPI_NO_OP, window);
  MPI_Win_fence(0, window);
  MPI_Win_lock_all(0, window);
  MPI_Fetch_and_op(&counter, &before, MPI_LONG, 0, 40, MPI_SUM, window);
  MPI_Compare_and_swap(&counter, &compare, &before, MPI_LONG, 0, 41, window);
  MPI_Win_flush_all(window);
  MPI_Rput(one, 4, D, right, 50, 4, D, window, &r);
  MPI_Waitall(1, &r, MPI_STATUSES_IGNORE);
  MPI_Win_unlock_all(window);
  MPI_Win_free(&window);
}

static void files(const char *path) {
  MPI_File file;
  MPI_Request r;
  MPI_Offset mine = rank * sizeof one;
  MPI_File_open(W, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
  MPI_File_write_at(file, mine, one, N, D, MPI_STATUS_IGNORE);
  MPI_File_sync(file);
  MPI_Barrier(W);
  MPI_File_read_at_all(file, mine, two, N, D, MPI_STATUS_IGNORE);
  MPI_File_iread_at(file, mine, two, 3, D, &r);
  MPI_Waitall(1, &r, MPI_STATUSES_IGNORE);
  MPI_File_seek(file, 0, MPI_SEEK_SET);
  MPI_File_read(file, many, P * N, D, MPI_STATUS_IGNORE);
  MPI_File_close(&file);
}

#ifdef LARGE
static void large(void) {
  MPI_Request r;
  MPI_Count counts[P] = {1, 2, 3};
  MPI_Aint at[P] = {0, 1, 3};
  MPI_Irecv_c(two, N, D, left, 60, W, &r);
  MPI_Send_c(one, 6, D, right, 60, W);
  MPI_Wait(&r, MPI_STATUS_IGNORE);
  MPI_Allgatherv_c(one, counts[rank], D, many, counts, at, D, W);
}
#endif

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(W, &rank);
  MPI_Comm_size(W, &size);
  if (size != P) MPI_Abort(W, 1);
  right = (rank + 1) % P;
  left = (rank + P - 1) % P;
  blocking();
  completion();
  persistent();
  types();
  collectives();
  neighbours();
  one_sided();
  files(argv[1]);
  between();
#ifdef LARGE
  large();
#endif
  MPI_Finalize();
  return 0;
}
