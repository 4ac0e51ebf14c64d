/* Processes that are spawned or connect while the program runs, and MPI without MPI_Init. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Spawns one process of each of two programs, which only exchange a message. */
static void spawn_several(char *itself) {
  char *commands[] = {itself, itself}, *words[] = {"greet", NULL}, **all_words[] = {words, words};
  MPI_Info infos[] = {MPI_INFO_NULL, MPI_INFO_NULL};
  MPI_Comm children;
  MPI_Comm_spawn_multiple(2, commands, all_words, (int[]){1, 1}, infos, 0, MPI_COMM_WORLD, &children,
                          MPI_ERRCODES_IGNORE);
  MPI_Barrier(children);
  MPI_Comm_disconnect(&children);
}

static int greet(void) {
  MPI_Comm parent;
  MPI_Init(NULL, NULL);
  MPI_Comm_get_parent(&parent);
  MPI_Barrier(parent);
  MPI_Comm_disconnect(&parent);
  MPI_Finalize();
  return 0;
}

static int spawn(char *itself) {
  MPI_Comm parent, children, all;
  int rank, sum = 0, one = 1;
  MPI_Init(NULL, NULL);
  MPI_Comm_get_parent(&parent);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (parent == MPI_COMM_NULL) {
    char *words[] = {"spawn", NULL};
    MPI_Comm_spawn(itself, words, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
  } else {
    children = parent;
  }
  MPI_Intercomm_merge(children, parent != MPI_COMM_NULL, &all);
  for (int i = 0; i < 20; i++) MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, all);
  for (int i = 0; i < 20; i++) MPI_Exscan(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Comm_free(&all);
  MPI_Comm_disconnect(&children);
  if (parent == MPI_COMM_NULL) spawn_several(itself);
  if (parent == MPI_COMM_NULL && rank == 0) printf("together %d\n", sum);
  MPI_Finalize();
  return 0;
}

/* Turns both ends of a socket into a communicator. */
static void join(int rank) {
  struct sockaddr_un where = {.sun_family = AF_UNIX, .sun_path = "./meeting"};
  int from = socket(AF_UNIX, SOCK_STREAM, 0), to = from;
  MPI_Comm other;
  if (rank == 0) bind(from, (struct sockaddr *)&where, sizeof where), listen(from, 1);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) to = accept(from, NULL, NULL);
  else if (connect(to, (struct sockaddr *)&where, sizeof where)) MPI_Abort(MPI_COMM_WORLD, 9);
  MPI_Comm_join(to, &other);
  if (rank == 0) MPI_Send(&rank, 1, MPI_INT, 0, 7, other);
  else MPI_Recv(&rank, 1, MPI_INT, 0, 7, other, MPI_STATUS_IGNORE);
  MPI_Comm_disconnect(&other);
  close(to);
}

/* Two separately started ranks connect through a port. */
static int port(void) {
  char name[MPI_MAX_PORT_NAME];
  int rank, number = 0;
  MPI_Comm other;
  MPI_Init(NULL, NULL);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) {
    MPI_Open_port(MPI_INFO_NULL, name);
    MPI_Send(name, MPI_MAX_PORT_NAME, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
    MPI_Comm_accept(name, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other);
    MPI_Send(&number, 1, MPI_INT, 0, 0, other);
  } else if (rank == 1) {
    MPI_Recv(name, MPI_MAX_PORT_NAME, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Comm_connect(name, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other);
    MPI_Recv(&number, 1, MPI_INT, 0, 0, other, MPI_STATUS_IGNORE);
  }
  if (rank < 2) MPI_Comm_disconnect(&other);
  if (rank == 0) MPI_Close_port(name);
  join(rank);
  if (rank == 0) printf("met\n");
  MPI_Finalize();
  return 0;
}

static int session(void) {
  MPI_Session session;
  MPI_Group group;
  MPI_Comm comm;
  int rank, sum, one = 1;
  MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
  MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
  MPI_Comm_create_from_group(group, "insitu", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
  MPI_Group_free(&group);
  for (int i = 0; i < 5; i++) MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
  MPI_Comm_rank(comm, &rank);
  if (rank == 0) printf("in a session %d\n", sum);
  MPI_Comm_free(&comm);
  MPI_Session_finalize(&session);
  return 0;
}

int main(int argc, char **argv) {
  if (!strcmp(argv[1], "spawn")) return spawn(argv[0]);
  if (!strcmp(argv[1], "greet")) return greet();
  return strcmp(argv[1], "port") ? session() : port();
}
