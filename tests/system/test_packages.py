"""Installed packages: their inner functions are rows where the user names the package."""

import pytest

from tests.system import conftest
from tests.system.conftest import Bench

pytestmark = [pytest.mark.mpi, pytest.mark.native]

PACKAGE = """
from mpi4py import MPI


class Mesh:
    def create(self):
        for _ in range(3):
            meet()


def meet():
    MPI.COMM_WORLD.Barrier()
"""


@pytest.mark.parametrize("is_named", [False, True])
def test_functions_inside_an_installed_package_are_rows_where_it_is_named(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, is_named: bool
) -> None:
    installed = bench.folder / "site-packages"
    (installed / "fem").mkdir(parents=True)
    (installed / "fem" / "__init__.py").write_text(PACKAGE)
    monkeypatch.setattr(conftest, "HERE", f"{conftest.HERE}:{installed}")
    script = bench.script("import fem\nfem.Mesh().create()\n")

    options = ["--package", "fem"] if is_named else []
    outcome = bench.measure("-n", 2, *options, "--", script)

    assert outcome.code == 0, outcome.err
    inner = "app.py->fem.Mesh.create->fem.meet"
    outer = inner if is_named else "app.py->fem.Mesh.create"
    assert bench.values(f"{outer}->MPI_Barrier", "visits") == [3, 3]
    paths = {str(path) for path in bench.table().callpaths}
    assert (inner in paths) == is_named
