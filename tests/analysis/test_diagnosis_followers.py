"""A parameter that has one value for each number of ranks, as sizes in weak scaling."""

import numpy as np
import pytest

from insitu.analysis.diagnosis.diagnose import Diagnosis, diagnose_experiment
from insitu.entities import TIME, TIME_EXCLUSIVE, VISITS, CallPath, RunKey
from insitu.modeling.measurement import Experiment, RunTable
from insitu.modeling.pipeline import remodel

SCALES = (1, 2, 4, 8, 16, 32)
PATHS = (CallPath(("main",)), CallPath(("main", "gather")), CallPath(("main", "compute")))


def diagnose(sizes: dict[int, tuple[float, ...]]) -> Diagnosis:
    """Of a program whose gather takes 0.1 n seconds and whose computing takes 10 s per p / n."""
    rng = np.random.default_rng(5)
    runs = []
    for p, values in sizes.items():
        for n in values:
            for repetition in range(3):
                seconds = np.array([0.1 * n, 10.0]) * (1 + 0.01 * rng.standard_normal(2))
                column = np.array([seconds.sum(), *seconds])
                table = RunTable(PATHS, (TIME,), {TIME.name: np.repeat(column[:, None], p, axis=1)})
                runs.append((RunKey.of({"p": p, "n": n}, repetition), table))
    experiment = Experiment(("p", "n"), tuple(runs))
    return diagnose_experiment(experiment, [], remodel(experiment), program="app")


def test_growth_of_a_size_with_p_is_judged_and_named():
    diagnosis = diagnose({p: (10.0 * p,) for p in SCALES})

    (limit,) = diagnosis.limits
    assert limit.short_name == "gather"
    assert limit.low is not None and limit.high is not None
    assert limit.low < 0.1 * 10 * 256 < limit.high  # as far as times are carried
    assert diagnosis.notes[-1].startswith("n follows p in all runs (n = 320 at p = 32)")


def test_a_design_that_varies_parameters_together_has_too_few_scales_of_each_size():
    """The design of `insitu design` for independent parameters, with two check points."""
    together = {p: (10.0 * p,) for p in SCALES}

    diagnosis = diagnose({**together, 1: (10.0, 160.0), 16: (10.0, 160.0)})

    assert diagnosis.verdict.endswith("2 scales measured at n = 160, laws need 3")
    (law,) = [entry for entry in diagnosis.not_judged if entry.kind == "law"]
    assert law.text == (
        "growth with p: 2 of 3 scales are measured at n = 160; p = 2, 4, 8, 32 with other values of"
        " n only: `insitu models` shows growth with both"
    )
    assert law.run == diagnosis.next_run == "p = 8, n = 160"


@pytest.mark.parametrize("sizes", [(100.0, 200.0), (100.0,)])
def test_a_size_that_is_independent_of_p_follows_nothing(sizes):
    diagnosis = diagnose(dict.fromkeys(SCALES, sizes))

    assert not diagnosis.limits
    assert not any("follows p" in note for note in diagnosis.notes)


@pytest.mark.parametrize(
    ("sizes", "is_exact"), [((20, 40, 60, 80, 100), False), ((20, 40, 60, 80, 90), True)]
)
def test_rows_and_columns_of_ranks_that_a_size_explains_are_no_law(
    sizes: tuple[int, ...], is_exact: bool
) -> None:
    """Of 1, 2, 4, 6 and 8 ranks they are 2, 3, 4, 5 and 6, as sizes that rise in equal steps."""
    runs = []
    for p, n in zip((1, 2, 4, 6, 8), sizes, strict=True):
        sides = {1: 2, 2: 3, 4: 4, 6: 5, 8: 6}[p]
        of_paths = {
            VISITS.name: np.array([1.0, 1e5 * (sides - 1)]),
            TIME.name: np.array([9.0, 1.0]),
            TIME_EXCLUSIVE.name: np.array([8.0, 1.0]),
        }
        values = {name: np.repeat(column[:, None], p, axis=1) for name, column in of_paths.items()}
        table = RunTable((PATHS[0], PATHS[2]), (VISITS, TIME, TIME_EXCLUSIVE), values)
        runs.append((RunKey.of({"p": p, "n": n}), table))
    experiment = Experiment(("p", "n"), tuple(runs))

    diagnosis = diagnose_experiment(experiment, [], remodel(experiment), program="app")

    (work,) = [entry for entry in diagnosis.statements if entry.metric == VISITS.name]
    assert "rows + columns" in work.law
    assert work.exact == is_exact
    assert ("unless it grows with n: run p = 8 with another n" in work.text) != is_exact
