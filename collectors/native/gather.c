/* Every rank, when rank 0 tells it to, sends the pages of its table that hold anything to rank 0, which writes them as
 * a table into the spool of the campaign, syncs it, and says so; only then does the rank remove its own.
 *
 * The ranks speak on a duplicate of MPI_COMM_WORLD, made while MPI is initialised, since every rank comes there.
 * Nothing blocks: each step is tested until its time is over, and then MPI is finalised as without us. The ranks of a
 * run come to its end at different moments, and MPI_Finalize would wait for the last of them; a rank waits here for
 * rank 0 a tenth of the run at most. */
#define _GNU_SOURCE
#include "gather.h"

#include "counters.h"
#include "memory.h"
#include "mpi_library.h"
#include "table.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SHARE_OF_RUN 0.1 /* for the last rank to arrive */
#define GRACE_S 2.0      /* a rank waits for rank 0 longer than rank 0 for it */
#define ROUND 32         /* tables that rank 0 takes at a time */
#define PAGE 4096u
#define LARGEST (1u << 30) /* bytes of a table */
#define HOST_BYTES 320
#define NAME_BYTES 128
enum { GO = 1, HEAD = 2, PAGES = 3, TAKEN = 4 };

/* What goes before the pages. */
struct head {
  uint64_t packed_bytes, file_bytes;
  char name[NAME_BYTES], host[HOST_BYTES];
};

static char folder_prefix[PATH_MAX], own_host[HOST_BYTES];
static int (*idup)(A, A, A), (*set_errhandler)(A, A), (*isend)(A, A, A, A, A, A, A), (*irecv)(A, A, A, A, A, A, A),
    (*test)(A, A, A), (*cancel)(A);
static A comm;
static double limit_s; /* of a transfer, and the least of a wait */

void insitu_gather_into(const char *folder, const char *host, double seconds) {
  if (strlen(folder) + HOST_BYTES >= sizeof folder_prefix || strlen(host) >= sizeof own_host) return;
  strcpy(folder_prefix, folder);
  strcpy(own_host, host);
  limit_s = seconds;
}

/* ---- time and messages ---------------------------------------------------------------------------------------- */

static double now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* A request of any MPI: an int or a pointer. */
struct request {
  A handle;
  int is_open;
};

static int is_done(struct request *request) {
  _Alignas(16) char status[256]; /* larger than any library's */
  int flag = 0;
  if (!request->is_open) return 1;
  if (test((A)&request->handle, (A)&flag, (A)status)) return 0;
  if (flag) request->is_open = 0;
  return flag;
}

static struct request made; /* of the communicator of our own */
static int is_begun;

/* Whether it was done before the deadline. */
static int wait_for(struct request *request, double deadline) {
  for (unsigned tries = 0; !is_done(request); tries++) {
    if (now_s() > deadline) return 0;
    if (tries > 100) nanosleep(&(struct timespec){0, tries > 2000 ? 2000000 : 100000}, NULL);
  }
  return 1;
}

static int begin_send(const void *data, uint64_t bytes, int rank, int tag, struct request *request) {
  A world = insitu_mpi_handle_at((A)&comm, 0);
  request->handle = 0;
  request->is_open = !isend((A)data, (A)bytes, insitu_mpi.byte, rank, tag, world, (A)&request->handle);
  return request->is_open;
}

static int begin_receive(void *data, uint64_t bytes, int rank, int tag, struct request *request) {
  A world = insitu_mpi_handle_at((A)&comm, 0);
  request->handle = 0;
  request->is_open = !irecv((A)data, (A)bytes, insitu_mpi.byte, rank, tag, world, (A)&request->handle);
  return request->is_open;
}

static void give_up(struct request *request) {
  if (request->is_open && !cancel((A)&request->handle)) wait_for(request, now_s() + 0.1);
}

static int find_functions(void) {
  const struct {
    const char *name;
    void *place;
  } needed[] = {{"MPI_Comm_idup", &idup}, {"MPI_Comm_set_errhandler", &set_errhandler},
                {"MPI_Isend", &isend},    {"MPI_Irecv", &irecv},
                {"MPI_Test", &test},      {"MPI_Cancel", &cancel}};
  for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
    Function found = insitu_mpi_resolve(needed[i].name);
    memcpy(needed[i].place, &found, sizeof found);
    if (!found) return 0;
  }
  return insitu_mpi.errors_return != 0;
}

void insitu_gather_begin(void) {
  if (!*folder_prefix || !insitu_table || !find_functions()) return;
  made.is_open = !idup(insitu_mpi.comm_world, (A)&comm, (A)&made.handle);
  is_begun = made.is_open;
}

/* ---- a table as a message ------------------------------------------------------------------------------------- */

static int is_empty(const char *page) {
  const uint64_t *words = (const uint64_t *)page;
  for (unsigned i = 0; i < PAGE / sizeof *words; i++)
    if (words[i]) return 0;
  return 1;
}

/* The pages of this rank's table that are not empty, each behind its number, as if MPI were finalised; NULL if that
 * cannot be made. */
static char *pack(struct head *head) {
  struct stat found;
  int file = open(insitu_table->path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return NULL;
  char *table = MAP_FAILED, *packed = MAP_FAILED;
  if (!fstat(file, &found) && found.st_size > 0 && found.st_size <= LARGEST)
    table = mmap(NULL, (size_t)found.st_size, PROT_READ, MAP_SHARED, file, 0);
  close(file);
  if (table == MAP_FAILED) return NULL;
  uint64_t count = ((uint64_t)found.st_size + PAGE - 1) / PAGE, filled = 0;
  /* Room for all pages costs nothing where it is not touched. */
  packed = mmap(NULL, count * (PAGE + 8), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  for (uint64_t i = 0; packed != MAP_FAILED && i < count; i++) {
    char page[PAGE] __attribute__((aligned(16))) = {0};
    uint64_t left = (uint64_t)found.st_size - i * PAGE;
    memcpy(page, table + i * PAGE, left < PAGE ? left : PAGE);
    if (i == 0) ((struct insitu_header *)page)->mpi_state = INSITU_MPI_FINALISED;
    if (is_empty(page)) continue;
    memcpy(packed + filled, &i, sizeof i);
    memcpy(packed + filled + 8, page, PAGE);
    filled += 8 + PAGE;
  }
  munmap(table, (size_t)found.st_size);
  if (packed == MAP_FAILED) return NULL;
  const char *slash = strrchr(insitu_table->path, '/'), *name = slash ? slash + 1 : insitu_table->path;
  *head = (struct head){.packed_bytes = filled, .file_bytes = (uint64_t)found.st_size};
  memcpy(head->name, name, strnlen(name, sizeof head->name - 1));
  memcpy(head->host, own_host, sizeof head->host);
  return packed;
}

static int is_sound(const struct head *head) {
  return head->packed_bytes <= LARGEST && head->packed_bytes % (8 + PAGE) == 0 && head->file_bytes <= LARGEST &&
         memchr(head->name, 0, NAME_BYTES) && memchr(head->host, 0, HOST_BYTES) && head->name[0] != '.' &&
         !strchr(head->name, '/') && !strchr(head->host, '/') && strchr(head->host, '\n');
}

/* ---- the spool ------------------------------------------------------------------------------------------------ */

/* A directory that only this user may enter. Returns 0 on success. */
static int make_private(const char *path) {
  struct stat found;
  if (mkdir(path, 0700) && errno != EEXIST) return -1;
  return lstat(path, &found) || !S_ISDIR(found.st_mode) || found.st_uid != getuid() || found.st_mode & 077;
}

/* The folder of the spool, and the directories above it. Returns 0 on success. */
static int make_folder(const char *host, char folder[PATH_MAX]) {
  char above[PATH_MAX];
  strcpy(above, folder_prefix);
  char *slash = strrchr(above, '/');
  if (!slash) return -1;
  *slash = 0; /* the spool */
  char *campaign = strrchr(above, '/');
  if (!campaign) return -1;
  *campaign = 0;
  if (mkdir(above, 0700) && errno != EEXIST) return -1;
  *campaign = '/';
  int length = snprintf(folder, PATH_MAX, "%s-%s", folder_prefix, strchr(host, '\n') + 1);
  if (length >= PATH_MAX) return -1;
  return make_private(above) || make_private(folder);
}

static int write_all(int file, const char *data, size_t bytes, off_t at) {
  while (bytes) {
    ssize_t done = pwrite(file, data, bytes, at);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return -1;
    data += done, bytes -= (size_t)done, at += done;
  }
  return 0;
}

/* A file that appears whole, and on the disk, or not at all; `fill` writes it. Returns 0 on success. */
static int write_file(const char *folder, const char *name, int (*fill)(int, const void *, const char *),
                      const void *what, const char *data) {
  char fresh[2 * PATH_MAX], path[2 * PATH_MAX];
  int length = snprintf(path, sizeof path, "%s/%s", folder, name);
  int longer = snprintf(fresh, sizeof fresh, "%s/%s.%d", folder, name, (int)getpid());
  if (length >= (int)sizeof path || longer >= (int)sizeof fresh) return -1;
  int file = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file < 0) return -1;
  int failed = fill(file, what, data) || fsync(file);
  failed = close(file) || failed;
  if (failed || rename(fresh, path)) {
    unlink(fresh);
    return -1;
  }
  return 0;
}

static int fill_text(int file, const void *text, const char *unused) {
  (void)unused;
  return write_all(file, text, strlen(text), 0);
}

static int fill_table(int file, const void *what, const char *packed) {
  const struct head *head = what;
  if (ftruncate(file, (off_t)head->file_bytes)) return -1;
  for (uint64_t at = 0; at < head->packed_bytes; at += 8 + PAGE) {
    uint64_t number, end;
    memcpy(&number, packed + at, sizeof number);
    if (number > head->file_bytes / PAGE) return -1;
    end = (number + 1) * PAGE;
    uint64_t bytes = end > head->file_bytes ? head->file_bytes - number * PAGE : PAGE;
    if (write_all(file, packed + at + 8, bytes, (off_t)(number * PAGE))) return -1;
  }
  return 0;
}

/* Returns 1 once the table is on the disk. */
static int keep(const struct head *head, const char *packed) {
  char folder[PATH_MAX];
  if (!is_sound(head) || make_folder(head->host, folder)) return 0;
  if (write_file(folder, "host", fill_text, head->host, NULL)) return 0;
  if (write_file(folder, head->name, fill_table, head, packed)) return 0;
  int file = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  int failed = file < 0 || fsync(file);
  if (file >= 0) close(file);
  return !failed;
}

/* ---- the two sides -------------------------------------------------------------------------------------------- */

static void remove_own(void) {
  char directory[sizeof insitu_table->path];
  strcpy(directory, insitu_table->path);
  unlink(insitu_table->path);
  char *slash = strrchr(directory, '/');
  if (slash) *slash = 0;
  rmdir(directory); /* the last rank of the node */
}

/* What rank 0 knows of another rank while its table comes in. */
struct coming {
  struct head head;
  struct request request, go;
  char *packed;
  char is_taken;
};

/* Take the tables of `count` ranks from `first` on. */
static void take_round(struct coming *coming, int first, int count, double deadline) {
  for (int i = 0; i < count; i++) {
    coming[i] = (struct coming){0};
    begin_receive(&coming[i].head, sizeof coming[i].head, first + i, HEAD, &coming[i].request);
    begin_send("", 1, first + i, GO, &coming[i].go);
  }
  for (int i = 0; i < count; i++) {
    struct coming *one = &coming[i];
    if (!one->request.is_open || !wait_for(&one->request, deadline) || !is_sound(&one->head)) continue;
    one->packed =
        mmap(NULL, one->head.packed_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (one->packed == MAP_FAILED) one->packed = NULL;
    else begin_receive(one->packed, one->head.packed_bytes, first + i, PAGES, &one->request);
  }
  for (int i = 0; i < count; i++) {
    struct coming *one = &coming[i];
    if (one->packed && wait_for(&one->request, deadline)) one->is_taken = (char)keep(&one->head, one->packed);
    if (one->request.is_open) give_up(&one->request); /* its memory is left: it may still be written to */
    else if (one->packed) munmap(one->packed, one->head.packed_bytes);
  }
  for (int i = 0; i < count; i++) begin_send(&coming[i].is_taken, 1, first + i, TAKEN, &coming[i].request);
  for (int i = 0; i < count; i++)
    if (!wait_for(&coming[i].request, deadline)) give_up(&coming[i].request);
}

static void take_all(int size, double deadline) {
  struct coming *coming =
      mmap(NULL, ROUND * sizeof *coming, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (coming == MAP_FAILED) return;
  for (int first = 1; first < size && now_s() < deadline; first += ROUND)
    take_round(coming, first, size - first < ROUND ? size - first : ROUND, deadline);
  /* Not unmapped: an answer that nobody took may still be read. */
}

/* Whether rank 0 has this rank's table on its disk. */
static int give(const struct head *head, const char *packed, double deadline) {
  static char go, is_taken;
  struct request told = {0, 0}, answered = {0, 0}, sent[2] = {{0, 0}, {0, 0}};
  if (!begin_receive(&go, 1, 0, GO, &told) || !wait_for(&told, deadline)) {
    give_up(&told);
    return 0;
  }
  deadline = now_s() + limit_s + GRACE_S;
  begin_receive(&is_taken, 1, 0, TAKEN, &answered);
  begin_send(head, sizeof *head, 0, HEAD, &sent[0]);
  begin_send(packed, head->packed_bytes, 0, PAGES, &sent[1]);
  int is_answered = wait_for(&answered, deadline) && is_taken;
  give_up(&answered);
  for (int i = 0; i < 2; i++)
    if (!is_done(&sent[i])) give_up(&sent[i]);
  return is_answered;
}

void insitu_gather(void) {
  static struct head head; /* may be read after this function has given up */
  if (!is_begun || !insitu_table) return;
  int rank = -1, size = -1;
  double begun = now_s(), ran = begun - 1e-9 * (double)insitu_table->header->start_ns;
  double deadline = begun + (ran * SHARE_OF_RUN > limit_s ? ran * SHARE_OF_RUN : limit_s);
  if (insitu_mpi_world(&rank, &size) || !wait_for(&made, deadline)) return;
  if (set_errhandler(insitu_mpi_handle_at((A)&comm, 0), insitu_mpi.errors_return)) return;
  insitu_memory_at_end();
  insitu_counters_end();
  insitu_stamp();
  char *packed = pack(&head);
  if (!packed) return;
  int is_safe = rank ? give(&head, packed, deadline) : keep(&head, packed);
  if (!rank) take_all(size, deadline);
  if (is_safe) remove_own();
}
