"""What insitu makes of CUPTI's records, with stand-ins for the driver and for CUPTI.

`test_gpu.py` has real programs on a real GPU.
"""

import subprocess

import pytest

from tests.support.parameters import plain_and_full
from tests.system.conftest import BINARIES, HERE

pytestmark = [pytest.mark.mpi, pytest.mark.native]

PROGRAMS = HERE / "tests" / "system" / "programs"
STEPS = 30_000  # their records fill several buffers


@pytest.fixture
def program(bench, monkeypatch):
    """The program; it finds the stand-ins, and insitu finds CUPTI as in an installation."""
    home = bench.folder / "cuda" / "extras" / "CUPTI" / "lib64"
    home.mkdir(parents=True)
    libraries = {"libcuda.so.1": ["-DDRIVER"], "libcupti.so.13": []}
    for name, options in libraries.items():
        folder = home if "cupti" in name else bench.folder
        words = ["cc", "-shared", "-fPIC", "-O1", *options, f"-Wl,-soname,{name}"]
        words += ["-o", folder / name, PROGRAMS / "fake_cuda.c"]
        subprocess.run(words, check=True)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(bench.folder))
    monkeypatch.setenv("CUDA_HOME", str(bench.folder / "cuda"))
    return build(bench)


def build(bench, *options):
    words = [BINARIES[bench.mpi] / "mpicc", "-O1", "-fno-optimize-sibling-calls"]
    target = bench.folder / "fake_gpu"
    subprocess.run([*words, "-o", target, PROGRAMS / "fake_gpu.c", *options], check=True)
    return target


def values(bench, metric):
    """Of the first rank, by call path without the program."""
    table = bench.table()
    column = table.values.get(metric)
    if column is None:
        return {}
    return {
        str(path).partition("->")[2]: float(column[row][0])
        for row, path in enumerate(table.callpaths)
        if column[row][0] > 0
    }


def findings(bench):
    return {finding.code: finding.text for finding in bench.records()[-1].findings}


def test_records_count_below_the_functions_that_launched_them(bench, program):
    outcome = bench.measure("-n", 2, program, STEPS)

    assert (outcome.code, outcome.out.count("done")) == (0, 2), outcome.err
    kernel, copy = "main->step->field::advance<double>", "main->step->CUDA copy device to host"
    there, memset, graph = (
        f"main->prepare->CUDA {what}" for what in ("copy host to device", "memset", "graph")
    )
    times = values(bench, "device_time")
    ns = {path: round(seconds * 1e9) for path, seconds in times.items()}
    assert ns == {kernel: 60 * STEPS, copy: 50 * STEPS, there: 50, memset: 50, graph: 30}
    visits = values(bench, "visits")
    assert {path: visits[path] for path in times} == {
        kernel: STEPS, copy: STEPS, there: 1, memset: 1, graph: 1
    }  # fmt: skip
    assert values(bench, "bytes_copied") == {copy: 1000 * STEPS, there: 4096, memset: 4096}
    assert kernel not in values(bench, "time")
    busy = 100 + 80 * STEPS
    span = 100 + 100 * (STEPS - 1) + 80
    assert values(bench, "device_busy") == {"": pytest.approx(busy * 1e-9)}
    assert values(bench, "device_idle") == {"": pytest.approx(1 - busy / span)}
    assert values(bench, "device_memory_peak") == {"": 5096}
    assert not [code for code in findings(bench) if code.startswith("gpu")]


def test_the_environment_of_the_program_and_the_program_itself_are_as_without_insitu(
    bench, program
):
    alone = bench.execute([str(program), "10"])

    outcome = bench.measure("--gpu", "off", program, 10)

    assert outcome.out == alone.out == "done\n"
    assert values(bench, "device_time") == {}
    assert not [code for code in findings(bench) if code.startswith("gpu")]


@plain_and_full(
    ("setting", "code", "text"),
    [
        ("denied", "gpu-refused", "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"),
        ("dropping", "gpu-records-lost", "3 kernels or copies"),
        ("unrelated", "gpu-launches-unknown", "23 kernels or copies"),
    ],
)
def test_what_is_missing_is_a_finding(bench, program, monkeypatch, setting, code, text):
    monkeypatch.setenv("FAKE_CUPTI", setting)

    outcome = bench.measure(program, 10)

    assert outcome.out == "done\n"
    assert text in findings(bench)[code]
    times = values(bench, "device_time")
    if setting == "denied":
        assert times == {}
    if setting == "unrelated":
        assert round(times["field::advance<double>"] * 1e9) == 600


@pytest.mark.full
def test_without_cupti_there_is_a_finding(bench, program, monkeypatch):
    monkeypatch.setenv("CUDA_HOME", str(bench.folder / "nowhere"))
    (bench.folder / "cuda").rename(bench.folder / "elsewhere")

    outcome = bench.measure(program, 10)

    assert outcome.out == "done\n"
    assert "gpu-refused" in findings(bench)  # a real one, if there is one, has no such driver


@pytest.mark.full
def test_a_tool_that_the_user_names_is_left_alone(bench, program, monkeypatch):
    monkeypatch.setenv("CUDA_INJECTION64_PATH", str(bench.folder / "libcuda.so.1"))

    outcome = bench.measure(program, 10)

    assert outcome.out == "done\n"
    assert "names another tool" in findings(bench)["gpu-refused"]


@pytest.mark.full
def test_a_program_that_uses_cupti_itself_gets_it(bench, program):
    library = bench.folder / "cuda" / "extras" / "CUPTI" / "lib64"
    program = build(bench, "-DPROFILES", library / "libcupti.so.13", f"-Wl,-rpath,{library}")

    outcome = bench.measure(program, 10)

    assert outcome.out == "subscribed 0\ndone\n"
    assert "uses CUPTI itself" in findings(bench)["gpu-refused"]
    assert values(bench, "visits")["main->step->field::advance<double>"] == 10


@pytest.mark.full
def test_the_driver_is_found_from_programs_with_a_search_path_of_their_own(bench, program):
    program = build(bench, "-Wl,-rpath,/opt/other/lib:$ORIGIN/../lib")

    outcome = bench.measure(program, 10)

    assert outcome.out == "done\n"
    assert values(bench, "device_time")
