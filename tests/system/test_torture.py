"""The native code under sanitizers and valgrind, in a program that does everything at once."""

import os
import shutil
import subprocess
from array import array
from pathlib import Path

import pytest

from insitu.collectors.symbols import Symbols
from insitu.collectors.table import COMPILED, PHASE, TableReader
from tests.system.conftest import BINARIES

pytestmark = [pytest.mark.native, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "tests" / "system" / "programs" / "torture.cpp"
NATIVE = ROOT / "collectors" / "native"
OF_PYTHON = {"evaluators", "hook", "loader", "marks", "module", "preload"}
# Replaces sigaction and pthread_create, which sanitizers call before they are ready. Only preload
# starts it, and restrictions.c ends it; test_torture_samples.py and test_sampling.py run it.
SAMPLING = {"sample", "sample_entry", "sample_signals", "sample_threads", "restrictions"}
SOURCES = sorted({path.stem for path in NATIVE.glob("*.c")} - OF_PYTHON - SAMPLING)
NAMES = (
    *("malloc", "calloc", "realloc", "free", "reallocarray", "posix_memalign", "aligned_alloc"),
    *("memalign", "valloc", "pvalloc"),
)
THREADS = 16  # eight, twice
TIMES = int(os.environ.get("INSITU_TORTURE", "1"))  # as many turns as usual
LEVEL = "-O1" if TIMES > 1 else "-O0"  # at -O1 compilers think for a minute of what they sanitize
# Asked once per call path: whether a function's place to return to is among the words of the stack,
# not all of which were ever written.
SUPPRESSION = """{
   words-of-the-stack
   Memcheck:Cond
   fun:was_left
}
"""


def build(folder, *flags, keeps_malloc=True):
    """The program with our sources in it; without our malloc where the sanitizer needs its own."""
    compile_sources(folder, *flags)
    if not keeps_malloc:
        local = [f"--localize-symbol={name}" for name in NAMES]
        subprocess.run(["objcopy", *local, "heap.o"], cwd=folder, check=True)
    link(folder, folder, *flags)


def compile_sources(folder, *flags):
    """Our sources, all but malloc with these flags: what runs before a sanitizer is ready."""
    if not shutil.which("g++"):
        pytest.skip("no g++: apt install g++")
    for source in SOURCES:
        own = ("-O1",) if source == "heap" else (LEVEL, *flags)
        words = ("gcc", "-c", "-g", "-std=gnu11", "-w", "-ftls-model=initial-exec", *own)
        done = subprocess.run([*words, str(NATIVE / f"{source}.c")], cwd=folder, check=False)
        assert done.returncode == 0


def link(folder, objects, *flags, compiler="g++"):
    """Compile the program and link it with what was compiled in the folder `objects`."""
    if not shutil.which(compiler):
        pytest.skip(f"no {compiler}: python3 bootstrap.py test")
    ours = [str(objects / f"{source}.o") for source in SOURCES]
    instrument = "-finstrument-functions"
    exclude = f"{instrument}-exclude-file-list=/usr/include,include/c++"
    words = (compiler, "-g", "-O1", "-w", *flags, instrument, exclude, "-o", "torture")
    linked = subprocess.run(
        [*words, str(PROGRAM), *ours, "-rdynamic", "-pthread", "-ldl"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if "cannot find" in linked.stderr:
        pytest.skip(f"the sanitizer's library is missing: {linked.stderr[-200:]}")
    assert linked.returncode == 0, linked.stderr


def run(folder, turns, *before, **environment):
    """What the program counted: visits by call path, and the growth of all."""
    path = folder / f"rank-{turns}.table"
    done = subprocess.run(
        [*before, str(folder / "torture"), str(path), str(turns)],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=120 * TIMES,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    table, symbols = TableReader(str(path)), Symbols()
    paths: list[str] = []
    visits: dict[str, int] = {}
    table.new_rows()
    totals = table.totals(1e-9)
    for row, entered in zip(table.rows, totals["visits"], strict=True):
        name = row.name
        if row.kind == COMPILED:
            name = symbols.name(row.file, name, before_ns=2**62).partition("(")[0]
        paths.append(f"{paths[row.parent]}->{name}" if paths else name)
        visits[paths[-1]] = visits.get(paths[-1], 0) + entered
    growth = array("q", totals["heap_growth"].tobytes())
    return visits, sum(n for n, row in zip(growth, table.rows, strict=True) if row.kind != PHASE)


def check(visits, turns):
    turn = "torture->(thread)->work->turn"
    expected = {
        "torture->(thread)->work": THREADS,
        turn: THREADS * turns,
        f"{turn}->trade": THREADS * turns * 10,
        f"{turn}->fib": THREADS * turns * 15,
        f"{turn}->fall": THREADS * turns,
        "torture->(thread)->work->leave->leap": THREADS * turns,
    }
    assert {path: visits[path] for path in expected} == expected


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """The program as it is."""
    folder = tmp_path_factory.mktemp("torture")
    build(folder)
    return folder


@pytest.mark.full  # sanitize.py runs it
def test_threads_mpi_memory_exceptions_signals_and_forks_are_counted_right(plain, tmp_path):
    link(tmp_path, plain, "-DWITH_MPI", compiler=str(BINARIES["mpich"] / "mpicxx"))

    visits, _ = run(tmp_path, 300 * TIMES)

    check(visits, 300 * TIMES)
    assert visits["torture->(thread)->work->turn->talk->MPI_Allreduce"] == THREADS * 300 * TIMES
    assert visits["torture->bear"] == 6
    assert [visits[f"torture->(phase {name})"] for name in ("odd", "even")] == [6, 6]


@pytest.mark.full  # sanitize.py runs it
def test_what_is_freed_leaves_nothing_behind(plain):
    visits, growth = run(plain, 300 * TIMES)

    check(visits, 300 * TIMES)
    assert abs(growth) < 20_000  # of 50,000 blocks; the C library keeps a few for its threads


@pytest.mark.full  # sanitize.py runs it
def test_no_address_is_misused(tmp_path):
    build(tmp_path, "-fsanitize=address,undefined")

    visits, _ = run(
        tmp_path, 30 * TIMES, ASAN_OPTIONS="detect_leaks=0", UBSAN_OPTIONS="halt_on_error=1"
    )

    check(visits, 30 * TIMES)


@pytest.mark.full  # sanitize.py runs it
def test_no_threads_race(tmp_path):
    build(tmp_path, "-fsanitize=thread", "-DWITHOUT_FORK", keeps_malloc=False)

    visits, _ = run(tmp_path, 30 * TIMES, TSAN_OPTIONS="halt_on_error=1")

    check(visits, 30 * TIMES)


@pytest.mark.full  # sanitize.py runs it
def test_valgrind_finds_nothing(plain):
    if not shutil.which("valgrind"):
        pytest.skip("no valgrind: apt install valgrind")
    (plain / "known.supp").write_text(SUPPRESSION)
    words = ("--quiet", "--error-exitcode=9", f"--suppressions={plain / 'known.supp'}")

    visits, _ = run(
        plain, 10 * TIMES, "valgrind", *words, "--soname-synonyms=somalloc=nouserintercepts"
    )

    check(visits, 10 * TIMES)
