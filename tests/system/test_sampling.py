"""Functions of unchanged programs are sampled, and nothing in the program notices."""

import math
import os
import platform
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from insitu.campaign.selection import has_precise_samples
from insitu.workflows.doctor import task_clock
from tests.support.attempts import repeat_if_disturbed
from tests.system.conftest import HERE
from tests.system.test_call_paths import make

pytestmark = [pytest.mark.mpi, pytest.mark.native]

SOURCE = HERE / "tests" / "system" / "programs" / "sampled.c"
HZ = 97


def times(bench):
    """Time of each function in the last run, by call path without the program."""
    table = bench.table()
    return {
        str(path).partition("->")[2]: float(table.values["time"][row][0])
        for row, path in enumerate(table.callpaths)
    }


NO_SAMPLES_BESIDE_TIMERS = "functions were not sampled: the program has timers that send signals"


def findings(bench):
    return {finding.code: finding.text for finding in bench.records()[-1].findings}


@contextmanager
def shared_core() -> Iterator[None]:
    """All processes of the test, and one that is always busy, have one core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, [max(before)])
    busy = subprocess.Popen(["sh", "-c", "while :; do :; done"])
    try:
        yield
    finally:
        busy.kill()
        busy.wait()
        os.sched_setaffinity(0, before)


@pytest.mark.parametrize(
    ("each_mpi", "compiler"),
    [
        ("mpich", "gcc"),
        pytest.param("mpich", "clang", marks=pytest.mark.full),
        pytest.param("openmpi", "gcc", marks=pytest.mark.full),
        pytest.param("openmpi", "clang", marks=pytest.mark.full),
    ],
    indirect=["each_mpi"],
)
def test_the_program_sees_what_it_sees_without_samples(each_mpi, compiler):
    make(each_mpi, "-O2", SOURCE, "-o", "app", "-lpthread", compiler=compiler)
    bare = each_mpi.execute([*each_mpi.mpiexec, "-n", "1", "./app", "200"])

    outcome = each_mpi.measure("-n", 1, "--", "./app", "200")

    assert bare.code == outcome.code == 0, outcome.err
    assert "interrupted: 0" in bare.out
    assert outcome.out == bare.out
    assert not findings(each_mpi)
    sampled = times(each_mpi)
    # 20 threads of 20 ms: each loses what follows its last expired period, and periods expire late
    # on a busy machine, where a thread runs for less than a tick of the kernel at a time.
    assert 0.08 < sampled["main->start_threads->(thread)->in_thread->burn"] < 0.6
    assert sampled["coroutine->burn->work"] > 0.05

    # On a shared core, its threads have the task clock, where the kernel permits it.
    with shared_core():
        outcome = each_mpi.measure("-n", 1, "--", "./app", "200")

    assert outcome.code == 0, outcome.err
    assert outcome.out == bare.out
    assert not findings(each_mpi)
    assert times(each_mpi)["coroutine->burn->work"] > 0.05


HANDLER_MASK = r"""
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>

int main(int argc, char **argv) {
  struct { void *handler; unsigned long flags; void *restorer; uint64_t mask; } action = {0};
  MPI_Init(&argc, &argv);
  register long bytes __asm__("r10") = sizeof action.mask;
  long failed; /* not by the C library: insitu shows programs the action that they would have */
  __asm__ volatile("syscall" : "=a"(failed) : "a"(SYS_rt_sigaction), "D"(23), "S"(NULL),
                   "d"(&action), "r"(bytes) : "rcx", "r11", "memory");
  printf("%ld %d %d\n", failed, action.handler != NULL, (int)(action.mask >> 31 & 1));
  return MPI_Finalize();
}
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the program asks as x86-64 does")
def test_threads_are_not_cancelled_inside_of_the_handler(bench):
    """A descriptor of the task clock stayed open in 1 of about 100 runs of `interrupted: cancel`.

    The C library cancels threads by signal 32, which its sigfillset leaves out.
    """
    (bench.folder / "mask.c").write_text(HANDLER_MASK)
    make(bench, "-O2", "mask.c", "-o", "app")

    outcome = bench.measure("-n", 1, "--", "./app")

    assert (outcome.code, outcome.out) == (0, "0 1 1\n"), outcome.err


TURNS = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static volatile double sink;
static double cpu_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
static void add(long terms) {
  double total = sink;
  for (long i = 0; i < terms; i++) total += 1.0 / ((double)i + 1.0 + 1e-9 * total);
  sink = total;
}
__attribute__((noinline)) void take_long(void) { add(620000); }
__attribute__((noinline)) void take_short(void) { add(62000); }
int main(int argc, char **argv) {
  double both[2] = {0, 0};
  MPI_Init(&argc, &argv);
  for (int step = 0; step < atoi(argv[1]); step++) {
    double begin = cpu_s();
    take_long();
    double between = cpu_s();
    take_short();
    both[0] += between - begin;
    both[1] += cpu_s() - between;
    MPI_Barrier(MPI_COMM_WORLD);
  }
  printf("%f %f\n", both[0], both[1]);
  return MPI_Finalize();
}
"""


def test_samples_on_a_shared_core_are_in_the_function_that_takes_the_time(bench):
    permission = task_clock()
    if permission.state != "ok":
        pytest.skip(f"no task clock: {permission.found}; {permission.advice}")
    (bench.folder / "turns.c").write_text(TURNS)
    make(bench, "-O2", "turns.c", "-o", "app")

    outcomes = []

    def measure():
        outcomes.append(bench.measure("-n", 2, "--", "./app", 75))
        assert outcomes[-1].code == 0, outcomes[-1].err

    def check():
        """A thread that its neighbour does not preempt has no task clock, and the run is marked."""
        run = bench.records()[-1]
        assert has_precise_samples(run), run.configuration.get("cost")

    with shared_core():
        repeat_if_disturbed(measure, check)

    long, short = map(float, outcomes[-1].out.splitlines()[0].split())
    sampled = times(bench)
    assert sampled["main->take_long"] > long / 2
    assert sampled.get("main->take_short", 0.0) < (long + short) / 4


def test_a_program_that_handles_our_signal_gets_it(bench):
    make(bench, "-O2", SOURCE, "-o", "app", "-lpthread")
    bare = bench.execute([*bench.mpiexec, "-n", "1", "./app", "signal"])

    outcome = bench.measure("-n", 1, "--", "./app", "signal")

    assert outcome.out == bare.out
    assert "urgent: 1" in outcome.out
    assert findings(bench) == {
        "sampling-refused": "functions were not sampled: the program uses SIGURG"
    }


def test_a_program_that_handles_our_signal_and_gets_none_is_sampled(bench):
    """PETSc handles each signal that would be an error."""
    make(bench, "-O2", SOURCE, "-o", "app", "-lpthread")
    bare = bench.execute([*bench.mpiexec, "-n", "1", "./app", "taken"])

    outcome = bench.measure("-n", 1, "--", "./app", "taken")

    assert outcome.out == bare.out
    assert findings(bench) == {}
    assert 0.25 < times(bench)["main->take_signal"] < 0.65  # it burns 0.4 s


def test_a_program_that_ignores_our_signal_is_sampled_and_not_interrupted(bench):
    make(bench, "-O2", SOURCE, "-o", "app", "-lpthread")

    outcome = bench.measure("-n", 1, "--", "./app", "ignored")

    assert "read: 1" in outcome.out
    assert findings(bench) == {}
    assert 0.15 < times(bench)["main->ignore_signal"] < 0.55  # it burns 0.3 s


@pytest.mark.parametrize("how", ["interrupted", "woken"])
def test_a_handler_of_our_signal_is_called_as_without_samples(bench, how):
    make(bench, "-O2", SOURCE, "-o", "app", "-lpthread")
    bare = bench.execute([*bench.mpiexec, "-n", "1", "./app", how])

    outcome = bench.measure("-n", 1, "--", "./app", how)

    assert outcome.out == bare.out
    assert "urgent: 1" in outcome.out
    assert set(findings(bench)) == {"sampling-refused"}


def test_a_program_with_a_timer_of_its_own_gets_its_signals_and_is_not_sampled(bench):
    """Another thread would get those that come together with a sample."""
    make(bench, "-O2", SOURCE, "-o", "app", "-lpthread")

    outcome = bench.measure("-n", 1, "--", "./app", "timer")

    assert outcome.out == "own timer: ticks\n"
    assert findings(bench) == {"sampling-refused": NO_SAMPLES_BESIDE_TIMERS}


@pytest.mark.full
def test_a_program_that_is_built_for_gprof_is_not_sampled(bench):
    """Its timer is set by the C library, without a call that could be seen."""
    make(bench, "-O2", "-pg", SOURCE, "-o", "app", "-lpthread")

    outcome = bench.measure("-n", 1, "--", "./app", "shares", 1)

    assert outcome.code == 0, outcome.err
    assert findings(bench)["sampling-refused"] == NO_SAMPLES_BESIDE_TIMERS


TRACED = """
#include <mpi.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <time.h>
static void burn(double seconds) {
  for (clock_t end = clock() + seconds * CLOCKS_PER_SEC; clock() < end;) continue;
}
int main(int count, char **words) {
  MPI_Init(&count, &words);
  burn(0.3);
  printf("traced: %ld\\n", ptrace(PTRACE_TRACEME, 0, 0, 0));
  burn(0.5);
  MPI_Finalize();
}
"""


@pytest.mark.full
def test_a_program_that_asks_to_be_traced_is_not_sampled_and_ends(bench):
    """It would stop at the signal of each sample, and no launcher continues it."""
    (bench.folder / "traced.c").write_text(TRACED)
    make(bench, "-O2", bench.folder / "traced.c", "-o", "app")

    outcome = bench.run("-n", 1, "--", "./app", seconds=60)

    assert outcome.code == 0, outcome.err
    assert outcome.out == "traced: 0\n"
    assert findings(bench) == {
        "sampling-refused": "functions were not sampled: the program asks to be traced"
    }


def test_shares_are_those_that_the_program_measures_itself(bench):
    make(bench, "-O2", SOURCE, "-o", "app", "-lpthread")

    outcome = bench.measure("-n", 1, "--sample", 197, "--", "./app", "shares", 2)

    truth = {name: float(text) for name, text in map(str.split, outcome.out.splitlines())}
    sampled = times(bench)
    total, seen = sum(truth.values()), sampled["main->show_shares"]
    squares = []
    for name, time in truth.items():
        share = time / total
        error = sampled.get(f"main->show_shares->{name}", 0.0) / seen - share
        squares.append(error**2 / (share * (1 - share) / (seen * 197)))
    assert seen == pytest.approx(total, rel=0.1)
    # If every period expires in time, the sum follows a chi-square distribution with 19 degrees of
    # freedom: below 55 in all but 2 of 100,000 runs. On a busy machine several periods expire at
    # once and count for one function, which multiplies the sum by their number: 4 are 20 ms. With
    # the samples of two functions exchanged it exceeds 500. A few functions below MIN_SAMPLES
    # count for their caller.
    assert sum(squares) < 4 * 55, sorted(map(math.sqrt, squares))


LAZY = r"""
#include <mpi.h>
#include <stdlib.h>
#include <time.h>

__attribute__((noinline)) static void draw(clock_t ticks) {
  for (clock_t end = clock() + ticks; clock() < end;)
    for (int i = 0; i < 1000; i++) srand(rand());
}
int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  draw(2 * CLOCKS_PER_SEC);
  return MPI_Finalize();
}
"""


@pytest.mark.full
def test_the_time_of_lazy_binding_counts_for_the_function_that_binds(bench, monkeypatch):
    (bench.folder / "lazy.c").write_text(LAZY)
    make(bench, "-O2", "-Wl,-z,lazy", "lazy.c", "-o", "app")
    monkeypatch.setenv("LD_BIND_NOT", "1")  # each call looks its function up again

    outcome = bench.measure("-n", 1, "--", "./app")

    assert outcome.code == 0, outcome.err
    assert "samples-unread" not in findings(bench)
    assert 1.0 < times(bench)["main->draw"] < 2.5


@pytest.mark.full
def test_without_samples_only_mpi_calls_are_timed_and_the_hint_says_how(bench):
    make(bench, "-O2", SOURCE, "-o", "app", "-lpthread")

    outcome = bench.run("-n", 1, "--sample", "off", "--", "./app", "shares", 0.5)

    assert "run it with --sample 97 or build it with -finstrument-functions" in outcome.err
    assert not any("f19" in path for path in times(bench))


@pytest.mark.parametrize("rate", ["0", "201", "1.5", "x"])
def test_a_rate_that_no_timer_has_is_refused(bench, rate):
    outcome = bench.run("--sample", rate, "--", "true")

    assert outcome.code == 2
    assert f"'{rate}' is neither off nor between 1 and 200" in outcome.err
