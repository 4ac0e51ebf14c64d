"""The example stencil3d.py: its classes of ranks are found, in runs of every size."""

from pathlib import Path

import numpy as np
import pytest

from insitu.campaign.load import load_experiment
from insitu.campaign.store import open_store
from insitu.modeling.classes.domain import dims_create
from insitu.modeling.pipeline import RefitOptions, remodel

pytestmark = pytest.mark.mpi

STENCIL = Path(__file__).resolve().parents[2] / "examples" / "stencil3d.py"
STEP = "stencil3d.py->main->step"
CELLS, STEPS = 4, 3


def faces(p):
    """How many faces of the block each rank owns."""
    sides = dims_create(p, 3)
    places = np.unravel_index(np.arange(p), sides)
    return sum((at == 0) * 1 + (at == side - 1) for at, side in zip(places, sides, strict=True))


def experiment(bench, sizes):
    """Measure runs of these sizes."""
    words = ("--", STENCIL, "--surface", "--cells", CELLS, "--steps", STEPS)
    outcomes = bench.measure_all(("-n", p, *words) for p in sizes)
    assert [outcome.code for outcome in outcomes] == [0] * len(sizes), outcomes
    with open_store(str(bench.campaign)) as store:
        return load_experiment(store)


@pytest.mark.full
def test_counts_are_those_of_the_docstring_and_classes_those_of_the_domain(bench):
    sizes = (4, 8, 12)

    measured = experiment(bench, sizes)

    for key, table in measured.runs:
        names = [str(path) for path in table.callpaths]
        owned = faces(key.size)
        boundary = table.values["visits"][names.index(f"{STEP}->boundary")]
        assert np.nan_to_num(boundary).tolist() == (STEPS * owned).tolist()
        a, b, c = dims_create(key.size, 3)
        flux = table.values["visits"][names.index(f"{STEP}->flux")]
        assert flux.tolist() == (STEPS * (6 - owned + owned * (a * b + b * c + c * a))).tolist()
        sendrecv = names.index(f"{STEP}->exchange->MPI_Sendrecv")
        expected = 8 * CELLS**2 * (6 - owned) * STEPS
        assert table.values["bytes_sent"][sendrecv].tolist() == expected.tolist()
    found = remodel(measured, RefitOptions(modeler="search"))
    for clusters in found.clusters:
        if str(clusters.callpath) == STEP and clusters.metric == "time":
            owned = faces(clusters.run.size)
            pairs = set(zip(clusters.labels.tolist(), owned.tolist(), strict=True))
            assert len(pairs) == len(set(owned.tolist())) == len(clusters.names), clusters.run
