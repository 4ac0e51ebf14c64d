"""Functions of compiled programs that were built with -finstrument-functions."""

import shutil
import subprocess

import pytest

from tests.support.attempts import repeat_if_disturbed
from tests.system.conftest import BINARIES

pytestmark = [pytest.mark.mpi, pytest.mark.native]

INSTRUMENT = "-finstrument-functions"
C = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <mpi.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
#define KEPT __attribute__((noinline))
static jmp_buf back;
static void *blocks[1000];
static void (*volatile drop_block)(void *) = free; // or the compiler leaves such pairs out
KEPT static void leap(void) { longjmp(back, 1); }
KEPT static void leave(void) { leap(); }
KEPT static void arrive(void) { MPI_Barrier(MPI_COMM_WORLD); }
KEPT static int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
KEPT static void keep(int n) { for (int i = 0; i < n; i++) blocks[i] = malloc(100); }
KEPT static void turn(int n) { for (int i = 0; i < n; i++) blocks[i] = realloc(blocks[i], 1000); }
KEPT static void drop(int n) { for (int i = 0; i < n; i++) free(blocks[i]); }
KEPT static void odd(void) {
  void *block = NULL;
  if (posix_memalign(&block, 64, 640)) abort();
  drop_block(block), drop_block(aligned_alloc(64, 640)), drop_block(memalign(64, 640));
  drop_block(valloc(640)), drop_block(pvalloc(640)), drop_block(calloc(8, 80));
  drop_block(reallocarray(NULL, 8, 80));
  if (realloc(malloc(10), (size_t)-1 / 2)) abort();
}
KEPT static void handle(int number) { (void)number; }
static void *work(void *argument) { return fib(5), argument; }
int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  for (int i = 0; i < 5; i++) {
    if (!setjmp(back)) leave();
    arrive();
  }
  fib(15), keep(1000), turn(1000), drop(1000), odd();
  size_t least = sysconf(_SC_MINSIGSTKSZ) + 6144; // what the kernel needs, and what a new row needs
  stack_t small = {.ss_sp = malloc(least), .ss_size = least};
  sigaltstack(&small, NULL);
  struct sigaction action = {.sa_handler = handle, .sa_flags = SA_ONSTACK};
  sigaction(SIGUSR1, &action, NULL), raise(SIGUSR1), raise(SIGUSR1);
  pthread_t thread;
  pthread_create(&thread, NULL, work, NULL), pthread_join(thread, NULL);
  void *plugin = dlopen("./libplugin.so", RTLD_NOW);
  if (!plugin) return 3;
  ((void (*)(int))dlsym(plugin, "plug"))(MPI_Comm_c2f(MPI_COMM_WORLD));
  MPI_Finalize();
  return 0;
}
"""
CPP = r"""
#include <mpi.h>
#include <stdexcept>
#include <vector>
namespace heat {
struct Grid {
  std::vector<double> cells;
  __attribute__((noinline)) explicit Grid(int n) : cells(n) {}
  __attribute__((noinline)) void sum(int i) {
    double total;
    MPI_Allreduce(cells.data(), &total, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    if (i % 2) throw std::runtime_error("odd");
  }
};
}
extern "C" void fortran(int *n);
extern "C" void plug(int) {
  heat::Grid grid(1000);
  for (int i = 0; i < 10; i++) try { grid.sum(i); } catch (const std::exception &) {}
  int n = 7;
  fortran(&n);
}
"""
FORTRAN = """
module plate
contains
  subroutine relax(n, cells)
    integer, intent(in) :: n
    real(8), allocatable, intent(out) :: cells(:)
    allocate(cells(n * 1000))
    cells = 1
  end subroutine
end module
subroutine fortran(n) bind(c)
  use plate
  integer, intent(in) :: n
  real(8), allocatable :: cells(:)
  integer :: i
  do i = 1, n
    call relax(n, cells)
  end do
end subroutine
"""


@pytest.fixture
def solver(each_mpi):
    """A C program that loads a library in C++ and Fortran, with the symbols in the files only."""
    if not shutil.which("gfortran"):
        pytest.skip("no gfortran: apt install gfortran")
    wrappers = BINARIES[each_mpi.mpi]
    rpath = f"-Wl,-rpath,{wrappers.parent / 'lib'}"

    def make(*words):
        subprocess.run(words, check=True, cwd=each_mpi.folder, env=each_mpi.environment)

    for name, text in (("solver.c", C), ("plugin.cpp", CPP), ("plate.f90", FORTRAN)):
        each_mpi.script(text, name)
    flags = ("-O1", "-w", INSTRUMENT)
    make(wrappers / "mpicc", "solver.c", *flags, "-o", "solver", rpath, "-pthread", "-ldl")
    make("gfortran", *flags, "-fPIC", "-c", "plate.f90")
    exclude = f"{INSTRUMENT}-exclude-file-list=include/c++"
    plugin = ("-shared", "-fPIC", "plugin.cpp", "plate.o", "-o", "libplugin.so", "-lgfortran")
    make(wrappers / "mpicxx", *flags, exclude, *plugin, rpath)
    return each_mpi


def test_functions_have_their_names_and_what_they_do_in_closed_form(solver):
    outcome = solver.measure("-n", 2, "--", "./solver")

    assert outcome.code == 0, outcome.err
    check_visits(solver)
    check_heap(solver)


def check_visits(solver):
    assert {
        path: solver.values(f"solver->main->{path}", "visits")[0]
        for path in (
            *("leave", "leave->leap", "arrive", "arrive->MPI_Barrier", "fib", "keep", "handle"),
            *("plug->heat::Grid::Grid", "plug->heat::Grid::sum"),
            *("plug->heat::Grid::sum->MPI_Allreduce", "plug->fortran->plate::relax"),
        )
    } == {
        **{"leave": 5, "leave->leap": 5, "arrive": 5, "arrive->MPI_Barrier": 5, "fib": 1973},
        **{"keep": 1, "handle": 2, "plug->heat::Grid::Grid": 1},
        **{"plug->heat::Grid::sum": 10, "plug->heat::Grid::sum->MPI_Allreduce": 10},
        "plug->fortran->plate::relax": 7,
    }
    assert solver.values("solver->main->(thread)->work->fib", "visits") == [15, 15]
    known = {str(path) for path in solver.table().callpaths}
    assert not [path for path in known if "0x" in path]
    assert not [path for path in known if path.startswith("solver->main->leave->leap->")]


def check_heap(solver):
    """Blocks of 100 bytes are 104 on 64-bit glibc, those of 1000 are 1000; 640 aligned to 64 stay
    640 to 664."""

    def heap(function):
        names = ("allocations", "bytes_allocated", "heap_growth")
        return tuple(solver.values(f"solver->main->{function}", name)[1] for name in names)

    assert heap("keep")[0] == 1000
    assert 104_000 <= heap("keep")[1] == heap("keep")[2] <= 104_500
    count, allocated, growth = heap("turn")
    assert (count, growth) == (1000, allocated - heap("keep")[1])
    assert 1_000_000 <= allocated <= 1_020_000
    assert heap("drop") == (0, 0, -allocated)
    count, _, growth = heap("odd")
    assert (count, growth) in ((8, 24), (8, 40))  # the block that could not grow is still there
    assert heap("plug->heat::Grid::Grid")[:2] == (1, 8008)
    assert heap("plug->fortran->plate::relax")[:2] == (7, 7 * 56_008)


TINY = r"""
#include <mpi.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>
#define BARE __attribute__((no_instrument_function))
void __cyg_profile_func_enter(void *, void *), __cyg_profile_func_exit(void *, void *);
static ucontext_t home, lower, upper;
__attribute__((noinline)) static void above(void) { swapcontext(&upper, &lower); }
BARE static void run_upper(void) { above(); }
BARE static void run_lower(void) { // a function whose place of return is nowhere on its stack
  __cyg_profile_func_enter((void *)run_lower, (void *)0x1234567);
  __cyg_profile_func_exit((void *)run_lower, (void *)0x1234567);
  swapcontext(&lower, &upper);
}
/* Two stacks with a page between them that nobody may read. */
BARE static void switch_stacks(void) {
  size_t n = 1 << 16;
  char *room = mmap(NULL, 3 * n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  mprotect(room + n, n, PROT_NONE);
  getcontext(&lower), getcontext(&upper);
  lower.uc_stack.ss_sp = room, upper.uc_stack.ss_sp = room + 2 * n;
  lower.uc_stack.ss_size = upper.uc_stack.ss_size = n, upper.uc_link = &home;
  makecontext(&lower, run_lower, 0), makecontext(&upper, run_upper, 0);
  swapcontext(&home, &upper);
}
__attribute__((noinline)) static int tiny(int n) { return n + 1; }
__attribute__((noinline)) static int work(int n) {
  volatile int sum = n;
  for (int i = 0; i < 10000; i++) sum = tiny(sum);
  return sum;
}
__attribute__((no_instrument_function)) static double now(void) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  return at.tv_sec + at.tv_nsec * 1e-9;
}
int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  switch_stacks();
  double until = now() + 0.8;
  int turns = 0;
  int most = argc > 1 ? atoi(argv[1]) : 1 << 30;
  while (turns < most && now() < until) work(turns++);
  MPI_Send(&turns, turns, MPI_CHAR, MPI_PROC_NULL, 0, MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
"""


def test_what_is_called_too_often_becomes_part_of_its_caller_and_the_main_loop_is_found(bench):
    bench.script(TINY, "busy.c")
    compiler = str(BINARIES["mpich"] / "mpicc")
    words = [compiler, "-O1", "-w", INSTRUMENT, "busy.c", "-o", "busy"]
    subprocess.run(words, check=True, cwd=bench.folder)

    def measure() -> None:
        outcome = bench.measure("-n", 1, "--", "./busy")
        assert outcome.code == 0, outcome.err

    def check() -> None:
        (finding,) = (f for f in bench.records()[-1].findings if f.code == "throttled")
        assert "tiny (" in finding.text
        assert "busy->main->work->tiny" not in {str(path) for path in bench.table().callpaths}
        assert bench.values("busy->main->work", "visits")[0] > 100
        assert bench.values("busy->main->MPI_Send", "visits") == [1]
        (iteration,) = bench.values("busy->main->work", "iteration_time")  # it is the main loop's
        assert 0 < iteration * 32 < bench.values("busy->main", "time")[0]  # half of a sample of 64
        assert bench.values("busy->main->work", "iteration_variation")[0] > 0

    repeat_if_disturbed(measure, check)

    # A later run makes too few calls to throttle the function, and has the same call paths.
    outcome = bench.measure("-n", 1, "--param", "turns=3", "--", "./busy", "3")

    assert outcome.code == 0, outcome.err
    paths = {str(path) for path in bench.table().callpaths}
    assert "busy->main->work" in paths
    assert "busy->main->work->tiny" not in paths
    assert bench.values("busy->main->work", "visits") == [3]

    # Without a limit all functions are timed.
    outcome = bench.measure("-n", 1, "--budget", "off", "--param", "turns=2", "--", "./busy", "2")

    assert outcome.code == 0, outcome.err
    assert bench.values("busy->main->work->tiny", "visits") == [20000]
