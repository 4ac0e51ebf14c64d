"""Calls that open, read, write and map files: counts known in closed form, behaviour unchanged."""

import os
import subprocess
import sys
from functools import partial

import pytest

from tests.support.parameters import plain_and_full
from tests.system.conftest import BINARIES, Bench

pytestmark = [pytest.mark.mpi, pytest.mark.native]

IO = r"""
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
static char buffer[4096];
static void check(long is_right) { if (!is_right) abort(); }
__attribute__((noinline)) static void write_pieces(int pieces) {
  for (int i = 0; i < pieces; i++) {
    char name[64];
    snprintf(name, sizeof name, "piece%d", i);
    int file = open(name, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600);
    for (int j = 0; j < 10; j++) check(write(file, buffer, 100) == 100);
    check(pwrite(file, buffer, 50, 0) == 50);
    check(!fsync(file) && !close(file));
  }
}
__attribute__((noinline)) static void use_stream(int items) {
  FILE *stream = fopen("stream", "w+");
  check(fwrite(buffer, 8, (size_t)items, stream) == (size_t)items);
  check(fprintf(stream, "%d items\n", items) == 9);
  rewind(stream);
  check(fread(buffer, 1, (size_t)items, stream) == (size_t)items);
  fclose(stream);
  check(!fopen("missing/stream", "r"));
}
__attribute__((noinline)) static void use_descriptors(size_t bytes) {
  int folder = open(".", O_RDONLY | O_DIRECTORY), file = openat(folder, "stream", O_RDONLY);
  struct iovec parts[2] = {{buffer, 10}, {buffer, 20}};
  check(read(file, buffer, bytes) == (ssize_t)bytes);
  check(pread(file, buffer, bytes, 3) == (ssize_t)bytes);
  check(readv(file, parts, 2) == 30);
  void *mapped = mmap(NULL, 100, PROT_READ, MAP_PRIVATE, file, 0);
  check(mapped != MAP_FAILED && !munmap(mapped, 100));
  /* The same descriptor leads to a pipe, which is no file. */
  int ends[2];
  check(!pipe(ends) && dup2(ends[0], file) == file);
  check(write(ends[1], buffer, 77) == 77 && read(file, buffer, 77) == 77);
}
__attribute__((noinline)) static void look_up_memory(void) {
  FILE *statm = fopen("/proc/self/statm", "r");
  check(fread(buffer, 1, 8, statm) == 8 && !fclose(statm));
  int online = open("/sys/devices/system/cpu/online", O_RDONLY);
  check(read(online, buffer, 1) == 1 && !close(online));
  DIR *folder = opendir("/proc/self/fd");
  while (readdir(folder)) check(folder != NULL);
  check(!closedir(folder));
}
__attribute__((noinline)) static void list_entries(void) {
  int entries = 0;
  check(!mkdir("entries", 0700) && !close(creat("entries/a", 0600)));
  check(!close(creat("entries/b", 0600)));
  DIR *folder = opendir("entries");
  while (readdir(folder)) entries++;
  check(entries == 4 && !closedir(folder));
}
int main(int argc, char **argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) {
    write_pieces(3);
    use_stream(16 + argc - 1);
    use_descriptors((size_t)(24 + argc - 1));
    look_up_memory();
    list_entries();
  }
  MPI_Finalize();
  return 0;
}
"""


def build(bench: Bench, source: str, *flags: str) -> None:
    """Compile a program, `io`."""
    (bench.folder / "io.c").write_text(source)
    words = ["-O2", *flags, "io.c", "-o", "io"]
    subprocess.run([str(BINARIES[bench.mpi] / "mpicc"), *words], cwd=bench.folder, check=True)


def value_of(bench: Bench, path: str, metric: str) -> float:
    return float(bench.values(f"io->main->{path}", metric)[0])


@plain_and_full("flags", [(), ("-D_FORTIFY_SOURCE=2",), ("-D_FILE_OFFSET_BITS=64",)])
def test_a_compiled_program_is_counted_call_by_call(bench, flags):
    build(bench, IO, "-g", *flags)

    outcome = bench.measure("-n", 1, "--", "./io")

    assert outcome.code == 0, outcome.err

    value = partial(value_of, bench)
    assert value("write_pieces->open", "visits") == 3
    assert value("write_pieces->open", "files_opened") == 3
    assert value("write_pieces->write", "visits") == 30
    assert value("write_pieces->write", "bytes_written") == 3000
    assert value("write_pieces->pwrite", "bytes_written") == 150
    assert value("write_pieces->fsync", "visits") == 3
    assert (value("use_stream->fopen", "visits"), value("use_stream->fopen", "files_opened")) == (
        2,
        1,
    )
    assert value("use_stream->fwrite", "bytes_written") == 128
    assert value("use_stream->fprintf", "bytes_written") == 9
    assert value("use_stream->fread", "bytes_read") == 16
    assert value("use_descriptors->open", "visits") == 2
    assert value("use_descriptors->open", "files_opened") == 1  # the other is a directory
    assert value("use_descriptors->read", "bytes_read") == 24
    assert value("use_descriptors->pread", "bytes_read") == 24
    assert value("use_descriptors->readv", "bytes_read") == 30
    for opening in ("open", "fopen"):  # what the kernel tells is in no file
        assert value(f"look_up_memory->{opening}", "visits") == 1
        assert value(f"look_up_memory->{opening}", "files_opened") == 0
    names = {(path.parent.name, path.name) for path in bench.table().callpaths if path.parent}
    assert ("use_descriptors", "read") in names
    assert not names & {("look_up_memory", name) for name in ("read", "fread", "readdir")}
    assert value("use_descriptors->mmap", "bytes_mapped") == 100
    assert value("list_entries->readdir", "visits") == 4  # with "." and ".."
    assert value("list_entries->readdir", "time") > 0
    assert not any(
        path.name == "write" and "use_d" in str(path) for path in bench.table().callpaths
    )


BUFFERED = r"""
#include <mpi.h>
#include <stdio.h>
#include <string.h>
static char bytes[100000], text[9]; /* a compiler makes fwrite of fputs where it knows the text */
__attribute__((noinline)) static void fill(FILE *stream) {
  for (int i = 0; i < 50; i++) fwrite(bytes, 1, 8, stream), fputs(text, stream);
}
__attribute__((noinline)) static void drain(FILE *stream) {
  char line[16];
  for (int i = 0; i < 50; i++)
    if (fread(line, 1, 8, stream) != 8 || !fgets(line, 9, stream)) return;
}
int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  memset(text, 't', sizeof text - 1);
  FILE *stream = fopen("stream", "w+");
  fputc('x', stream); /* a stream gets its buffer at its first use */
  fill(stream);
  fwrite(bytes, 1, sizeof bytes, stream);
  rewind(stream);
  if (fgetc(stream) != 'x') return 1;
  drain(stream);
  if (!fread(bytes, 1, sizeof bytes, stream)) return 1;
  fclose(stream);
  MPI_Finalize();
  return 0;
}
"""


def test_calls_that_a_buffer_serves_are_counted_and_take_no_time(bench):
    build(bench, BUFFERED, "-g")

    outcome = bench.measure("-n", 1, "--", "./io")

    assert outcome.code == 0, outcome.err

    value = partial(value_of, bench)
    for call in ("fill->fwrite", "fill->fputs", "drain->fread", "drain->fgets"):
        assert (value(call, "visits"), value(call, "time")) == (50, 0), call
    assert value("fill->fputs", "bytes_written") == value("drain->fgets", "bytes_read") == 400
    assert value("fwrite", "time") > 0
    assert value("fread", "time") > 0


PYTHON = """
    import os

    def checkpoint(n):
        for i in range(n):
            with open(f"part{os.getpid()}-{i}", "wb", buffering=0) as file:
                file.write(bytes(1000))

    def restore(n):
        for i in range(n):
            with open(f"part{os.getpid()}-{i}", "rb", buffering=0) as file:
                file.read(600)

    def talk():
        receiver, sender = os.pipe()
        os.write(sender, bytes(10))
        os.read(receiver, 10)

    checkpoint(5)
    restore(5)
    talk()
"""


def is_supported(python: str) -> bool:
    """Whether it is an interpreter whose functions are timed natively."""
    check = "import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 16))"
    return os.path.exists(python) and subprocess.call([python, "-c", check]) == 0


@pytest.mark.parametrize("python", [sys.executable, "/usr/bin/python3"])
def test_a_python_program_is_counted_in_the_function_that_calls(bench, python):
    """Debian's Python is linked to its addresses."""
    if not is_supported(python):
        pytest.skip(f"{python} is not one of Python 3.11 to 3.15")

    outcome = bench.measure("-n", 2, "--", python, bench.script(PYTHON))

    assert outcome.code == 0, outcome.err
    assert bench.values("app.py->checkpoint->open", "files_opened") == [5, 5]
    assert bench.values("app.py->checkpoint->write", "bytes_written") == [5000, 5000]
    assert bench.values("app.py->restore->read", "bytes_read") == [3000, 3000]
    assert not any("talk->" in str(path) for path in bench.table().callpaths)


def test_files_off_counts_no_file(bench):
    outcome = bench.measure("-n", 1, "--files", "off", "--", bench.script(PYTHON))

    assert outcome.code == 0, outcome.err
    assert "bytes_written" not in bench.table().values
    assert not any(path.name == "open" for path in bench.table().callpaths)


HOSTILE = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
static int file;
static sigjmp_buf back;
static volatile sig_atomic_t ticks;
static void on_alarm(int signal) { (void)signal; }
static void on_jump(int signal) { siglongjmp(back, signal); }
static void on_tick(int signal) {
  int saved = errno;
  ticks += write(file, "t", 1) == 1;
  errno = saved;
  (void)signal;
}
static void *write_until_cancelled(void *unused) {
  for (;;)
    if (write(file, "c", 1) != 1) abort();
  return unused;
}
static void errors(void) {
  char byte;
  errno = 77;
  int kept = write(file, "x", 1) == 1 && errno == 77;
  int closed = read(1000, &byte, 1), why = errno;
  printf("errno kept %d, closed %d %s", kept, closed, strerror(why));
  int missing = open("no/such/file", O_RDONLY);
  why = errno;
  printf(", missing %d %s", missing, strerror(why));
  int writing = open("only", O_WRONLY | O_CREAT | O_CLOEXEC, 0640);
  int refused = read(writing, &byte, 1);
  why = errno;
  int is_cloexec = fcntl(writing, F_GETFD) & FD_CLOEXEC;
  printf(", refused %d %s, cloexec %d\n", refused, strerror(why), is_cloexec);
}
static void interrupted(void) {
  int ends[2];
  char byte;
  struct sigaction action = {.sa_handler = on_alarm};
  sigaction(SIGALRM, &action, NULL);
  if (pipe(ends)) abort();
  struct itimerval soon = {.it_value.tv_usec = 20000};
  setitimer(ITIMER_REAL, &soon, NULL);
  int got = (int)read(ends[0], &byte, 1), why = errno;
  printf("interrupted %d %s", got, strerror(why));
  action.sa_handler = on_jump;
  sigaction(SIGALRM, &action, NULL);
  setitimer(ITIMER_REAL, &soon, NULL);
  if (!sigsetjmp(back, 1)) got = (int)read(ends[0], &byte, 1);
  else printf(", left by longjmp");
  puts("");
}
static void handled(void) {
  struct sigaction action = {.sa_handler = on_tick, .sa_flags = SA_RESTART};
  sigaction(SIGALRM, &action, NULL);
  struct itimerval often = {{0, 100}, {0, 100}}, never = {{0, 0}, {0, 0}};
  setitimer(ITIMER_REAL, &often, NULL);
  for (int i = 0; i < 300000 && ticks < 500; i++)
    if (write(file, "w", 1) != 1) abort();
  setitimer(ITIMER_REAL, &never, NULL);
  printf("handlers wrote: %d\n", ticks > 0);
}
static void cancelled(void) {
  pthread_t thread;
  void *result;
  pthread_create(&thread, NULL, write_until_cancelled, NULL);
  usleep(10000);
  pthread_cancel(thread);
  pthread_join(thread, &result);
  printf("cancelled %d\n", result == PTHREAD_CANCELED);
}
static void children(void) {
  int status, pair[2];
  fflush(stdout);
  pid_t child = fork();
  if (!child) _exit(write(file, "child", 5) == 5 ? 3 : 4);
  waitpid(child, &status, 0);
  printf("fork %d", WEXITSTATUS(status));
  child = vfork();
  if (!child) {
    if (write(file, "vfork", 5) != 5 || close(file)) _exit(4);
    execl("/bin/true", "true", (char *)0);
    _exit(5);
  }
  waitpid(child, &status, 0);
  printf(", vfork %d, still open %d", WEXITSTATUS(status), write(file, "y", 1) == 1);
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) || write(pair[0], "z", 1) != 1) abort();
  char byte;
  printf(", socket %d\n", (int)read(pair[1], &byte, 1));
}
int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  file = open("out", O_CREAT | O_WRONLY | O_APPEND, 0600);
  errors();
  interrupted();
  handled();
  cancelled();
  children();
  MPI_Finalize();
  return 0;
}
"""


def test_errors_signals_cancellation_and_children_are_as_without_measurement(bench):
    build(bench, HOSTILE, "-w", "-pthread")
    plain = bench.measure("-n", 1, "--heap", "off", "--files", "off", "--", "./io")

    outcome = bench.measure("-n", 1, "--", "./io")

    assert (plain.code, outcome.code) == (0, 0), outcome.err
    assert outcome.out == plain.out
    assert outcome.out.splitlines() == [
        "errno kept 1, closed -1 Bad file descriptor, missing -1 No such file or directory,"
        " refused -1 Bad file descriptor, cloexec 1",
        "interrupted -1 Interrupted system call, left by longjmp",
        "handlers wrote: 1",
        "cancelled 1",
        "fork 3, vfork 0, still open 1, socket 1",
    ]


KINDS = """
    import os
    import tempfile
    from mpi4py import MPI

    def read_input():
        with open("input.txt") as file:
            file.read()

    def checkpoint(rank):
        for step in range(3):
            with open(f"rank{rank}.{step}", "w") as file:
                file.write("state")
            with open(f"rank{rank}.{step}") as file:
                file.read()

    def make_temporary(rank):
        tempfile.gettempdir()  # makes a file to try the folder
        tempfile.TemporaryFile(dir="/var/tmp").close()
        open(os.environ["TMPDIR"] + f"/part{rank}", "x").close()

    def log(rank):
        if rank < 2:
            with open("log", "a") as file:
                file.write("line")

    rank = MPI.COMM_WORLD.rank
    read_input()
    checkpoint(rank)
    make_temporary(rank)
    MPI.COMM_WORLD.Barrier()
    log(rank)
"""


def test_files_are_shared_by_all_ranks_or_of_one_rank(each_mpi, monkeypatch):
    (each_mpi.folder / "input.txt").write_text("all")
    (each_mpi.folder / "scratch").mkdir()
    monkeypatch.setenv("TMPDIR", f"{each_mpi.folder}/scratch/")
    program = each_mpi.script(KINDS)

    outcome = each_mpi.measure("-n", 3, "--", program)

    assert outcome.code == 0, outcome.err

    def values(path: str, metric: str) -> list[float]:
        return [float(value) for value in each_mpi.values(f"app.py->{path}", metric)]

    assert values("read_input->open", "files_shared") == [1, 1, 1]
    assert values("read_input->open", "files_own") == [0, 0, 0]
    assert values("checkpoint->open", "files_opened") == [6, 6, 6]
    assert values("checkpoint->open", "files_own") == [3, 3, 3]
    assert values("checkpoint->open", "files_shared") == [0, 0, 0]
    for function in ("gettempdir", "TemporaryFile"):  # on a disk of the node: no server is asked
        opening = f"make_temporary->tempfile.{function}->open"
        assert values(opening, "files_opened") == [1, 1, 1]
        assert values(opening, "files_own") == [0, 0, 0]
    assert values("make_temporary->open", "files_opened") == [1, 1, 1]
    assert values("make_temporary->open", "files_own") == [0, 0, 0]
    assert values("log->open", "files_own")[:2] == [0, 0]
    assert values("log->open", "files_shared")[:2] == [0, 0]
