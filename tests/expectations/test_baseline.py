"""An accepted campaign as an expectation: what it bounds, and what it leaves to others."""

import numpy as np
import pytest

from insitu.entities import (
    ALLOCATIONS,
    HEAP_GROWTH,
    ITERATION_VARIATION,
    MEMORY_PRIVATE,
    MEMORY_RSS,
    MEMORY_SHARED,
    TIME,
    VISITS,
    CallPath,
    Metric,
    RunKey,
)
from insitu.expectations.assess import assess
from insitu.expectations.baseline import bounds_from_baseline
from insitu.expectations.ceilings import Ceiling
from insitu.expectations.entries import Entry
from insitu.expectations.limits import expect
from insitu.expectations.result import Status
from insitu.modeling.base import ModelSet
from insitu.modeling.measurement import Experiment, RunTable
from insitu.modeling.pipeline import remodel
from insitu.modeling.search import SEGMENT_SHORT
from insitu.workflows.accept import _find_bounds, _table

SCALES = np.array([4.0, 8.0, 9.0, 12.0, 16.0])
COUNT = 60  # call paths
LAST = f"main->f{COUNT - 1}"


def measure(seed: int, *, noise: float, power_of_last: float = 0.0) -> Experiment:
    """Call paths that grow by 0 to 60 % as p^3, the last one as a power of p, with noise."""
    random = np.random.default_rng(seed)
    seconds = 1 + random.uniform(0, 0.6, (COUNT, 1)) * (SCALES / SCALES[-1]) ** 3
    seconds[-1] = SCALES**power_of_last
    seconds *= 1 + noise * random.standard_normal((COUNT, len(SCALES)))

    paths = tuple(CallPath.parse(f"main->f{i}") for i in range(COUNT))
    runs = []
    for column, p in enumerate(SCALES.tolist()):
        values = {"time": np.repeat(seconds[:, [column]], int(p), axis=1)}
        runs.append((RunKey.of({"p": p}, 0), RunTable(paths, (TIME,), values)))
    return Experiment(("p",), tuple(runs))


@pytest.mark.parametrize("seed", range(4))  # constants that hardly are some: in two of these
def test_a_campaign_never_violates_itself(seed):
    experiment = measure(seed, noise=0.15)
    models = remodel(experiment)

    bounds, notes = bounds_from_baseline(models, models, [])
    results = assess(bounds, experiment, models)

    assert len(results) >= COUNT
    assert {result.status for result in results} <= {Status.MET, Status.NEAR}
    equal = [result for result in results if result.text.endswith("equal to the accepted ones")]
    assert all(result.probability == 1.0 and not result.advice for result in equal)
    assert len(equal) > 0
    assert not notes


@pytest.mark.parametrize("seed", range(4))
def test_a_second_measurement_of_a_program_outgrows_no_limit(seed):
    accepted = remodel(measure(seed, noise=0.15))
    models = remodel(measure(seed + 100, noise=0.15))

    bounds, _ = bounds_from_baseline(accepted, models, [])

    assert [bound for bound in bounds if isinstance(bound.subject, Ceiling)] == []


def leaking(bytes_per_rank: float) -> Experiment:
    """28.5 kB, 16 bytes for each pair of ranks, and what the program leaves for each rank."""
    path = CallPath.parse("app")
    runs = []
    for p in (1, 2, 3, 4, 6, 8):
        heap = np.full((1, p), 28_500.0 + 16 * (p // 2) + bytes_per_rank * p)
        table = RunTable((path,), (HEAP_GROWTH,), {HEAP_GROWTH.name: heap})
        runs.append((RunKey.of({"p": float(p)}, 0), table))
    return Experiment(("p",), tuple(runs))


def test_a_tiny_term_that_grows_fast_accepts_no_large_one():
    """The accepted growth, of 64 bytes in 28.5 kB, is that of p^(5/3)."""
    experiment = leaking(20_000.0)
    models = remodel(experiment)

    bounds, _ = bounds_from_baseline(remodel(leaking(0.0)), models, [])
    growth, limit = assess(bounds, experiment, models)

    assert growth.status is not Status.VIOLATED
    assert limit.status is Status.VIOLATED
    assert limit.text.startswith("10.3 MB")
    now, most = largest_value(models), bounds[1].subject.most
    assert 2 * now <= most <= 3 * now  # twice the upper bound of the accepted growth


def largest_value(models: ModelSet) -> float:
    (series,) = models.models
    return float(series.model.values[-1])


def heap_of_mpi(values: list[float], metric: Metric = HEAP_GROWTH) -> Experiment:
    """The values of one call path on 1, 2, 3, 4, 6 and 8 ranks."""
    path = CallPath.parse("app->MPI_Init")
    runs = []
    for p, value in zip((1, 2, 3, 4, 6, 8), values, strict=True):
        table = RunTable((path,), (metric,), {metric.name: np.full((1, p), value)})
        runs.append((RunKey.of({"p": float(p)}, 0), table))
    return Experiment(("p",), tuple(runs))


# Measured: MPICH 5.0.2, examples/stencil2d.py, two campaigns of the same program.
HEAP_OF_INIT = [8906704.0, 9533852.0, 10273224.0, 10661834.0, 10737479.0, 10817081.0]
HEAP_OF_INIT_AGAIN = [8906704.0, 9533852.0, 10624139.0, 10661834.0, 10737479.0, 10817081.0]


def test_one_point_that_differs_by_chance_is_no_violation():
    """The second law is that of p^(5/3), with a probability of 99 %; the values are the same."""
    accepted = remodel(heap_of_mpi(HEAP_OF_INIT))
    experiment = heap_of_mpi(HEAP_OF_INIT_AGAIN)
    models = remodel(experiment)

    bounds, _ = bounds_from_baseline(accepted, models, [])
    (result,) = assess(bounds, experiment, models)

    assert result.status is Status.UNSETTLED
    assert "undecided, at p=8 it is as much above the accepted campaign" in result.text
    assert result.advice.startswith("repeat the runs")


@pytest.mark.parametrize(("metric", "slope"), [(HEAP_GROWTH, 200_000.0), (VISITS, 1.0)])
def test_growth_that_is_seen_in_the_values_violates_the_accepted_campaign(metric, slope):
    """Counts are the same in each run: there, one visit more is growth."""
    base = [1e6 if metric is HEAP_GROWTH else 1e3] * 6
    accepted = remodel(heap_of_mpi(base, metric))
    grown = [value + slope * p for value, p in zip(base, (1, 2, 3, 4, 6, 8), strict=True)]
    experiment = heap_of_mpi(grown, metric)
    models = remodel(experiment)

    bounds, _ = bounds_from_baseline(accepted, models, [])
    results = assess(bounds, experiment, models)

    assert Status.VIOLATED in {result.status for result in results}


def test_bounds_are_upper_ones_of_call_paths_that_both_campaigns_have():
    """Less growth than before is no violation, and shown as allowed."""
    accepted = remodel(measure(1, noise=0.0, power_of_last=1.0))
    experiment = measure(1, noise=0.0)
    models = remodel(experiment)

    bounds, _ = bounds_from_baseline(accepted, models, [])
    (bound,) = [entry for entry in bounds if entry.callpath == LAST]
    (result,) = assess([bound], experiment, models)

    assert bound.subject.is_bound is True
    assert str(bound.subject) == "<= O(p)"
    assert result.status is Status.MET


def test_growth_that_is_new_violates_the_accepted_campaign():
    accepted = remodel(measure(1, noise=0.02))
    experiment = measure(1, noise=0.02, power_of_last=1.0)

    models = remodel(experiment)
    bounds, _ = bounds_from_baseline(accepted, models, [])
    results = assess(bounds, experiment, models)

    assert {result.subject for result in results if result.status is Status.VIOLATED} == {LAST}


def uneven(seed: int, slow: dict[str, tuple[int, ...]], power: float = 0.0) -> Experiment:
    """Functions whose time grows as a power of p on some of each eight ranks."""
    paths = tuple(CallPath.parse(f"main->{name}") for name in slow)
    runs = []
    for p in (8, 16, 32, 64):
        ranks = np.arange(p) % 8
        seconds = np.array(
            [np.where(np.isin(ranks, kinds), 2 * p**0.5, 1) for kinds in slow.values()]
        )
        seconds *= p**power * np.random.default_rng([seed, p]).normal(1, 0.005, seconds.shape)
        runs.append((RunKey.of({"p": float(p)}, 0), RunTable(paths, (TIME,), {"time": seconds})))
    return Experiment(("p",), tuple(runs))


@pytest.mark.parametrize(("power", "is_violated"), [(0.0, False), (0.5, True)])
def test_classes_are_compared_with_those_of_the_same_ranks_whatever_their_letters(
    power, is_violated
):
    """One more function with other classes has the first letters."""
    accepted = remodel(uneven(1, {"solve": (0, 1, 3, 6)}))
    experiment = uneven(2, {"assemble": (1, 2, 3), "solve": (0, 1, 3, 6)}, power)
    models = remodel(experiment)

    bounds, _ = bounds_from_baseline(accepted, models, [])
    results = assess(bounds, experiment, models)

    growths = [result for result in results if result.kind == "growth"]
    assert len(growths) == 2
    assert all((result.status is Status.VIOLATED) == is_violated for result in growths)


def test_where_the_same_ranks_are_no_class_the_mean_is_compared():
    accepted = remodel(uneven(1, {"solve": (0, 1, 3, 6)}))
    models = remodel(uneven(2, {"solve": (1, 3, 4, 6)}))

    bounds, _ = bounds_from_baseline(accepted, models, [])

    assert {bound.behaviour for bound in bounds} == {"all"}


def test_ranks_that_only_have_letters_are_accepted_by_their_mean():
    """Another campaign gives the letters to other ranks."""
    experiment = uneven(1, {"solve": (0, 1, 3, 6)})
    models = remodel(experiment)

    (bound,) = _find_bounds(models)
    (result,) = assess([bound], experiment, models)

    assert 'class = "all"' in _table(result).splitlines()
    assert result.status in (Status.MET, Status.NEAR)


def test_a_law_that_is_a_little_faster_outgrows_the_accepted_one_at_the_target():
    """The laws are p and p^(3/2), which is near enough to what a user expects as p."""

    def counted(power: float) -> Experiment:
        runs = []
        for p in (2, 4, 8, 16, 32):
            values = {"visits": np.full((1, p), round(1000 * p**power))}
            table = RunTable((CallPath.parse("main->solve"),), (VISITS,), values)
            runs.append((RunKey.of({"p": p}), table))
        return Experiment(("p",), tuple(runs))

    experiment = counted(1.5)
    models = remodel(experiment)
    bounds, _ = bounds_from_baseline(remodel(counted(1.0)), models, [])
    results = assess(bounds, experiment, models)

    assert {result.kind: result.status for result in results} == {
        "growth": Status.NEAR,
        "limit": Status.VIOLATED,
    }


def test_growth_over_one_of_two_parameters_is_seen_in_the_values():
    path = CallPath.parse("main->solve")

    def joint(power: float) -> Experiment:
        runs = []
        for p in (2, 4, 8, 16):
            for n in (64, 128, 256):
                values = {"visits": np.full((1, p), n**2 * p**power)}
                runs.append((RunKey.of({"p": p, "n": n}), RunTable((path,), (VISITS,), values)))
        return Experiment(("n", "p"), tuple(runs))

    experiment = joint(1.5)
    models = remodel(experiment)
    bounds, _ = bounds_from_baseline(remodel(joint(0.5)), models, [])
    (result, *_) = assess(bounds, experiment, models)

    assert result.status is Status.VIOLATED


def test_only_call_paths_of_both_campaigns_without_an_expectation_are_bounded():
    experiment = measure(1, noise=0.02)
    accepted = remodel(experiment)
    newer = CallPath.parse("main->newer")
    runs = []
    for key, table in experiment.runs:
        paths = (newer, *table.callpaths[1:])
        runs.append((key, RunTable(paths, table.metrics, table.values)))
    models = remodel(Experiment(("p",), tuple(runs)))
    own = Entry(LAST, "time", expect("O(p)"))

    bounds, notes = bounds_from_baseline(accepted, models, [own])

    kept = [f"main->f{i}" for i in range(1, COUNT) if f"main->f{i}" != LAST]
    assert sorted(entry.callpath for entry in bounds) == sorted(kept)
    assert notes == [
        "main->newer: not in the accepted campaign, therefore not judged",
        "main->f0: only in the accepted campaign",
    ]


def test_growth_before_few_points_behind_a_change_is_accepted():
    """As where MPI takes another algorithm for the largest numbers of ranks."""
    path = CallPath.parse("app->share")

    def counted(blocks: list[int]) -> ModelSet:
        runs = []
        for p, count in zip((1, 2, 3, 4, 6, 8), blocks, strict=True):
            table = RunTable((path,), (ALLOCATIONS,), {ALLOCATIONS.name: np.full((1, p), count)})
            runs.append((RunKey.of({"p": float(p)}, 0), table))
        return remodel(Experiment(("p",), tuple(runs)))

    accepted = counted([1, 8, 27, 64, 60, 60])
    [series] = accepted.models
    assert [finding.code for finding in series.model.findings] == [SEGMENT_SHORT]

    [bound], _ = bounds_from_baseline(accepted, counted([1, 8, 27, 64, 125, 216]), [])

    assert str(bound.subject) == "<= O(p^3)"


def test_what_other_processes_decide_has_no_bound():
    """Two campaigns of one program: the pages of a library are shared with whoever maps it."""
    metrics = (ITERATION_VARIATION, MEMORY_PRIVATE, MEMORY_RSS, MEMORY_SHARED)
    main = CallPath(("app",))
    runs = []
    for p in SCALES.tolist():
        values = {metric.name: np.full((1, int(p)), 1e7) for metric in metrics}
        runs.append((RunKey.of({"p": p}, 0), RunTable((main,), metrics, values)))
    models = remodel(Experiment(("p",), tuple(runs)))

    bounds, _ = bounds_from_baseline(models, models, [])

    assert [entry.metric for entry in bounds] == ["memory_rss"]
