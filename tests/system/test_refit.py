"""A refit that the ranks of an MPI job share."""

import sqlite3
from pathlib import Path

import pytest

from insitu.campaign.layout import DATABASE
from tests.support.campaigns import heat_campaign


def stored_models(campaign: Path) -> list[tuple[object, ...]]:
    """The rows of all models: every bit of every number."""
    connection = sqlite3.connect(campaign / DATABASE)
    rows = connection.execute("SELECT * FROM model ORDER BY callpath, metric, class").fetchall()
    connection.close()
    return rows


@pytest.mark.full
@pytest.mark.mpi
def test_refit_under_mpiexec_makes_the_models_of_one_process(each_mpi):
    start = ["-m", "mpi4py.futures"] if each_mpi.mpi == "mpich" else []  # both ways are known
    heat_campaign(str(each_mpi.campaign), 2, (4, 8, 16, 32, 64)).close()
    alone = each_mpi.insitu("refit", each_mpi.campaign, "--json")
    assert alone.code == 0, alone.err
    models = stored_models(Path(each_mpi.campaign))

    words = [each_mpi.python, *start, "-m", "insitu", "refit", each_mpi.campaign]
    command = [*each_mpi.mpiexec, "-n", 3, *words, "--executor", "mpi", "--json"]
    shared = each_mpi.execute([str(word) for word in command])

    assert shared.code == 0, shared.err
    assert shared.out == alone.out  # once, from rank 0
    assert len(models) > 20
    assert stored_models(Path(each_mpi.campaign)) == models


def test_one_rank_alone_is_told_how_to_start_others(bench):
    heat_campaign(str(bench.campaign), 1, (4, 8, 16)).close()

    answer = bench.insitu("refit", bench.campaign, "--executor", "mpi")

    assert answer.code == 6
    assert "mpiexec -n 4 python -m insitu refit" in answer.err
