"""MPI calls of unchanged, stripped programs have their exact call paths."""

import subprocess

import pytest

from tests.support.parameters import plain_and_full
from tests.system.conftest import BINARIES, HERE

pytestmark = [pytest.mark.mpi, pytest.mark.native]

PROGRAMS = HERE / "tests" / "system" / "programs"
FRAMES = {
    "main->barrier": 1,
    "main->variable->barrier": 1,
    "main->aligned->barrier": 1,
    "main->deep->barrier": 1,
    "main->even->barrier": 5,  # its recursion through `odd` is folded
    "main->sort->compare->barrier": 1,
    "main->jumps->jump->barrier": 1,
    "main->jumps->barrier": 1,
    "main->no_return->barrier": 1,
}
STACKS = {
    "coroutine->barrier": 2,
    "main->signals->handle->barrier": 1,
    "main->threads->(thread)->work->barrier": 3,
    "main->plugins->first->inner->barrier": 10,
    "main->plugins->second->inner->barrier": 10,
}


def make(bench, *words, compiler="", tool="mpicc"):
    """Compile with the compiler wrapper of the bench's MPI."""
    wrapper = BINARIES[bench.mpi] / tool
    environment = dict(bench.environment)
    if compiler:
        environment |= {"MPICH_CC": compiler, "OMPI_CC": compiler}
    rpath = f"-Wl,-rpath,{wrapper.parent.parent / 'lib'}" if bench.mpi == "openmpi" else ""
    command = [str(wrapper), "-w", *map(str, words), *filter(None, [rpath])]
    done = subprocess.run(
        command, cwd=bench.folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def make_plugins(bench):
    for name, size in (("first", 100), ("second", 3000)):
        defined = (f"-DPLUGIN={name}", f"-DPLUGIN_BYTES={size}")
        make(bench, "-O2", "-shared", "-fPIC", *defined, PROGRAMS / "paths.c", "-o", f"{name}.so")


def barriers(bench):
    """Visits of MPI_Barrier in the last run, by call path without the program."""
    table = bench.table()
    counts = {}
    for row, path in enumerate(table.callpaths):
        _, _, rest = str(path).partition("->")
        if path.name == "MPI_Barrier":
            counts[rest.removesuffix("MPI_Barrier").removesuffix("->")] = int(
                table.values["visits"][row][0]
            )
    return counts


@plain_and_full(
    ("compiler", "flags"),
    [
        ("gcc", ("-O2",)),
        ("gcc", ("-O3", "-no-pie", "-fno-pie", "-fno-omit-frame-pointer")),
        ("clang", ("-O3",)),
        # Gaps between the segments, as also the linkers of older systems leave them.
        ("clang", ("-O2", "-no-pie", "-fno-pie", "-Wl,-z,max-page-size=0x200000,-z,separate-code")),
    ],
)
def test_call_paths_lead_through_every_kind_of_frame_and_stack(each_mpi, compiler, flags):
    make(each_mpi, *flags, PROGRAMS / "paths.c", "-o", "paths", "-ldl", compiler=compiler)
    make_plugins(each_mpi)

    outcome = each_mpi.measure("-n", 1, "--", "./paths", "stacks")

    assert outcome.code == 0, outcome.err
    assert "stacks-unread" not in outcome.err
    assert barriers(each_mpi) == FRAMES | STACKS


@pytest.mark.full
def test_paths_and_counts_are_those_of_an_instrumented_build(bench):
    make(bench, "-O2", PROGRAMS / "paths.c", "-o", "paths", "-ldl")
    assert bench.measure("-n", 2, "--", "./paths").code == 0
    unchanged = barriers(bench)

    make(bench, "-O2", "-finstrument-functions", PROGRAMS / "paths.c", "-o", "paths", "-ldl")
    assert bench.measure("-n", 2, "--", "./paths").code == 0

    assert unchanged == barriers(bench) == FRAMES


def test_functions_of_a_stripped_program_are_addresses_below_main(bench):
    make(bench, "-O2", "-s", PROGRAMS / "paths.c", "-o", "paths", "-ldl")

    runs = []
    for _ in range(2):
        assert bench.measure("-n", 1, "--", "./paths").code == 0
        runs.append(barriers(bench))

    assert runs[0] == runs[1]
    assert sorted(runs[0].values()) == sorted(FRAMES.values())
    for path in runs[0]:
        head, *functions = path.split("->")
        assert head == "main"
        assert all(name.startswith("paths+0x") for name in functions), path


@pytest.mark.full
def test_threads_that_load_plugins_at_the_same_time_neither_block_nor_mix_them_up(bench):
    make(bench, "-O2", PROGRAMS / "paths.c", "-o", "paths", "-ldl")
    make_plugins(bench)

    outcome = bench.measure("-n", 1, "--", "./paths", "threads", 250)

    assert outcome.code == 0, outcome.err
    assert barriers(bench) == {
        "main->(thread)->load->plugins->first->inner->barrier": 500,
        "main->(thread)->load->plugins->second->inner->barrier": 500,
        "main->no_return->barrier": 1,
    }


def test_a_function_without_unwind_table_is_reported_and_its_calls_count_for_the_program(bench):
    make(bench, "-O2", "-fno-asynchronous-unwind-tables", PROGRAMS / "paths.c", "-o", "paths")

    outcome = bench.measure("-n", 1, "--", "./paths")

    assert outcome.code == 0, outcome.err
    assert barriers(bench) == {"": sum(FRAMES.values())}
    texts = {finding.code: finding.text for finding in bench.records()[0].findings}
    assert texts["stacks-unread"].startswith("the callers of 15 MPI calls are unknown")


CONSTRUCTOR = r"""
#include <mpi.h>

__attribute__((constructor)) static void early(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Barrier(MPI_COMM_WORLD);
}
int main(void) {
  MPI_Barrier(MPI_COMM_WORLD);
  return MPI_Finalize();
}
"""


def test_calls_of_constructors_stand_below_the_program(each_mpi):
    (each_mpi.folder / "early.c").write_text(CONSTRUCTOR)
    make(each_mpi, "-O2", "-g", "early.c", "-o", "early")

    outcome = each_mpi.measure("-n", 2, "--", "./early")

    assert outcome.code == 0, outcome.err
    assert barriers(each_mpi) == {"early": 1, "main": 1}


THREADS = r"""
#include <mpi.h>
#include <pthread.h>
#include <thread>
#define KEPT __attribute__((noinline))

KEPT void barrier() { MPI_Barrier(MPI_COMM_SELF); }
KEPT void work(int n) { for (int i = 0; i < n; i++) barrier(); }
KEPT void *generation(void *left) {
  barrier();
  if (!left) return nullptr;
  pthread_t next;
  pthread_create(&next, nullptr, generation, (void *)((long)left - 1));
  pthread_join(next, nullptr);
  return nullptr;
}
KEPT void posix() {
  for (int i = 0; i < 5; i++) {
    pthread_t thread;
    pthread_create(&thread, nullptr, [](void *) -> void * { work(2); return nullptr; }, nullptr);
    pthread_join(thread, nullptr);
  }
}
KEPT void modern() {
  std::thread by_pointer(work, 3), by_lambda([] { work(4); });
  by_pointer.join();
  by_lambda.join();
}
int main(int argc, char **argv) {
  int level;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  posix();
  modern();
  work(1);
  generation((void *)50);
  MPI_Finalize();
}
"""


@plain_and_full("sample", ["97", "off"])
def test_threads_stand_below_the_function_that_created_them(each_mpi, sample):
    each_mpi.script(THREADS, "app.cpp")
    make(each_mpi, "-O1", "-pthread", "app.cpp", "-o", "app", tool="mpicxx")

    outcome = each_mpi.measure("-n", 1, "--sample", sample, "--", "./app")

    assert outcome.code == 0, outcome.err
    assert barriers(each_mpi) == {
        "main->posix->(thread)->posix::{lambda(void*)#1}->work->barrier": 10,
        "main->modern->(thread)->work->barrier": 3,
        "main->modern->(thread)->modern::{lambda()#1}->work->barrier": 4,
        "main->work->barrier": 1,
        "main->generation->barrier": 1,
        # Each thread creates the next one; those behind the second stand beside it.
        "main->generation->(thread)->generation->barrier": 50,
    }


MAIN_LEAVES = r"""
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
__attribute__((noinline)) static void barrier(void) { MPI_Barrier(MPI_COMM_SELF); }
static void *rest(void *unused) {
  char state[64] = "";
  while (state[0] != 'Z') { /* until the main thread has ended: its folder in /proc says little */
    usleep(1000);
    FILE *file = fopen("/proc/self/stat", "r");
    if (fscanf(file, "%*d (%*[^)]) %63s", state) != 1) return NULL;
    fclose(file);
  }
  for (int i = 0; i < 7; i++) barrier();
  MPI_Finalize();
  return unused;
}
int main(int argc, char **argv) {
  int level;
  pthread_t thread;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  pthread_create(&thread, NULL, rest, NULL);
  pthread_exit(NULL);
}
"""


@pytest.mark.full
def test_functions_have_names_and_memory_is_known_after_the_main_thread_has_ended(bench):
    bench.script(MAIN_LEAVES, "app.c")
    make(bench, "-O1", "-pthread", "app.c", "-o", "app")

    outcome = bench.measure("-n", 1, "--", "./app")

    assert outcome.code == 0, outcome.err
    assert barriers(bench) == {"main->(thread)->rest->barrier": 7}
    assert bench.values("app", "memory_rss")[0] > 0


CPP = r"""
#include <algorithm>
#include <functional>
#include <memory>
#include <mpi.h>
#include <stdexcept>
#include <thread>
#include <vector>
#define KEPT __attribute__((noinline))
namespace heat {
struct Grid {
  virtual ~Grid() = default;
  virtual double sum(double value) = 0;
};
struct Plate : Grid {
  double sum(double value) override {
    double total;
    MPI_Allreduce(&value, &total, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return total + 1;
  }
};
template <class F> KEPT double apply(F function) { return function(1.0) + 1; }
KEPT double fail(Grid &grid) { grid.sum(1); throw std::runtime_error("expected"); }
}
extern "C" void relax(void);
static volatile int sink;
extern "C" KEPT void exchange(void) { MPI_Barrier(MPI_COMM_WORLD), sink++; }
int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  std::unique_ptr<heat::Grid> grid(argc > 5 ? nullptr : new heat::Plate);
  std::function<double(double)> function = [&](double value) { return grid->sum(value) + 1; };
  heat::apply(function);
  try { heat::fail(*grid); } catch (const std::exception &) { grid->sum(2); }
  std::thread([&] { grid->sum(3); }).join();
  relax();
  MPI_Finalize();
}
"""
FORTRAN = """
module plate
  interface
    subroutine exchange() bind(c)
    end subroutine
  end interface
contains
  subroutine relax(times)
    integer :: times
    call exchange()
    times = times + 1
  end subroutine
end module
subroutine relax_all() bind(c, name="relax")
  use plate
  integer :: times
  call relax(times)
  if (times == 0) print *, times
end subroutine
"""


def test_functions_of_cpp_and_fortran_have_their_names(bench):
    bench.script(CPP, "app.cpp")
    bench.script(FORTRAN, "plate.f90")
    for command in (
        ["gfortran", "-O1", "-fno-inline", "-c", "plate.f90"],
        [
            str(BINARIES[bench.mpi] / "mpicxx"),
            "-O2",
            "app.cpp",
            "plate.o",
            "-lgfortran",
            "-o",
            "app",
        ],
    ):
        done = subprocess.run(command, cwd=bench.folder, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()

    outcome = bench.measure("-n", 2, "--", "./app")

    assert outcome.code == 0, outcome.err
    table = bench.table()
    visits = {}
    for i, path in enumerate(table.callpaths):
        if path.name in ("MPI_Allreduce", "MPI_Barrier"):
            # gcc before 14 counts all lambdas of a function, gcc 14 those of one signature.
            name = str(path).partition("->")[2].replace("{lambda()#2}", "{lambda()#1}")
            visits[name] = int(table.values["visits"][i][0])
    assert visits == {
        "main->heat::apply<std::function<double (double)>>->main::{lambda(double)#1}"
        "->MPI_Allreduce": 1,
        "main->heat::fail->heat::Plate::sum->MPI_Allreduce": 1,
        "main->heat::Plate::sum->MPI_Allreduce": 1,
        "main->(thread)->main::{lambda()#1}->MPI_Allreduce": 1,
        "main->relax->plate::relax->exchange->MPI_Barrier": 1,
    }
