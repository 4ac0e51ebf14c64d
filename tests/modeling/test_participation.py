"""Which ranks execute a call path, and what that means for shares at other scales."""

import numpy as np
import pytest

from insitu.analysis.outlook import make_outlook
from insitu.entities import TIME_EXCLUSIVE, CallPath, RunKey
from insitu.modeling.classes.participation import find_participations, name_few_ranks
from insitu.modeling.measurement import Experiment, RunTable
from insitu.modeling.pipeline import remodel

WORK = CallPath.parse("main->work")
FUNNEL = CallPath.parse("main->collect")
SIZES = (4, 8, 16, 32)


def models_of(executing):
    """Models of a program in which every rank works 1 s, and some ranks collect for p / 100 s.

    Args:
        executing: whether a rank executes `collect`, from the ranks (p,) to booleans (p,).
    """
    runs = []
    for p in SIZES:
        collect = np.where(executing(np.arange(p)), p / 100, np.nan)
        values = {"time_exclusive": np.array([np.ones(p), collect])}
        table = RunTable((WORK, FUNNEL), (TIME_EXCLUSIVE,), values)
        runs.append((RunKey.of({"p": p}), table))
    return remodel(Experiment(("p",), tuple(runs)))


@pytest.mark.parametrize(
    ("executing", "text"),
    [
        (lambda rank: rank == 0, "rank 0 only"),
        (lambda rank: rank == 2, "rank 2 only"),
        (lambda rank: rank < 3, "3 of 32 ranks"),
        (lambda rank: rank % 2 == 0, None),
        (lambda rank: rank >= 0, None),
        (lambda rank: rank > 0, None),
        (lambda rank: rank == len(rank) - 1, "1 of 32 ranks"),
    ],
    ids=["first", "third", "three", "half", "all", "all but one", "last"],
)
def test_a_call_path_of_few_ranks_is_named_so(executing, text):
    names = name_few_ranks(models_of(executing))

    assert names == ({} if text is None else {FUNNEL: text})


@pytest.mark.parametrize(
    ("executing", "share"),
    [
        (lambda rank: rank == 0, 1 / 1024),
        (lambda rank: rank > 0, 1023 / 1024),
        (lambda rank: rank % 2 == 0, 1 / 2),
        (lambda rank: rank >= 0, 1.0),
    ],
    ids=["rank 0", "all but rank 0", "half", "all"],
)
def test_shares_at_another_scale_count_the_ranks_that_execute_a_call_path(executing, share):
    models = models_of(executing)

    outlook = make_outlook(models, (1024.0,))

    cost = share * 10.24
    assert outlook.shares[str(FUNNEL)] == pytest.approx(cost / (1 + cost), rel=2e-3)


def test_one_run_of_one_rank_says_nothing_about_others():
    values = {"time_exclusive": np.ones((2, 1))}
    table = RunTable((WORK, FUNNEL), (TIME_EXCLUSIVE,), values)
    models = remodel(Experiment(("p",), ((RunKey.of({"p": 1}), table),)))

    participation = find_participations(models, "time_exclusive")[FUNNEL]

    assert participation.text == ""
    assert participation.share(np.array([64.0])).tolist() == [1.0]
