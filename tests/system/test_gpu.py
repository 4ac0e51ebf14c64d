"""What GPUs of NVIDIA do, with programs as people write them: CUDA C++ with MPI, PyTorch, CuPy.

The counts are those that the program is known to make, and those of other tools: PyTorch's
profiler, Nsight Compute, and the sample of CUPTI that traces a program. `python3 bootstrap.py gpu`
runs these tests where there is a GPU.
"""

import importlib.util
import re
import shutil
import subprocess
import textwrap
from functools import cache
from pathlib import Path

import pytest

from tests.system.conftest import BINARIES, HERE

pytestmark = [pytest.mark.gpu, pytest.mark.native]

PROGRAMS = HERE / "tests" / "system" / "programs"
STEPS, GRAPHS, IN_THREAD = 200, 5, 7
BYTES = 8 << 20  # of the arrays of gpu_steps.cu
# What it launches, by the function that does it.
LAUNCHED = {
    "main->CUDA copy host to device": 1,
    "main->CUDA memset": 1,
    "main->step->advance": STEPS,
    "main->read_back->CUDA copy device to host": STEPS // 10,
    "main->repeat_graph->CUDA graph": GRAPHS,
}


@cache
def nvcc() -> str:
    found = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
    return found or pytest.skip("no compiler of CUDA: nvcc")


@pytest.fixture
def steps(bench):
    """The program in C++ with MPI, with the runtime of CUDA linked in, as nvcc does it."""
    return compile_steps(bench)


def compile_steps(bench, *options):
    mpi = BINARIES[bench.mpi].resolve().parent
    program = bench.folder / "gpu_steps"
    command = [nvcc(), "-O2", "-arch=native", f"-I{mpi}/include", f"-L{mpi}/lib", "-lmpi"]
    command += ["-Xlinker", f"-rpath={mpi}/lib", *options]
    subprocess.run([*command, "-o", program, PROGRAMS / "gpu_steps.cu"], check=True)
    return program


def needs(module):
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"no {module}: pip install {module}")


def on_devices(bench, metric, rank=0):
    """Values of a metric of the last run, by call path without the program."""
    table = bench.table()
    values = {}
    for row, path in enumerate(table.callpaths):
        if table.values["device_time"][row][rank] > 0:
            value = float(table.values[metric][row][rank])
            values[str(path).partition("->")[2]] = value
    return values


def of_program(bench, metric):
    """Values of a metric for the whole program, by rank."""
    table = bench.table()
    root = min(range(len(table.callpaths)), key=lambda row: len(table.callpaths[row].frames))
    return [float(value) for value in table.values[metric][root]]


def findings(bench):
    return {finding.code: finding.text for finding in bench.records()[-1].findings}


@pytest.mark.mpi
@pytest.mark.parametrize("runtime", ["static", "shared"])
def test_a_program_in_cuda_has_its_kernels_and_copies_below_the_functions_that_launch_them(
    bench, runtime
):
    program = compile_steps(bench, f"-cudart={runtime}")

    outcome = bench.run("-n", 2, program, STEPS, GRAPHS)

    assert outcome.code == 0, outcome.err
    assert outcome.out.count("elapsed") == 2
    for rank in range(2):
        visits = on_devices(bench, "visits", rank)
        assert LAUNCHED.items() <= visits.items()
        scaled = [path for path in visits if path.endswith("->field::scale<double>")]
        assert sorted(visits[path] for path in scaled) == [IN_THREAD, STEPS]
        assert sum("(thread)->" in path for path in visits) == 2
        assert len(visits) == len(LAUNCHED) + 3
        copied = on_devices(bench, "bytes_copied", rank)
        assert copied["main->CUDA copy host to device"] == BYTES
        assert copied["main->CUDA memset"] == BYTES
        assert copied["main->read_back->CUDA copy device to host"] == STEPS // 10 * 8000
    assert of_program(bench, "device_memory_peak") == [2 * BYTES] * 2
    for rank, busy in enumerate(of_program(bench, "device_busy")):
        assert 0 < busy <= sum(on_devices(bench, "device_time", rank).values()) * (1 + 1e-9)
    assert all(0 < idle < 1 for idle in of_program(bench, "device_idle"))
    assert not findings(bench).keys() & {"gpu-refused", "gpu-launches-unknown", "gpu-records-lost"}


def test_counts_and_times_are_those_of_other_tools(bench, steps):
    sample = Path(nvcc()).resolve().parents[1] / "extras/CUPTI/samples/cupti_trace_injection"
    if not sample.is_dir():
        pytest.skip(f"no sample of CUPTI in {sample}")
    shutil.copytree(sample.parent, bench.folder / "samples", symlinks=False)
    folder = bench.folder / "samples" / sample.name
    built = subprocess.run(
        ["make", f"CUDA_INSTALL_PATH={sample.parents[3]}"],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    library = next(folder.glob("libcupti_trace_injection.so"), None)
    if library is None:
        pytest.skip(f"the sample of CUPTI cannot be built here: {built.stderr[-300:]}")
    traced = subprocess.run(
        [steps, str(STEPS), "0"], capture_output=True, text=True, check=True,
        env={**bench.environment, "CUDA_INJECTION64_PATH": str(library)},
    )  # fmt: skip
    lines = traced.stdout.splitlines()
    kernels = [line for line in lines if line.startswith("CONCURRENT_KERNEL")]

    bench.measure(steps, STEPS, 0)

    visits = on_devices(bench, "visits")
    ours = sum(count for path, count in visits.items() if "CUDA" not in path)
    assert ours == len(kernels) == 2 * STEPS
    copies = sum(line.startswith(("MEMCPY", "MEMSET")) for line in lines)
    assert sum(count for path, count in visits.items() if "CUDA" in path) == copies


def test_nsight_compute_counts_the_same_kernels(bench, steps):
    tool = shutil.which("ncu") or shutil.which("ncu", path="/usr/local/cuda/bin")
    if not tool:
        pytest.skip("no Nsight Compute: ncu")
    words = [tool, "--csv", "--metrics", "gpc__cycles_elapsed.max", steps, "10", "0"]
    profiled = subprocess.run(words, capture_output=True, text=True, check=False)
    launches = [line for line in profiled.stdout.splitlines() if re.match(r'"\d+",', line)]
    if not launches:
        pytest.skip(f"Nsight Compute does not run here: {profiled.stdout[-300:]}")

    bench.measure(steps, 10, 0)

    visits = on_devices(bench, "visits")
    assert sum(count for path, count in visits.items() if "CUDA" not in path) == len(launches)


def test_pytorch_launches_below_the_functions_of_python(bench):
    needs("torch")
    program = PROGRAMS / "gpu_torch.py"
    profiled = subprocess.run(
        [bench.python, program, "20", "profile"], capture_output=True, text=True, check=True
    )
    count, seconds = re.search(r"profiled (\d+) (\S+)", profiled.stdout).groups()

    outcome = bench.run(program, 20)

    assert outcome.code == 0, outcome.err
    visits, times = on_devices(bench, "visits"), on_devices(bench, "device_time")
    assert sum(visits.values()) == int(count)
    assert sum(times.values()) == pytest.approx(float(seconds), rel=0.25)  # of two runs
    assert any(path.startswith("run->train->") for path in visits)
    assert any(path.startswith("(thread)->") for path in visits)  # the gradients
    assert of_program(bench, "device_memory_peak")[0] > 1 << 20


def test_a_profiler_in_the_program_gets_its_records_and_ends_ours(bench):
    needs("torch")
    program = PROGRAMS / "gpu_torch.py"
    words = [bench.python, program, "20", "profile"]
    alone = subprocess.run(words, capture_output=True, text=True, check=True)

    outcome = bench.run(program, 20, "profile")

    assert outcome.code == 0, outcome.err
    assert outcome.out.split()[:2] == alone.stdout.split()[:2]
    assert "the program uses CUPTI itself" in findings(bench)["gpu-refused"]


def test_cupy_launches_below_the_functions_of_python(bench):
    needs("cupy")

    outcome = bench.run(PROGRAMS / "gpu_cupy.py", 50)

    assert outcome.code == 0, outcome.err
    visits = on_devices(bench, "visits")
    assert visits["main->smooth->cupy_add__float64_float64_float64"] == 50
    assert visits["main->smooth->cupy_multiply__float64_float_float64"] == 100
    assert sum(count for path, count in visits.items() if path.endswith("host to device")) == 1


def test_children_of_a_program_that_uses_a_gpu_change_nothing(bench):
    needs("cupy")
    script = bench.script("""
        import os, sys
        import cupy
        values = cupy.arange(1000)
        for how in ("exit", "_exit"):
            child = os.fork()
            if not child:
                os._exit(7) if how == "_exit" else sys.exit(7)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        print(int((values + 1).sum()))
    """)

    outcome = bench.run(script)

    assert (outcome.code, outcome.out.strip()) == (0, "500500"), outcome.err
    assert sum(on_devices(bench, "visits").values()) >= 3


def test_another_tool_is_left_alone(bench, steps, tmp_path):
    source = tmp_path / "tool.c"
    source.write_text(
        textwrap.dedent("""
        #include <stdio.h>
        int InitializeInjection(void) {
          fputs("the user's tool\\n", stderr);
          return 1;
        }
    """)
    )
    tool = tmp_path / "tool.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tool, source], check=True)

    outcome = bench.run("env", f"CUDA_INJECTION64_PATH={tool}", steps, 10, 0)

    assert outcome.code == 0
    assert "the user's tool" in outcome.err
    assert "names another tool" in findings(bench)["gpu-refused"]


def test_gpus_can_be_left_out(bench, steps):
    outcome = bench.run("--gpu", "off", steps, 10, 0)

    assert outcome.code == 0, outcome.err
    assert "device_time" not in bench.table().values
    assert "gpu-refused" not in findings(bench)


def test_a_program_that_uses_no_gpu_loads_nothing(bench):
    script = bench.script("""
        import pathlib
        import torch
        print("libcuda.so" in pathlib.Path("/proc/self/maps").read_text())
    """)
    needs("torch")
    alone = subprocess.run([bench.python, script], capture_output=True, text=True, check=True)

    outcome = bench.run(script)

    assert outcome.out == alone.stdout
    assert "device_time" not in bench.table().values
