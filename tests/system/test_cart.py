"""Where MPI_Cart_create puts each rank is kept with the run, of Python and compiled programs."""

import math
import subprocess

import pytest

from tests.system.conftest import BINARIES

pytestmark = [pytest.mark.mpi, pytest.mark.native]

GRID = """
#include <mpi.h>

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int small[1] = {2}, large[2] = {2, 2}, open[2] = {0, 0};
  MPI_Comm line, grid;
  MPI_Cart_create(MPI_COMM_WORLD, 2, large, open, 0, &grid);
  MPI_Cart_create(MPI_COMM_WORLD, 1, small, open, 0, &line);
  MPI_Finalize();
  return 0;
}
"""


def test_a_compiled_program_tells_the_places_in_its_largest_grid(each_mpi):
    """Five ranks make a grid of 2 x 2, in which the last has no place, and then a line of two."""
    source = each_mpi.folder / "grid.c"
    source.write_text(GRID)
    command = [str(BINARIES[each_mpi.mpi] / "mpicc"), str(source), "-o", "grid"]
    if each_mpi.mpi == "openmpi":
        command.append(f"-Wl,-rpath,{BINARIES['openmpi'].parent / 'lib'}")
    subprocess.run(
        command, check=True, cwd=each_mpi.folder, env=each_mpi.environment, capture_output=True
    )

    outcome = each_mpi.measure("-n", 5, "--", "./grid")

    assert outcome.code == 0, outcome.err
    x, y = (each_mpi.values("grid", f"position_{axis}") for axis in "xy")
    assert x[:4] == [0, 0, 1, 1]
    assert y[:4] == [0, 1, 0, 1]
    assert math.isnan(x[4])
    assert "position_z" not in each_mpi.table().values


@pytest.mark.full
def test_a_python_program_tells_them_as_well(each_mpi):
    script = each_mpi.script(
        """
        from mpi4py import MPI

        MPI.COMM_WORLD.Create_cart([1, 3, 1]).Barrier()
        """
    )

    outcome = each_mpi.measure("-n", 3, "--", script)

    assert outcome.code == 0, outcome.err
    places = [each_mpi.values("app.py", f"position_{axis}") for axis in "xyz"]
    assert places == [[0, 0, 0], [0, 1, 2], [0, 0, 0]]
