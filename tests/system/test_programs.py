"""Programs that others wrote, measured as they are."""

import shutil

import numpy as np
import pytest

pytestmark = [pytest.mark.mpi, pytest.mark.native]

MELT = """
    units lj
    lattice fcc 0.8442
    region box block 0 6 0 4 0 4
    create_box 1 box
    create_atoms 1 box
    mass 1 1.0
    velocity all create 3.0 87287 loop geom
    pair_style lj/cut 2.5
    pair_coeff 1 1 1.0 1.0 2.5
    fix 1 all nve
    run 20
"""


def total(table, metric):
    """Over all ranks and MPI calls."""
    return np.nansum(
        [
            table.values[metric][row]
            for row, path in enumerate(table.callpaths)
            if path.name.startswith("MPI_")
        ]
    )


def test_lammps_which_has_python_inside_is_a_compiled_program(bench):
    lammps, mpiexec = shutil.which("lmp"), shutil.which("mpiexec.openmpi")
    if not (lammps and mpiexec):
        pytest.skip("no LAMMPS: apt-get install lammps openmpi-bin")
    bench.script(MELT, "in.melt")

    outcome = bench.measure(
        *("--mpiexec", mpiexec, "-n", 2, "--", lammps, "-in", "in.melt", "-log", "none")
    )

    assert outcome.code == 0, outcome.err
    assert "Loop time" in outcome.out
    assert bench.values("lmp->main->MPI_Init", "visits") == [1, 1]
    sent, received = (total(bench.table(), f"messages_{way}") for way in ("sent", "received"))
    assert sent == received > 100


@pytest.mark.full
def test_the_ring_of_mpi4py_passes_every_message_on(each_mpi):
    words = ("-m", "mpi4py.bench", "ringtest", "-n", 100, "-s", 0, "-l", 7)

    outcome = each_mpi.measure("-n", 3, "--", each_mpi.python, *words)

    assert outcome.code == 0, outcome.err
    for unit, expected in (("messages", 3 * 7), ("bytes", 3 * 7 * 100)):
        assert total(each_mpi.table(), f"{unit}_sent") == expected
        assert total(each_mpi.table(), f"{unit}_received") == expected
