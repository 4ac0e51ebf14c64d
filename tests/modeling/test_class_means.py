"""A refit that knows the class means of earlier runs equals one from scratch, and reads less."""

from dataclasses import replace

import numpy as np
import pytest

from insitu.entities import BYTES_SENT, TIME, TIME_EXCLUSIVE, VISITS, CallPath, RunKey
from insitu.modeling.base import ModelSet
from insitu.modeling.class_means import MAX_EVIDENCE, runs_to_read
from insitu.modeling.classes import joint
from insitu.modeling.classes.finder import ClassFinder
from insitu.modeling.classes.rules import ClassSettings
from insitu.modeling.measurement import Experiment, RunTable
from insitu.modeling.pipeline import RefitOptions, remodel, remodel_again

SIZES = (4, 8, 16)
PATHS = tuple(CallPath.parse(text) for text in ("main", "main->flux", "main->halo", "main->poll"))


def make_run(p: int, repetition: int, *, paths=PATHS) -> tuple[RunKey, RunTable]:
    """End ranks send less; times scatter; polling happens as often as time allows."""
    random = np.random.default_rng([p, repetition])
    neighbours = np.where(np.isin(np.arange(p), [0, p - 1]), 1.0, 2.0)
    times = np.array([[p], [3.0], [1.0], [0.5]]) * random.normal(1, 0.02, (4, p))
    times[2] *= neighbours
    counts = np.array([np.ones(p), np.full(p, 5.0), 5 * neighbours, random.integers(1, 99, p)])
    values = {
        TIME.name: times,
        TIME_EXCLUSIVE.name: times / 2,
        VISITS.name: counts,
        BYTES_SENT.name: counts * 800,
    }
    rows = [PATHS.index(path) for path in paths]
    return RunKey.of({"p": p}, repetition), RunTable(
        tuple(paths),
        (TIME, TIME_EXCLUSIVE, VISITS, BYTES_SENT),
        {name: array[rows] for name, array in values.items()},
    )


def experiment(runs, parameters=("p",)) -> Experiment:
    return Experiment(parameters, tuple(runs), contents=tuple(f"content {key}" for key, _ in runs))


class UnreadableValues:
    """The values of a run that a refit must not need."""

    def __init__(self, values):
        self.shape = values.shape

    def __getitem__(self, rows):
        raise AssertionError("values were read")


def without_values(run):
    key, table = run
    values = {name: UnreadableValues(array) for name, array in table.values.items()}
    return key, replace(table, values=values)


def assert_equal(left: ModelSet, right: ModelSet) -> None:
    """Equality to the last bit."""
    assert list(left.models) == list(right.models)
    assert list(left.supplements) == list(right.supplements)
    assert len(left.supplements) > 1
    for first, second in zip(left.models, right.models, strict=True):
        assert first.model.to_dict() == second.model.to_dict()
    assert (left.parameters, left.findings, left.rest) == (
        right.parameters,
        right.findings,
        right.rest,
    )
    for first, second in zip(left.clusters, right.clusters, strict=True):
        assert (first.callpath, first.metric, first.run) == (
            second.callpath,
            second.metric,
            second.run,
        )
        assert first.names == second.names
        np.testing.assert_array_equal(first.labels, second.labels)


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.full) for seed in (1, 2))]
)
@pytest.mark.parametrize("classes", ["joint", "paper"])
def test_runs_that_arrive_in_any_order_have_the_models_of_a_refit_from_scratch(seed, classes):
    random = np.random.default_rng(seed)
    runs = [make_run(p, r) for p in SIZES for r in range(MAX_EVIDENCE + 3)]
    runs = [runs[index] for index in random.permutation(len(runs))]
    options = RefitOptions(classes=classes)

    models, class_means = ModelSet(), None
    for end in (5, 12, 20, *range(26, len(runs) + 1)):
        arrived = experiment(runs[:end])
        models, class_means = remodel_again(arrived, options, previous=class_means)

    assert_equal(models, remodel(experiment(runs), options))


def test_classes_of_equal_counts_are_found_once(monkeypatch):
    # Four paths, of which two are never called by the first rank, and whose names differ only.
    paths = tuple(CallPath.parse(f"main->{name}") for name in ("a", "b", "c", "d"))
    runs = []
    for p in (4, 8, 16, 32):
        counts = np.ones((4, p))
        counts[1:3, 0] = np.nan
        counts[3] = np.arange(p) % 2
        runs.append((RunKey.of({"p": p}), RunTable(paths, (VISITS,), {VISITS.name: counts})))
    n_rows = []
    find_rows = joint.partition_by_counts

    def count_rows(values, classes_of_row):
        n_rows.append(len(classes_of_row))
        return find_rows(values, classes_of_row)

    monkeypatch.setattr(joint, "partition_by_counts", count_rows)
    together = remodel(experiment(runs))
    monkeypatch.setattr(
        ClassFinder, "_find_families", lambda self, values: [[row] for row in range(4)]
    )
    alone = remodel(experiment(runs))

    assert n_rows == [3, 4]
    assert len(together.models) == len(alone.models) > 4
    assert [model.key for model in together.models] == [model.key for model in alone.models]
    assert [repr(m.model.to_dict()) for m in together.models] == [
        repr(m.model.to_dict()) for m in alone.models
    ]
    assert together.findings == alone.findings
    assert [(c.callpath, c.run, c.names, c.labels.tolist()) for c in together.clusters] == [
        (c.callpath, c.run, c.names, c.labels.tolist()) for c in alone.clusters
    ]


def test_a_later_repetition_needs_the_values_of_no_run_before_it():
    before = [make_run(p, r) for p in SIZES for r in range(MAX_EVIDENCE)]
    _, class_means = remodel_again(experiment(before))
    new = make_run(SIZES[-2], MAX_EVIDENCE)
    # What no model covers is the share of the largest run.
    largest = next(run for run in before if run[0].size == SIZES[-1])
    known = [run if run is largest else without_values(run) for run in before]

    models, _ = remodel_again(experiment([*known, new]), previous=class_means)

    assert runs_to_read(experiment([*known, new]), ClassSettings(), class_means)[0] == {len(known)}
    assert_equal(models, remodel(experiment([*before, new])))


def test_a_later_repetition_with_another_call_path_is_evidence():
    before = [make_run(p, r, paths=PATHS[:3]) for p in SIZES for r in range(MAX_EVIDENCE)]
    _, class_means = remodel_again(experiment(before))
    new = [make_run(p, MAX_EVIDENCE) for p in SIZES]

    models, _ = remodel_again(experiment([*before, *new]), previous=class_means)

    assert PATHS[3] in {series.key.callpath for series in models.models}
    assert_equal(models, remodel(experiment([*before, *new])))


@pytest.mark.parametrize(
    "change",
    [
        lambda runs, settings: (experiment(runs[1:]), settings),
        lambda runs, settings: (
            replace(experiment(runs), contents=("other",) * len(runs)),
            settings,
        ),
        lambda runs, settings: (
            replace(experiment(runs), crowded={runs[0][0]: 2}),
            settings,
        ),
        lambda runs, settings: (experiment(runs), replace(settings, method="paper")),
        lambda runs, settings: (replace(experiment(runs), contents=()), settings),
    ],
    ids=["a run less", "other values", "crowded", "another method", "unknown contents"],
)
def test_everything_is_read_again_where_the_classes_may_be_others(change):
    runs = [make_run(p, r) for p in SIZES for r in range(2)]
    _, class_means = remodel_again(experiment(runs))

    changed, settings = change(runs, ClassSettings())

    assert runs_to_read(changed, settings, class_means)[0] == set(range(len(changed.runs)))


def test_call_paths_without_a_measured_root_are_minor_beside_the_whole_run(monkeypatch):
    """Where the root is missing, a search per call path would cost as much as all else."""

    def fail(*arguments, **options):
        raise AssertionError("classes of a minor call path were searched")

    monkeypatch.setattr("insitu.modeling.classes.joint.find_classes", fail)
    paths = tuple(CallPath.parse(f"solver->f{i}") for i in range(120))
    runs = []
    for p in SIZES:
        times = np.random.default_rng(p).lognormal(0, 0.05, (len(paths), p))
        runs.append((RunKey.of({"p": p}), RunTable(paths, (TIME,), {TIME.name: times})))
    models = remodel(experiment(runs))
    of_all = [series for series in models.models if series.key.behaviour == "all"]
    assert len(of_all) == len(models.models) == len(paths)
