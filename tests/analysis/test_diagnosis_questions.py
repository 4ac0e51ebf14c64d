"""Which series are worth a run, in campaigns whose runs measured different things."""

import numpy as np

from insitu.analysis.diagnosis.questions import select_questionable
from insitu.entities import BYTES_ALLOCATED, TIME, CallPath, RunKey
from insitu.modeling.measurement import Experiment, RunTable
from insitu.modeling.pipeline import remodel

PATHS = (CallPath(("main",)), CallPath(("main", "table")))
MEBIBYTE = 2.0**20


def test_runs_without_the_heap_do_not_count_for_its_growth():
    """As runs of another tool that were imported beside those of insitu."""
    runs = []
    for p in (1, 2, 4, 8, 16):
        values = {TIME.name: np.full((2, p), 1.0)}
        metrics = [TIME]
        if p != 16:
            values[BYTES_ALLOCATED.name] = np.full((2, p), 100 * MEBIBYTE * p)
            metrics.append(BYTES_ALLOCATED)
        runs.append((RunKey.of({"p": p}), RunTable(PATHS, tuple(metrics), values)))
    experiment = Experiment(("p",), tuple(runs))

    chosen = select_questionable(remodel(experiment), experiment, 1024.0)

    assert (PATHS[1], BYTES_ALLOCATED.name) in {
        (series.key.callpath, series.key.metric) for series in chosen
    }
