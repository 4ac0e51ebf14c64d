"""What programs mark for other tools are regions: with the libraries of Debian and of PyPI."""

import importlib.util
import os
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.support.parameters import plain_and_full
from tests.system.conftest import BINARIES, HERE
from tests.system.test_call_paths import barriers, make

pytestmark = [pytest.mark.mpi, pytest.mark.native]

PROGRAMS = HERE / "tests" / "system" / "programs"
VARIABLES = ("NVTX_INJECTION64_PATH", "KOKKOS_PROFILE_LIBRARY", "INTEL_LIBITTNOTIFY64")


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*VARIABLES, "KOKKOS_TOOLS_LIBS", "INTEL_ITTNOTIFY_GROUPS"):
        monkeypatch.delenv(name, raising=False)


def visited_paths(bench):
    """Visits of the last run's first rank, by call path without the program."""
    table = bench.table()
    visits = {
        str(path).partition("->")[2]: table.values["visits"][row][0]
        for row, path in enumerate(table.callpaths)
    }
    return {path: int(count) for path, count in visits.items() if count > 0}  # nan: a function


def region_visits(bench, names):
    """Visits of regions with these names, of all call paths together."""
    counts = Counter()
    for path, visits in visited_paths(bench).items():
        name = path.rpartition("->")[2]
        if name in names:
            counts[name] += visits
    return dict(counts)


# ---- NVTX ---------------------------------------------------------------------------------------

NVTX_REGIONS = {
    "ascii": 1,
    "grüße 世 😀": 1,
    "registered": 1,
    "registered é": 1,
    "wide": 1,
    "(unnamed)": 1,
    "level 2": 3,
    "level 1": 3,
    "level 0": 3,
    "of a thread": 4000,
}
FORMS = "main->forms->ascii->grüße 世 😀->registered"
NVTX_BARRIERS = {f"{FORMS}->registered é->wide->(unnamed)": 1, FORMS: 1}
SPY = r"""
#include <stdio.h>
#include <nvtx3/nvToolsExt.h>
int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t table) {
  (void)table;
  puts("the user's tool");
  return 1;
}
"""


def nvtx_headers():
    found = importlib.util.find_spec("nvidia")
    for folder in found.submodule_search_locations if found else []:
        if (headers := Path(folder, "nvtx", "include")).is_dir():
            return headers
    pytest.skip("no headers of NVTX: pip install nvidia-nvtx-cu12")


@plain_and_full(
    ("compiler", "flags"), [("gcc", ("-O2",)), ("gcc", ("-O0",)), ("clang", ("-O3", "-no-pie"))]
)
def test_ranges_of_nvtx_are_regions_of_the_function_that_pushes_them(each_mpi, compiler, flags):
    if not shutil.which(compiler):
        pytest.skip(f"no {compiler}: apt-get install {compiler}")
    words = (*flags, "-I", nvtx_headers(), "-fno-optimize-sibling-calls", PROGRAMS / "nvtx.c")
    make(each_mpi, *words, "-o", "app", "-ldl", "-lpthread", compiler=compiler)
    bare = each_mpi.execute([*each_mpi.mpiexec, "-n", "1", "./app"])

    outcome = each_mpi.measure("-n", 1, "--", "./app")

    assert (outcome.code, outcome.out) == (bare.code, bare.out), outcome.err
    assert "sum -26\n" in outcome.out
    assert region_visits(each_mpi, NVTX_REGIONS) == NVTX_REGIONS
    assert each_mpi.values("app->main->forms->ascii", "visits") == [1]
    counts = barriers(each_mpi)
    assert {path: counts.get(path) for path in NVTX_BARRIERS} == NVTX_BARRIERS
    assert not [path for path in visited_paths(each_mpi) if "nvtx" in path or "child" in path]


def test_a_tool_for_nvtx_that_the_user_names_is_the_only_one(bench, monkeypatch):
    headers = nvtx_headers()
    make(bench, "-O2", "-I", headers, PROGRAMS / "nvtx.c", "-o", "app", "-ldl", "-lpthread")
    make(bench, "-shared", "-fPIC", "-I", headers, bench.script(SPY, "spy.c"), "-o", "spy.so")
    monkeypatch.setenv("NVTX_INJECTION64_PATH", str(bench.folder / "spy.so"))
    bare = bench.execute([*bench.mpiexec, "-n", "1", "./app"])

    outcome = bench.measure("-n", 1, "--", "./app")

    assert (outcome.code, outcome.out) == (bare.code, bare.out), outcome.err
    assert "the user's tool\n" in outcome.out
    assert not region_visits(bench, NVTX_REGIONS)


PYTHON = """
import time
from mpi4py import MPI
import {package}

@{annotate}("decorated")
def work():
    MPI.COMM_WORLD.Barrier()
    time.sleep(0.01)

def begin():
    global task
    {begin}

def solve():
    with {block}("block", domain="mine"):
        work()
    begin()
    work()
    {end}

for _ in range(5):
    solve()
"""
MARKS = {
    "nvtx": ("nvtx.annotate", 'nvtx.push_range("explicit")', "nvtx.pop_range()"),
    "ittapi": ("ittapi.task", 'task = ittapi.task("explicit"); task.begin()', "task.end()"),
}


@plain_and_full("package", MARKS)
def test_what_python_programs_mark_with_nvtx_and_itt_are_regions(bench, package):
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"no {package}: pip install {package}")
    annotate, begin, end = MARKS[package]
    words = {"package": package, "annotate": annotate, "block": annotate}
    begun = "app.py->solve->begin"
    bench.script(PYTHON.format(**words, begin=begin, end=end))

    outcome = bench.measure("-n", 1, "--", "app.py")

    assert outcome.code == 0, outcome.err
    # A region goes on when the function that began it returns.
    assert barriers(bench) == {
        "solve->block->decorated->work": 5,
        "solve->begin->explicit->decorated->work": 5,
    }
    assert bench.values("app.py->solve->block", "visits") == [5]
    (begin_s,), (explicit_s,) = (
        bench.values(begun, "time"),
        bench.values(f"{begun}->explicit", "time"),
    )
    assert begin_s > explicit_s > 0.05
    assert sum(bench.values(begun, "time_exclusive")) == pytest.approx(begin_s - explicit_s)
    assert 0 < sum(bench.values("app.py->solve", "time_exclusive")) < 0.05


# ---- Kokkos -------------------------------------------------------------------------------------

KOKKOS = {
    "solve": 3,
    "axpy": 6,
    "dot": 6,
    "scan": 6,
    "Functor": 6,
    "solve(int)::{lambda(int)#4}": 6,
    "Kokkos::View::initialization [x]": 6,
}


def make_kokkos(bench, source="kokkos.cpp"):
    """Compile a program against Debian's Kokkos, and a tool that counts."""
    if not Path("/usr/include/trilinos/Kokkos_Core.hpp").exists():
        pytest.skip("no Kokkos: apt-get install libtrilinos-kokkos-dev")
    compiler = str(BINARIES[bench.mpi] / "mpicxx")
    flags = ["-O2", "-w", "-fopenmp", "-I/usr/include/trilinos"]
    program = [str(PROGRAMS / source), "-o", "app", "-ltrilinos_kokkoscore"]
    tool = ["-shared", "-fPIC", str(PROGRAMS / "kokkos_tool.cpp"), "-o", "tool.so"]
    for words in (program, tool):
        command = [compiler, *flags, *words]
        done = subprocess.run(
            command, cwd=bench.folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    return bench.folder / "tool.so"


def counts_of_the_tool(outcome):
    lines = re.findall(r"^KOKKOS (\d+) (.*)$", outcome.out, re.MULTILINE)
    return {name: int(count) for count, name in lines}


def test_kernels_and_regions_of_kokkos_have_the_counts_of_a_tool_for_kokkos(bench, monkeypatch):
    tool = make_kokkos(bench)
    bare = bench.execute([*bench.mpiexec, "-n", "1", "./app"])
    outcome = bench.measure("-n", 1, "--", "./app")
    regions = region_visits(bench, KOKKOS)
    below = "main->solve->solve"
    paths = visited_paths(bench)
    monkeypatch.setenv("KOKKOS_PROFILE_LIBRARY", str(tool))

    counted = bench.execute([*bench.mpiexec, "-n", "1", "./app"])
    measured = bench.measure("-n", 1, "--", "./app")

    assert (outcome.code, outcome.out) == (bare.code, bare.out) == (0, "done\n"), outcome.err
    assert regions == counts_of_the_tool(counted) == KOKKOS
    assert {f"{below}->axpy", f"{below}->dot", f"{below}->MPI_Barrier"} <= paths.keys()
    # The user's tool is the only one.
    assert (measured.code, measured.out) == (counted.code, counted.out)
    assert not region_visits(bench, KOKKOS)


def test_a_program_that_names_a_tool_for_kokkos_itself_starts(bench):
    tool = make_kokkos(bench, "kokkos_settings.cpp")
    bare = bench.execute([*bench.mpiexec, "-n", "1", "./app", str(tool)])

    outcome = bench.measure("-n", 1, "--", "./app", tool)

    assert (outcome.code, outcome.out) == (bare.code, bare.out)
    assert counts_of_the_tool(bare) == {"sum": 1}


def test_a_tool_for_kokkos_on_the_command_line_is_the_only_one(bench):
    option = f"--kokkos-tools-library={make_kokkos(bench)}"
    bare = bench.execute([*bench.mpiexec, "-n", "1", "./app", option])

    outcome = bench.measure("-n", 1, "--", "./app", option)

    assert (outcome.code, outcome.out) == (bare.code, bare.out)
    assert counts_of_the_tool(bare) == KOKKOS
    assert not region_visits(bench, KOKKOS)


# ---- PETSc --------------------------------------------------------------------------------------

PETSC = Path("/usr/lib/petscdir/petsc3.18/x86_64-linux-gnu-real/include")
STAGES = ("assembly", "solution")


def events_of_log_view(text):
    """Counts of events by stage and name, from what -log_view prints."""
    counts, stage = {}, ""
    for line in text.splitlines():
        if head := re.match(r"--- Event Stage \d+: (.*)", line):
            stage = head[1]
        elif line.startswith("Object Type"):
            break
        elif event := re.match(r"(.{16,}?) +(\d+) [\d.]+ [\d.]+e", line):
            counts[stage, event[1].strip()] = int(event[2])
    return counts


def events_of_rows(bench, names):
    """The same from the visits of the last run."""
    counts = Counter()
    for path, visits in visited_paths(bench).items():
        *callers, name = path.split("->")
        stage = next((caller for caller in callers if caller in STAGES), "Main Stage")
        if name in names:
            counts[stage, name] += visits
    return dict(counts)


@plain_and_full("option", ["", "-log_view"])
def test_stages_and_events_of_petsc_have_the_counts_of_its_log(bench, option):
    if not (PETSC / "petscksp.h").exists() or not shutil.which("mpicc.openmpi"):
        pytest.skip("no PETSc 3.18: apt-get install libpetsc-real3.18-dev openmpi-bin")
    words = ["-O2", "-w", f"-I{PETSC}", "-I/usr/share/petsc/3.18/include"]
    source = [str(PROGRAMS / "petsc.c"), "-o", "app", "-lpetsc_real"]
    subprocess.run(["mpicc.openmpi", *words, *source], cwd=bench.folder, check=True)
    launcher = shutil.which("mpiexec.openmpi") or ""
    if os.getuid() == 0:
        os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    bare = bench.execute([launcher, "--oversubscribe", "-n", "2", "./app", "-log_view"])
    log = events_of_log_view(bare.out)

    command = bench.command("--mpiexec", launcher, "-n", 2, "--", "./app", *filter(None, [option]))
    outcome = bench.execute(command)

    assert outcome.code == bare.code == 0, outcome.err
    norm = re.search(r"^norm .*$", bare.out, re.MULTILINE)
    assert norm
    assert norm[0] in outcome.out
    assert len(log) > 20
    assert log["solution", "my event"] == 3
    assert events_of_rows(bench, {name for _, name in log}) == log
    assert bench.values("app->main->solution->my event", "visits") == [3, 3]
    if option:
        assert events_of_log_view(outcome.out) == log
