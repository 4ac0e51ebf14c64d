"""Surroundings that are hard on a measured program: it runs on, and says what it says anyway."""

import os
import shutil
import subprocess
from contextlib import contextmanager

import pytest

from insitu.collectors import library
from tests.support.parameters import plain_and_full
from tests.system.conftest import BINARIES, HERE

pytestmark = [pytest.mark.mpi, pytest.mark.native]

OTHER_USER = 65534  # nobody
HELLO = """
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  printf("rank %d has the rights of %d\\n", rank, (int)geteuid());
  MPI_Finalize();
  return 7;
}
"""


def test_a_program_with_the_rights_of_another_user_is_not_measured(bench):
    if os.getuid():
        pytest.skip("making a program that runs as somebody else needs root")
    program = bench.folder / "hello"
    (bench.folder / "hello.c").write_text(HELLO)
    compiler = str(BINARIES[bench.mpi] / "mpicc")
    subprocess.run([compiler, "-w", "hello.c", "-o", "hello"], cwd=bench.folder, check=True)
    os.chown(program, OTHER_USER, OTHER_USER)
    program.chmod(0o4755)
    bare = bench.execute([*bench.mpiexec, "-n", "1", "./hello"])
    if bare.code != 7 or f"rights of {OTHER_USER}" not in bare.out:
        pytest.skip(f"no program runs as somebody else here: {bare.err[-200:]}")

    outcome = bench.run("-n", 1, "--agent", "off", "--", "./hello")

    assert outcome.code == 7, outcome.err
    assert outcome.out == bare.out
    assert "insitu: " in outcome.err
    assert not bench.left_tables()


@contextmanager
def read_only(folder):
    """A file system that takes nothing."""
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", str(folder)], check=False)
    if made.returncode:
        pytest.skip("mounting a read-only file system needs root")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.parametrize("kind", ["Python", "compiled"])
def test_where_tables_cannot_be_written_the_program_runs_on(bench, kind):
    command = ["./hello"]
    (bench.folder / "hello.c").write_text(HELLO)
    if kind == "compiled":
        words = [str(BINARIES[bench.mpi] / "mpicc"), "-w", "hello.c", "-o", "hello"]
        subprocess.run(words, cwd=bench.folder, check=True)
    else:
        command = [str(bench.script("print('done')\nraise SystemExit(7)"))]

    with read_only(bench.tables):
        outcome = bench.run("-n", 1, "--agent", "off", "--", *command)

    assert outcome.code == 7, outcome.err
    assert len(outcome.out.splitlines()) == 1
    assert "insitu: a rank could not be measured: OSError: [Errno 30] Read-only" in outcome.err


TLS = "__thread char block[64]; char *use(void) { return block; }"
EXHAUST = """
    import ctypes, pathlib, shutil
    loaded = 0
    for number in range(64):
        copy = pathlib.Path(f"copy{number}.so").absolute()
        shutil.copy("block.so", copy)
        try:
            ctypes.CDLL(str(copy)).use()
        except OSError as error:
            assert "static TLS" in str(error), error
            break
        loaded += 1
    print(loaded)
"""
AFTERWARDS = """
    import sys
    sys.path.insert(0, {home!r})
    import os
    from insitu.collectors.bootstrap import _open_timer
    from insitu.collectors.rank import RankInfo
    os.environ["INSITU_LIBRARY"] = {shared!r}
    print(type(_open_timer("a.table", RankInfo(0, 1), "app.py", "{{}}")).__name__)
"""


def blocks(bench):
    """A library that takes 64 bytes of what the linker keeps for libraries that come late."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    (bench.folder / "block.c").write_text(TLS)
    words = ["-shared", "-fPIC", "-ftls-model=initial-exec", "block.c", "-o", "block.so"]
    subprocess.run([str(compiler), *words], cwd=bench.folder, check=True)


@plain_and_full("heap", ["on", "off"])
def test_libraries_of_the_program_find_the_room_for_threads_that_they_need(bench, heap):
    blocks(bench)
    script = bench.script(EXHAUST)
    bare = bench.execute([str(bench.python), str(script)])

    outcome = bench.measure("-n", 1, "--heap", heap, "--", script)

    assert (bare.code, outcome.code) == (0, 0), bare.err + outcome.err
    assert 10 < int(bare.out) < 64
    assert int(bare.out) - 2 <= int(outcome.out) <= int(bare.out) + 2
    assert bench.values("app.py", "visits") == [1]


def test_where_there_is_no_room_for_threads_left_the_twin_measures(bench):
    blocks(bench)
    text = EXHAUST + AFTERWARDS.format(home=str(HERE), shared=library.find())

    outcome = bench.execute([str(bench.python), str(bench.script(text))])

    assert outcome.code == 0, outcome.err
    assert outcome.out.splitlines()[-1] == "PythonTimer"
