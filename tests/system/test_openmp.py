"""Parallel regions of OpenMP: their call paths, and what their threads do."""

import re
import shutil
import subprocess

import pytest

from tests.support.parameters import first_plain, plain_and_full
from tests.system.conftest import HERE, open_store
from tests.system.test_call_paths import make

pytestmark = [pytest.mark.mpi, pytest.mark.native]

PROGRAMS = HERE / "tests" / "system" / "programs"
# On a machine with fewer cores than threads, waiting threads that spin delay the others. UCX, below
# MPICH, holds a lock while memory is mapped: a child of fork, in which libomp unmaps some, waited
# for it for ever in 3 of 150 runs without insitu, in none of 400 without these events.
QUIET = {
    "OMP_WAIT_POLICY": "passive",
    "KMP_BLOCKTIME": "0",
    "OMP_NUM_THREADS": "3",
    "UCX_MEM_EVENTS": "no",
}
IMBALANCE_POINTS = 0.03  # required of a region whose imbalance is known
PATHS = {
    "main->imbalanced": 4,
    "main->at_barrier": 2,
    "main->in_sections": 2,
    "main->tasks": 4,
    "main->tasks_in_loop": 4,
    "main->nested": 2,
    "main->funneled": 2,
    "main->alone": 1,
    "main->in_environment": 3,
    "main->reduced": 4,
    "(thread)->outlive->outlived": 2,
}


@pytest.fixture(autouse=True)
def _quiet_libraries(monkeypatch):
    for name, value in QUIET.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(params=first_plain(["gcc", "clang"]))
def compiler(request):
    skip_without_openmp(request.param)
    return request.param


def skip_without_openmp(name):
    if not shutil.which(name):
        pytest.skip(f"no {name}")
    source = "#include <omp.h>\nint main(void){return 0;}"
    words = [name, "-fopenmp", "-x", "c", "-", "-o", "/dev/null"]
    done = subprocess.run(words, input=source, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"{name} has no OpenMP runtime (Debian: libgomp1, libomp-dev)")


def build(bench, compiler, *flags):
    kept = "-fno-optimize-sibling-calls"
    words = ("-O2", kept, "-fopenmp", *flags, PROGRAMS / "openmp.c", "-o", "app")
    make(bench, *words, "-lpthread", compiler=compiler)


def regions(bench):
    """The metrics of the parallel regions of the last run, by call path without the program."""
    with open_store(str(bench.campaign)) as store:
        table = store.table(store.runs()[-1].id)
    metrics = ("visits", "time", "time_busy", "time_barrier", "team_threads", "imbalance")
    found = {}
    if "time_busy" not in table.values:
        return found
    for row, path in enumerate(table.callpaths):
        is_timed = float(table.values["visits"][row][0]) > 0  # a sampled function has no visits
        if is_timed and re.search(r"\(parallel [^()]*\)\Z", path.name):
            found[str(path).partition("->")[2]] = {
                metric: float(table.values[metric][row][0]) for metric in metrics
            }
    return found


def below(regions, function):
    """The only region directly below a function; of a thread, wherever it was created."""
    (path,) = (
        path for path in regions if f"->{path}".rpartition("->")[0].endswith(f"->{function}")
    )
    return regions[path]


def test_regions_have_what_their_threads_did_below_the_function_that_began_them(each_mpi, compiler):
    build(each_mpi, compiler)

    outcome = each_mpi.measure("-n", 1, "--", "./app")

    assert outcome.code == 0, outcome.err
    imbalance, busy = map(float, re.findall(r"[A-Z]+ ([\d.]+)", outcome.out))
    found = regions(each_mpi)
    for function, threads in PATHS.items():
        region = below(found, function)
        visits = 1 if "outlive" in function else 5
        assert (function, region["visits"]) == (function, visits)
        assert (function, region["team_threads"]) == (function, threads)
        # What is missing passes before the threads begin.
        used = region["time_busy"] + region["time_barrier"]
        assert 0 < used <= threads * region["time"] * 1.001

    known = below(found, "main->imbalanced")
    assert known["imbalance"] == pytest.approx(imbalance, abs=IMBALANCE_POINTS)
    assert known["time_busy"] == pytest.approx(busy, rel=0.03)
    assert sum(path.startswith("main->loops->") for path in found) == 4


@pytest.mark.full
def test_waiting_at_a_barrier_inside_a_region_is_no_work_and_tasks_are(bench, compiler):
    build(bench, compiler)

    outcome = bench.measure("-n", 1, "--", "./app")

    assert outcome.code == 0, outcome.err
    found = regions(bench)
    waiting = below(found, "main->at_barrier")
    assert waiting["time_busy"] >= 5 * 0.06
    assert waiting["time_barrier"] >= 5 * 0.02 * 0.5  # a thread may begin late
    for function in ("main->tasks", "main->tasks_in_loop"):
        tasks = below(found, function)
        assert tasks["time_busy"] >= 5 * 8 * 0.01
        assert tasks["time_barrier"] < 0.5 * tasks["time_busy"]


def test_mpi_calls_and_regions_inside_a_region_stand_below_it(bench, compiler):
    build(bench, compiler)

    outcome = bench.measure("-n", 1, "--", "./app")

    assert outcome.code == 0, outcome.err
    paths = [str(path) for path in bench.table().callpaths]
    assert any(re.search(r"funneled->[^>]*\(parallel \d+\)->MPI_Barrier\Z", p) for p in paths)
    paths = [path for path in regions(bench) if "outlive" not in path]
    inner = [path for path in paths if path.count("(parallel") == 2]
    # The first thread's, below the caller, and that of the worker, below its own stack.
    assert sorted(path.partition("->")[0] for path in inner) == ["(thread)", "main"]
    for path in inner:
        assert regions(bench)[path]["visits"] == 5


@plain_and_full("mode", ["stress", "children", "leaves"])
def test_nested_regions_tasks_children_and_exit_spoil_nothing(bench, compiler, mode):
    build(bench, compiler, "-g")
    bare = bench.execute([*bench.mpiexec, "-n", "1", "./app", mode])

    outcome = bench.measure("-n", 1, "--", "./app", mode)

    assert bare.code == (3 if mode == "leaves" else 0), bare.out
    assert outcome.code == bare.code, outcome.err
    for path, region in regions(bench).items():
        if region["team_threads"] == region["team_threads"]:  # not NaN
            assert 1 <= region["team_threads"] <= 4, path
            assert 0 <= region["imbalance"] <= 1, path
    if mode == "stress":
        visits = sum(
            region["visits"] for path, region in regions(bench).items() if path.count("(") < 3
        )
        assert visits >= 4 * 60 * 2


@pytest.mark.full
def test_the_number_of_threads_is_a_parameter(bench, compiler, monkeypatch):
    build(bench, compiler)

    for threads in (1, 2):
        monkeypatch.setenv("OMP_NUM_THREADS", str(threads))
        outcome = bench.measure("-n", 1, "--param", f"threads={threads}", "--", "./app")
        assert outcome.code == 0, outcome.err

        assert below(regions(bench), "main->in_environment")["team_threads"] == threads
        assert dict(bench.records()[-1].key.parameters)["threads"] == threads


def test_a_tool_that_the_user_names_is_not_replaced(bench, monkeypatch):
    skip_without_openmp("clang")
    build(bench, "clang")
    source = bench.folder / "tool.c"
    source.write_text(
        "#include <stdio.h>\n"
        'void *ompt_start_tool(unsigned v, const char *n) { puts("TOOL"); return 0; }\n'
    )
    make(bench, "-shared", "-fPIC", source, "-o", "tool.so")
    monkeypatch.setenv("OMP_TOOL_LIBRARIES", str(bench.folder / "tool.so"))

    outcome = bench.measure("-n", 1, "--", "./app")

    assert outcome.code == 0, outcome.err
    assert "TOOL" in outcome.out
    assert not regions(bench)


@pytest.mark.full
def test_without_mpi_a_library_that_is_loaded_later_has_regions(bench, compiler):
    library = bench.folder / "late.c"
    library.write_text(
        "void late(void) {\n  volatile int sum = 0;\n"
        "#pragma omp parallel num_threads(2)\n  sum = 1;\n}\n"
    )
    program = bench.folder / "loads.c"
    program.write_text(
        "#include <dlfcn.h>\n#include <mpi.h>\n"
        "int main(int argc, char **argv) {\n"
        "  MPI_Init(&argc, &argv);\n"
        '  void (*late)(void) = (void (*)(void))dlsym(dlopen("./late.so", RTLD_NOW), "late");\n'
        "  for (int i = 0; i < 9; i++) late();\n"
        "  MPI_Finalize();\n  return 0;\n}\n"
    )
    kept = "-fno-optimize-sibling-calls"
    flags = ("-O2", kept, "-fopenmp", "-shared", "-fPIC")
    make(bench, *flags, library, "-o", "late.so", compiler=compiler)
    make(bench, "-O2", program, "-o", "app", "-ldl")

    outcome = bench.measure("-n", 1, "--", "./app")

    assert outcome.code == 0, outcome.err
    region = below(regions(bench), "main->late")
    assert (region["visits"], region["team_threads"]) == (9, 2)


@pytest.mark.full
def test_loops_of_fortran_are_named_by_their_procedures(bench):
    if not shutil.which("gfortran"):
        pytest.skip("no gfortran")
    source = bench.folder / "start.c"
    source.write_text("#include <mpi.h>\nvoid start_(void) { MPI_Init(0, 0); }\n")
    words = ["gfortran", "-O2", "-fopenmp", "-c", str(PROGRAMS / "openmp.f90"), "-o", "loops.o"]
    subprocess.run(words, cwd=bench.folder, check=True)
    make(bench, "-fopenmp", source, "loops.o", "-o", "app", "-lgfortran")

    outcome = bench.measure("-n", 1, "--", "./app")

    assert (outcome.code, outcome.out.strip()) == (0, "5050.0"), outcome.err
    found = {path.rpartition("->")[2]: region for path, region in regions(bench).items()}
    assert found["work::fill (parallel 1)"]["visits"] == 7
    assert found["work::fill (parallel 1)"]["team_threads"] == 3
    assert found["MAIN__ (parallel 1)"]["team_threads"] == 2


@pytest.mark.full
def test_a_build_with_address_sanitizer_has_the_same_regions(bench, monkeypatch):
    build(bench, "gcc", "-fsanitize=address")
    monkeypatch.setenv("ASAN_OPTIONS", "detect_leaks=0")

    outcome = bench.measure("-n", 1, "--", "./app")

    assert outcome.code == 0, outcome.err
    assert below(regions(bench), "main->imbalanced")["team_threads"] == 4
