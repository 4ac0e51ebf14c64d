"""A program finds itself as it would without insitu: environment, signals, limits, descriptors."""

import pytest

from tests.support.interpreters import find_python
from tests.support.parameters import plain_and_full
from tests.system.hostile.compare import PROGRAMS, compare, compile_program

pytestmark = [pytest.mark.mpi, pytest.mark.native]

OWN_MODULE = """
    import insitu
    print(insitu.render(3))
"""
NOTHING_OF_OURS = """
    import os, sys, time
    time.sleep(0.1)  # mpiexec may end by SIGPIPE if a program exits at once, see test_launch.py
    print([name for name in sys.modules if "insitu" in name and "editable" not in name])
    print([path for path in sys.path if path.endswith("collectors/site")])
"""
STATE = """
    import os, runpy, subprocess, sys
    from mpi4py import MPI
    subprocess.run([*sys.argv[1:3], str(os.getpid())])
    subprocess.run([*sys.argv[1:3], "self"])
"""


@pytest.mark.full
@plain_and_full("library", ["printing_library.c", "starting_library.c"])
def test_a_constructor_of_a_library_runs_once(bench, library):
    path = compile_program(bench, library, "-shared", "-fPIC", output="libcalled.so")
    program = compile_program(bench, "library_user.c", str(path), f"-Wl,-rpath,{bench.folder}")

    both = compare(bench, program, ranks=2)

    assert "the sum is 2" in both.bare.out
    assert both.differences() == []
    assert not bench.ingest().errors
    assert any(str(path).endswith("MPI_Allreduce") for path in bench.table().callpaths)


@plain_and_full("options", [(), ("--sample", "off")], ids=["sampled", "unsampled"])
def test_a_compiled_program_finds_the_state_of_a_bare_one(options, bench, monkeypatch):
    for name in ("LANG", "LC_ALL", "LC_CTYPE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ASAN_OPTIONS", "detect_leaks=0")
    program = compile_program(bench, "state.c")

    words = (program, bench.python, PROGRAMS / "show_state.py")
    both = compare(bench, *words, ranks=1, options=options)

    assert "SigIgn" in both.bare.out
    differences = both.differences()
    if not options:  # the kernel shows the handler of the samples; sigaction does not
        differences = [line for line in differences if "False SigCgt " not in line]
    assert differences == []


def test_a_python_program_finds_the_state_of_a_bare_one(bench):
    script = bench.script(STATE)

    both = compare(bench, "python", script, bench.python, PROGRAMS / "show_state.py", ranks=1)

    assert "SigIgn" in both.bare.out
    assert both.differences() == []


@pytest.mark.parametrize("version", ["3.12", pytest.param("3.13", marks=pytest.mark.full)])
def test_a_program_has_a_module_called_insitu_of_its_own(bench, version):
    python = find_python(version)  # one in which insitu is not installed
    if not python:
        pytest.skip(f"no Python {version}")
    bench.script("def render(n): return 'frame ' * n", "insitu.py")
    script = bench.script(OWN_MODULE)
    words = [str(bench.python), "-P", "-m", "insitu.run", "--campaign", str(bench.campaign)]

    bare = bench.execute([python, str(script)])
    measured = bench.execute([*words, "-n", "1", "--", python, str(script)])

    assert bare.out == "frame frame frame \n"
    assert (measured.code, measured.out) == (bare.code, bare.out), measured.err
    assert len(bench.records()) == 1


def test_nothing_called_insitu_stands_in_the_program(bench):
    script = bench.script(NOTHING_OF_OURS)

    both = compare(bench, "python", "-W", "error", script, ranks=1)

    assert both.differences() == []


@pytest.mark.full
def test_a_program_has_modules_with_names_of_the_standard_library(bench):
    python = find_python("3.12")  # one that imports little by itself
    if not python:
        pytest.skip("no Python 3.12")
    for name in ("fnmatch", "reprlib"):
        bench.script(f"print('own {name}')", f"{name}.py")
    script = bench.script("import fnmatch, reprlib")

    bare = bench.execute([python, str(script)])
    words = [str(bench.python), "-P", "-m", "insitu.run", "--campaign", str(bench.campaign)]
    measured = bench.execute([*words, "-n", "1", "--agent", "off", "--", python, str(script)])

    assert bare.out == "own fnmatch\nown reprlib\n"
    assert (measured.code, measured.out) == (bare.code, bare.out), measured.err
    assert len(bench.left_tables()) == 1
