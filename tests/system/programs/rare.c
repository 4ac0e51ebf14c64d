/* Rarely used calls on three ranks. test_mpi_rare.py computes the expected amounts. */
#include <mpi.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define P 3
#define N 10
#define W MPI_COMM_WORLD
#define D MPI_DOUBLE
#define IGNORE MPI_STATUS_IGNORE

static int rank, size, right, left;
static double one[P * N], two[P * N];

static void partitioned(void) {
  MPI_Request requests[2];
  int parts[1] = {0}, flag;
  MPI_Psend_init(one, 3, 5, D, right, 1, W, MPI_INFO_NULL, &requests[0]);
  MPI_Precv_init(two, 3, 5, D, left, 1, W, MPI_INFO_NULL, &requests[1]);
  for (int i = 0; i < 4; i++) {
    MPI_Startall(2, requests);
    MPI_Pready_list(1, parts, requests[0]);
    MPI_Pready_range(1, 1, requests[0]);
    MPI_Pready(2, requests[0]);
    for (flag = 0; !flag;) MPI_Parrived(requests[1], 1, &flag);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  }
  MPI_Request_free(&requests[0]);
  MPI_Request_free(&requests[1]);
}

static void epochs(MPI_Win window) {
  MPI_Group all, to, from;
  int flag;
  MPI_Comm_group(W, &all);
  MPI_Group_incl(all, 1, &right, &to);
  MPI_Group_incl(all, 1, &left, &from);
  for (int i = 0; i < 2; i++) {
    MPI_Win_post(from, 0, window);
    MPI_Win_start(to, 0, window);
    MPI_Put(one, 3, D, right, 0, 3, D, window);
    MPI_Win_complete(window);
    if (i) MPI_Win_wait(window);
    for (flag = i; !flag;) MPI_Win_test(window, &flag);
  }
  MPI_Group_free(&all);
  MPI_Group_free(&to);
  MPI_Group_free(&from);
}

static void windows(void) {
  MPI_Win window, shared, dynamic;
  MPI_Request requests[3];
  double memory[P * N] = {0}, *base;
  MPI_Win_create(memory, sizeof memory, sizeof *memory, MPI_INFO_NULL, W, &window);
  epochs(window);
  MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right, 0, window);
  MPI_Put(one, 2, D, right, 4, 2, D, window);
  MPI_Win_flush(right, window);
  MPI_Win_flush_local(right, window);
  MPI_Win_unlock(right, window);
  MPI_Win_lock_all(0, window);
  MPI_Rget(two, 4, D, right, 0, 4, D, window, &requests[0]);
  MPI_Raccumulate(one, 5, D, right, 10, 5, D, MPI_SUM, window, &requests[1]);
  MPI_Rget_accumulate(one, 6, D, two + N, 6, D, right, 20, 6, D, MPI_SUM, window, &requests[2]);
  MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
  MPI_Win_flush_all(window);
  MPI_Win_flush_local_all(window);
  MPI_Win_sync(window);
  MPI_Win_unlock_all(window);
  MPI_Win_free(&window);
  MPI_Win_allocate_shared(80, 8, MPI_INFO_NULL, W, &base, &shared);
  MPI_Win_free(&shared);
  MPI_Win_create_dynamic(MPI_INFO_NULL, W, &dynamic);
  MPI_Win_attach(dynamic, memory, sizeof memory);
  MPI_Win_detach(dynamic, memory);
  MPI_Win_free(&dynamic);
}

/* The file is large enough for every read, wherever it begins. */
static void writes(MPI_File file) {
  MPI_Request requests[5];
  MPI_Offset mine = 100 * rank;
  MPI_File_write(file, one, 1, D, IGNORE);
  MPI_File_write_all(file, one, 2, D, IGNORE);
  MPI_File_write_at(file, mine, one, 3, D, IGNORE);
  MPI_File_write_at_all(file, mine, one, 4, D, IGNORE);
  MPI_File_write_shared(file, one, 5, D, IGNORE);
  MPI_File_write_ordered(file, one, 6, D, IGNORE);
  MPI_File_iwrite(file, one, 7, D, &requests[0]);
  MPI_File_iwrite_at(file, mine, one, 8, D, &requests[1]);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  MPI_File_iwrite_all(file, one, 9, D, &requests[0]);
  MPI_Waitall(1, requests, MPI_STATUSES_IGNORE);
  MPI_File_iwrite_at_all(file, mine, one, 10, D, &requests[0]);
  MPI_Waitall(1, requests, MPI_STATUSES_IGNORE);
  MPI_File_iwrite_shared(file, one, 11, D, &requests[0]);
  MPI_Waitall(1, requests, MPI_STATUSES_IGNORE);
  MPI_File_write_all_begin(file, one, 12, D);
  MPI_File_write_all_end(file, one, IGNORE);
  MPI_File_write_at_all_begin(file, mine, one, 13, D);
  MPI_File_write_at_all_end(file, one, IGNORE);
  MPI_File_write_ordered_begin(file, one, 14, D);
  MPI_File_write_ordered_end(file, one, IGNORE);
}

static void reads(MPI_File file) {
  MPI_Request requests[5];
  MPI_Status status;
  MPI_Offset mine = 100 * rank;
  MPI_File_read(file, two, 1, D, &status);
  MPI_File_read_all(file, two, 2, D, IGNORE);
  MPI_File_read_at(file, mine, two, 3, D, IGNORE);
  MPI_File_read_at_all(file, mine, two, 4, D, &status);
  MPI_File_read_shared(file, two, 5, D, IGNORE);
  MPI_File_read_ordered(file, two, 6, D, IGNORE);
  MPI_File_iread(file, two, 7, D, &requests[0]);
  MPI_Wait(&requests[0], IGNORE);
  MPI_File_iread_at(file, mine, two, 8, D, &requests[0]);
  MPI_Wait(&requests[0], IGNORE);
  MPI_File_iread_all(file, two, 9, D, &requests[0]);
  MPI_Wait(&requests[0], IGNORE);
  MPI_File_iread_at_all(file, mine, two, 10, D, &requests[0]);
  MPI_Wait(&requests[0], &status);
  MPI_File_iread_shared(file, two, 11, D, &requests[0]);
  MPI_Wait(&requests[0], IGNORE);
  MPI_File_read_all_begin(file, two, 12, D);
  MPI_File_read_all_end(file, two, IGNORE);
  MPI_File_read_at_all_begin(file, mine, two, 13, D);
  MPI_File_read_at_all_end(file, two, &status);
  MPI_File_read_ordered_begin(file, two, 14, D);
  MPI_File_read_ordered_end(file, two, IGNORE);
}

static void files(const char *path) {
  MPI_File file;
  MPI_File_open(W, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
  MPI_File_preallocate(file, 65536);
  MPI_File_set_size(file, 65536);
  MPI_File_set_view(file, 0, D, D, "native", MPI_INFO_NULL);
  writes(file);
  MPI_File_sync(file);
  MPI_File_seek(file, 0, MPI_SEEK_SET);
  MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
  reads(file);
  MPI_File_close(&file);
  MPI_Barrier(W);
  if (rank == 0) MPI_File_delete(path, MPI_INFO_NULL);
}

/* One of two receives is too small for its message. */
static int erring(void) {
  MPI_Request requests[2], sends[2];
  MPI_Status statuses[2];
  int failed = 0, at, flag = 0, count = 0, indices[2];
  MPI_Comm_set_errhandler(W, MPI_ERRORS_RETURN);
  for (int i = 0; i < 6; i++) {
    MPI_Isend(one, N, D, right, 10, W, &sends[0]);
    MPI_Isend(one, N, D, right, 11, W, &sends[1]);
    MPI_Irecv(two, N, D, left, 10, W, &requests[0]);
    MPI_Irecv(two + N, 1, D, left, 11, W, &requests[1]);
    if (i == 0) failed += !!MPI_Waitall(2, requests, statuses);
    if (i == 1) failed += !!MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    if (i == 2)
      for (int done = 0; done < 2; done += count) failed += !!MPI_Waitsome(2, requests, &count, indices, statuses);
    if (i == 3)
      for (int done = 0; done < 2; done++) failed += !!MPI_Waitany(2, requests, &at, IGNORE);
    if (i == 4)
      for (flag = 0; !flag && failed < 5;) failed += !!MPI_Testall(2, requests, &flag, statuses);
    if (i == 5) failed += !!MPI_Wait(&requests[0], IGNORE), failed += !!MPI_Wait(&requests[1], IGNORE);
    MPI_Waitall(2, sends, MPI_STATUSES_IGNORE);
  }
  return failed;
}

static jmp_buf back;

static void jump(MPI_Comm *comm, int *code, ...) {
  (void)comm, (void)code;
  longjmp(back, 1);
}

static __attribute__((noinline)) void deeper(void) {
  volatile char room[4096];
  memset((char *)room, 1, sizeof room);
  MPI_Probe(MPI_PROC_NULL, 0, W, IGNORE);
}

/* An error handler leaves a call by longjmp; the next calls are deeper in the stack than that one. */
static void jumping(void) {
  MPI_Errhandler handler;
  volatile int jumps = 0;
  MPI_Comm_create_errhandler(jump, &handler);
  MPI_Comm_set_errhandler(W, handler);
  for (volatile int i = 0; i < 3; i++) {
    if (setjmp(back)) jumps++;
    else MPI_Ssend(one, 1, D, 1000, 0, W);
    deeper();
  }
  MPI_Comm_set_errhandler(W, MPI_ERRORS_ARE_FATAL);
  if (jumps != 3) MPI_Abort(W, 3);
}

int main(int argc, char **argv) {
  int provided, failed;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_SINGLE, &provided);
  MPI_Comm_rank(W, &rank);
  MPI_Comm_size(W, &size);
  right = (rank + 1) % P;
  left = (rank + P - 1) % P;
  partitioned();
  windows();
  files(argv[1]);
  failed = erring();
  jumping();
  if (rank == 0) printf("failed %d\n", failed);
  MPI_Finalize();
  return 0;
}
