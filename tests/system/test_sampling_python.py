"""What Python programs call in C is sampled, below the function of Python that calls it."""

import re
import subprocess

import pytest

from tests.support.interpreters import find_python, why_missing

pytestmark = [pytest.mark.native]

LIBRARY = """
static volatile double sink;
static void turn(long n) {
  double x = 1;
  for (long i = 0; i < n; i++) x = x * 1.0000001 + 1e-9;
  sink = x;
}
__attribute__((noinline)) void inner(long n) { turn(n); sink++; }
__attribute__((noinline)) void outer(long n) { inner(n); turn(3 * n); }
"""
PROGRAM = """
import ctypes
import signal
import sys
import time

library = ctypes.CDLL(sys.argv[1])
library.outer.argtypes = [ctypes.c_long]

def compute(times):
    for _ in range(times):
        library.outer(2_000_000)

def wait():
    began = time.monotonic()
    time.sleep(0.3)
    return time.monotonic() - began >= 0.3

def main():
    compute(100)
    print("slept", wait(), "handler", signal.getsignal(signal.SIGURG) is signal.SIG_DFL)

main()
"""


@pytest.fixture
def library(bench):
    source, target = bench.folder / "work.c", bench.folder / "libwork.so"
    source.write_text(LIBRARY)
    words = ["cc", "-O1", "-shared", "-fPIC", "-o", target, source]
    subprocess.run(words, check=True)
    return target


def times(bench):
    """Of the last run, by call path without the program."""
    table = bench.table()
    column = table.values["time"]
    return {
        str(path).partition("->")[2]: float(column[row][0])
        for row, path in enumerate(table.callpaths)
        if column[row][0] > 0
    }


@pytest.mark.parametrize(
    "version",
    [
        "",
        pytest.param("3.12", marks=pytest.mark.full),
        pytest.param("3.13", marks=pytest.mark.full),
    ],
)
def test_functions_in_c_stand_below_the_function_of_python_that_calls_them(bench, library, version):
    python = find_python(version) if version else bench.python
    if not python:
        pytest.skip(why_missing(version))
    outcome = bench.measure("--sample", "199", python, bench.script(PROGRAM), library)

    assert (outcome.code, outcome.out) == (0, "slept True handler True\n"), outcome.err
    measured = times(bench)
    outer, inner = (measured[f"main->compute->{name}"] for name in ("outer", "outer->inner"))
    assert inner < outer <= measured["main->compute"] * 1.1
    # A quarter of the work is in inner: three standard errors of the number of its samples.
    samples = outer * 199
    assert abs(inner / outer - 0.25) < 3 * (0.25 * 0.75 / samples) ** 0.5
    assert "main->wait" in measured


@pytest.mark.full
def test_without_the_option_nothing_of_a_python_program_is_sampled(bench, library):
    bench.measure(bench.script(PROGRAM), library)

    assert not [path for path in times(bench) if "outer" in path]


@pytest.mark.full
def test_a_program_that_handles_the_signal_gets_it_and_the_finding_says_so(bench):
    program = bench.script("""
        import os, signal, time
        got = []
        signal.signal(signal.SIGURG, lambda *_: got.append(1))
        os.kill(os.getpid(), signal.SIGURG)
        began = time.process_time()
        while time.process_time() - began < 0.2:
            pass
        print(len(got))
    """)

    outcome = bench.measure("--sample", "199", program)

    assert (outcome.code, outcome.out) == (0, "1\n")
    texts = {finding.code: finding.text for finding in bench.records()[0].findings}
    assert "the program uses SIGURG" in texts["sampling-refused"]


@pytest.mark.full
def test_stripped_modules_are_one_function_and_threads_of_c_have_a_row(bench):
    program = bench.script("""
        import threading, time
        import numpy
        def sort():
            began = time.thread_time()
            while time.thread_time() - began < 0.5:
                numpy.sort(numpy.random.default_rng(1).random(200_000))
        sort()
        thread = threading.Thread(target=sort)
        thread.start()
        thread.join()
        print("done")
    """)

    outcome = bench.measure("--sample", "199", program)

    assert outcome.out == "done\n"
    native = [
        path
        for path in times(bench)
        if re.search(r"sort->.*\(?_multiarray_umath\)?|sort->.*[Ss]ort", path)
    ]
    assert any(path.startswith("sort->") for path in native), times(bench)
    assert any("(thread)->" in path or "run->" in path for path in native), times(bench)
