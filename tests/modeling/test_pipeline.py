"""From an experiment to its models."""

from dataclasses import replace

import numpy as np
import pytest

from insitu.entities import MEMORY_RSS, TIME, TIME_EXCLUSIVE, VISITS, CallPath, RunKey
from insitu.errors import ModelingError
from insitu.modeling.base import ModelSet
from insitu.modeling.measurement import Experiment, RunTable, SeriesKey
from insitu.modeling.pipeline import RefitOptions, remodel, remodel_again
from tests.support.parameters import plain_and_full

FLUX = CallPath.parse("main->flux")
HALO = CallPath.parse("main->halo")
MAIN = CallPath.parse("main")
NAN = float("nan")
SIZES = (4, 8, 16, 32, 64)


def run(values, *, repetition=0, metric=TIME, **parameters):
    """One run: `values` maps call paths to the values of all ranks."""
    paths = tuple(values)
    array = np.array([values[path] for path in paths], dtype=float)
    parameters = parameters or {"p": array.shape[1]}
    return RunKey.of(parameters, repetition), RunTable(paths, (metric,), {metric.name: array})


def ends(p, *, slow=4.0):
    """A 1-D domain: the two end ranks grow with p, those between are constant."""
    return [slow * p] + [1.0] * (p - 2) + [slow * p]


def experiment(*runs, parameters=("p",)):
    return Experiment(parameters, runs)


def with_contents(measured):
    """The same runs, whose values are recognised by their keys."""
    return replace(measured, contents=tuple(str(key) for key, _ in measured.runs))


def by_key(models):
    return {series.key: series.model for series in models.models}


def assert_same(left_set: ModelSet, right_set: ModelSet):
    """Equality of everything; coefficients but for the rounding of larger batches."""
    assert left_set.parameters == right_set.parameters
    assert left_set.findings == right_set.findings
    assert [model.key for model in left_set.models] == [model.key for model in right_set.models]
    for left, right in zip(left_set.models, right_set.models, strict=True):
        assert left.metric == right.metric
        assert str(left.model) == str(right.model)
        at = left.model.coordinates
        np.testing.assert_allclose(left.model.predict(at), right.model.predict(at), rtol=1e-9)
        np.testing.assert_array_equal(left.model.values, right.model.values)
    assert len(left_set.clusters) == len(right_set.clusters)
    for left, right in zip(left_set.clusters, right_set.clusters, strict=True):
        assert (left.callpath, left.metric, left.run) == (right.callpath, right.metric, right.run)
        assert left.names == right.names
        np.testing.assert_array_equal(left.labels, right.labels)


def test_each_class_has_a_model_of_the_mean_over_its_ranks():
    runs = [run({FLUX: ends(p)}) for p in SIZES]

    models = by_key(remodel(experiment(*runs)))

    names = ("inner", "end", "all")
    assert set(models) == {SeriesKey(FLUX, "time", name) for name in names}
    predicted = models[SeriesKey(FLUX, "time", "end")].predict(np.array([[256.0]]))
    assert predicted == pytest.approx([1024.0], rel=1e-6)
    constant = models[SeriesKey(FLUX, "time", "inner")].predict(np.array([[256.0]]))
    assert constant == pytest.approx([1.0], rel=1e-6)


def time_of_tree(p, rng):
    """A run in which main calls two functions that call none."""
    own = rng.normal(1, 0.05, (3, p)) * np.array([[0.1], [1.0 * p], [2.0]])
    inclusive = own + np.array([[1.0], [0.0], [0.0]]) * own[1:].sum(axis=0)
    values = {TIME.name: inclusive, TIME_EXCLUSIVE.name: own}
    return RunKey.of({"p": p}, 0), RunTable((MAIN, FLUX, HALO), (TIME, TIME_EXCLUSIVE), values)


def test_a_function_that_calls_none_has_one_model_of_its_time():
    """Its inclusive and its exclusive time are the same values."""
    rng = np.random.default_rng(3)
    result = remodel(experiment(*[time_of_tree(p, rng) for p in SIZES]))

    inclusive, exclusive = (
        {s.key.callpath: s.model for s in result.models if s.metric == metric}
        for metric in (TIME, TIME_EXCLUSIVE)
    )
    assert inclusive[FLUX] is exclusive[FLUX]
    assert inclusive[HALO] is exclusive[HALO]
    assert inclusive[MAIN] is not exclusive[MAIN]


def test_the_mean_over_all_ranks_has_a_model_besides_those_of_classes():
    models = by_key(remodel(experiment(*[run({FLUX: ends(p)}) for p in SIZES])))

    mean = models[SeriesKey(FLUX, "time", "all")]
    assert mean.values == pytest.approx([np.mean(ends(p)) for p in SIZES])


def test_a_single_class_is_all_ranks():
    runs = [run({FLUX: [float(p)] * p}) for p in SIZES]

    result = remodel(experiment(*runs))

    assert list(by_key(result)) == [SeriesKey(FLUX, "time", "all")]
    assert result.findings == ()
    assert {group.names for group in result.clusters} == {("all",)}


def test_clusters_say_for_every_rank_its_class():
    result = remodel(experiment(*[run({FLUX: ends(p)}) for p in SIZES]))

    first = result.clusters[0]
    assert first.run == RunKey.of({"p": 4})
    assert first.labels.tolist() == [1, 0, 0, 1]
    assert first.names == ("inner", "end")


def test_where_numbers_differ_the_mean_is_modelled_besides_and_it_is_said():
    runs = [run({FLUX: [8.0] * 2}), *[run({FLUX: ends(p)}) for p in SIZES]]

    result = remodel(experiment(*runs), RefitOptions(classes="paper"))

    assert [key.behaviour for key in by_key(result)] == ["all", "end", "inner"]
    (finding,) = [item for item in result.findings if item.code == "classes-differ"]
    assert "1 class at p=2; 2 classes at p=4 p=8 p=16 p=32 p=64" in finding.text


def test_repetitions_are_averaged_per_rank_before_they_are_clustered():
    """One slow repetition of one rank must not split what is alike on average [CLU §III-B]."""
    runs = [run({FLUX: [1.0] * p}, repetition=r) for p in SIZES for r in range(3)]
    noisy = np.ones(4)
    noisy[2] = 1.2
    runs[1] = run({FLUX: noisy}, repetition=1)

    result = remodel(experiment(*runs), RefitOptions(classes="paper"))

    (model,) = result.models
    assert model.key.behaviour == "all"
    assert len(result.clusters) == len(SIZES)


def test_the_modeler_takes_the_median_over_repetitions():
    runs = [run({FLUX: [p + r / 100] * p}, repetition=r) for p in SIZES for r in range(3)]

    (model,) = remodel(experiment(*runs)).models

    assert model.model.values == pytest.approx([p + 0.01 for p in SIZES])


def test_a_call_path_that_is_missing_at_one_scale_is_modelled_from_the_others():
    runs = [run({MAIN: [1.0] * p, FLUX: [float(p)] * p}) for p in (4, 8, 16, 32, 64)]
    runs[1] = run({MAIN: [1.0] * 8})

    models = by_key(remodel(experiment(*runs)))

    assert models[SeriesKey(FLUX, "time", "all")].coordinates.ravel().tolist() == [4, 16, 32, 64]


def test_a_call_path_seen_at_two_coordinates_only_is_named():
    runs = [run({MAIN: [1.0] * p} | ({FLUX: [1.0] * p} if p < 16 else {})) for p in SIZES]

    result = remodel(experiment(*runs))

    assert [series.key.callpath for series in result.models] == [MAIN]
    assert [(finding.code, finding.where) for finding in result.findings] == [
        ("too-few-points", str(FLUX))
    ]


def test_two_coordinates_are_too_few_for_any_model():
    result = remodel(experiment(run({FLUX: [1.0] * 2}), run({FLUX: [1.0] * 4})))

    assert result.models == []
    assert len(result.clusters) == 2
    assert [finding.code for finding in result.findings] == ["too-few-points"]


def test_an_empty_experiment_has_no_models():
    assert remodel(experiment()).models == []


@pytest.mark.parametrize("classes", ["joint", "paper"])
@pytest.mark.parametrize(
    "values",
    [
        lambda p: np.zeros(p),
        lambda p: -np.arange(1.0, p + 1),
        lambda p: np.where(np.arange(p) % 2, 0.0, 1.0),
        lambda p: np.full(p, NAN),
        lambda p: np.full(p, np.inf),
        lambda p: 3.0 ** np.arange(p),
        lambda p: np.where(np.arange(p) == 0, NAN, 2.0),
    ],
    ids=["zeros", "negative", "some zero", "missing", "infinite", "all different", "one missing"],
)
@pytest.mark.filterwarnings("error")
def test_odd_values_have_classes_and_models_or_none(values, classes):
    runs = [run({FLUX: values(p)}, repetition=r) for p in (1, 2, 4, 8, 16) for r in range(2)]

    result = remodel(experiment(*runs), RefitOptions(classes=classes, modeler="search"))

    for clusters in result.clusters:
        assert len(clusters.labels) == clusters.run.size
        assert clusters.labels.max() == len(clusters.names) - 1


def test_one_rank_is_one_class():
    runs = [run({FLUX: [float(n)]}, n=n, p=1) for n in SIZES]

    (model,) = remodel(experiment(*runs, parameters=("n",))).models

    assert model.key == SeriesKey(FLUX, "time", "all")


def test_ranks_without_the_value_belong_to_no_class():
    runs = [run({FLUX: [2.0, NAN] + [2.0] * (p - 2)}) for p in SIZES]

    result = remodel(experiment(*runs))

    assert result.clusters[0].labels.tolist() == [0, -1, 0, 0]
    assert by_key(result)[SeriesKey(FLUX, "time", "all")].predict(
        np.array([[128.0]])
    ) == pytest.approx([2.0])


def test_a_run_that_lacks_a_parameter_is_left_out_and_named():
    runs = [run({FLUX: [1.0] * 2}, p=2, n=n) for n in (1, 2, 4, 8)]
    lacking = run({FLUX: [9.0] * 2}, p=2)

    result = remodel(experiment(*runs, lacking, parameters=("n",)))

    assert [finding.code for finding in result.findings] == ["parameter-missing"]
    assert "p=2#0" in result.findings[0].text


def test_another_threshold_joins_what_ten_percent_parts():
    runs = [run({FLUX: [1.0] * (p - 1) + [1.2]}) for p in SIZES]

    assert len(remodel(experiment(*runs), RefitOptions(classes="paper")).models) == 3
    assert len(remodel(experiment(*runs), RefitOptions(classes="paper", threshold=0.5)).models) == 1


def test_deterministic_metrics_and_levels_are_clustered_by_the_same_rule():
    for metric in (VISITS, MEMORY_RSS):
        runs = [run({FLUX: ends(p)}, metric=metric) for p in SIZES]

        keys = set(by_key(remodel(experiment(*runs))))

        assert keys == {
            SeriesKey(FLUX, metric.name, "inner"),
            SeriesKey(FLUX, metric.name, "end"),
            SeriesKey(FLUX, metric.name, "all"),
        }


@pytest.mark.parametrize("classes", ["joint", "paper"])
@pytest.mark.parametrize("metric", [TIME, VISITS, MEMORY_RSS])
@pytest.mark.parametrize(
    "values",
    [
        lambda p: np.full(p, 3.0),
        lambda p: np.zeros(p),
        lambda p: 2.0 ** np.arange(p),
        lambda p: np.where(np.arange(p) == 1, np.nan, 5.0),
        lambda p: np.full(p, np.nan),
        lambda p: np.where(np.arange(p) % 2 == 0, -4.0, 4.0),
        lambda p: np.where(np.arange(p) == 0, 0.0, 4.0),
        lambda p: np.where(np.arange(p) == 0, np.inf, 4.0),
    ],
    ids=["equal", "zero", "different", "missing", "nothing", "signs", "one zero", "infinite"],
)
def test_any_values_of_any_number_of_ranks_have_classes(values, metric, classes):
    """From one rank on; who has no value is in no class, everybody else is in one."""
    runs = [run({FLUX: values(p)}, metric=metric) for p in (1, 2, 4, 8)]

    result = remodel(experiment(*runs), RefitOptions(classes=classes, modeler="search"))

    for clusters in result.clusters:
        known = np.isfinite(values(clusters.run.size))
        assert (clusters.labels >= 0).tolist() == known.tolist()
        assert set(clusters.labels[known].tolist()) == set(range(len(clusters.names)))
        assert len(set(clusters.names)) == len(clusters.names)
    if len(set(np.nan_to_num(values(8)).tolist())) == 1:
        assert {group.names for group in result.clusters} <= {("all",)}


def test_memory_that_scatters_is_one_class_and_memory_of_rank_0_another():
    """Caches and buffers differ by accident; the tables of rank 0 do not."""
    rng = np.random.default_rng(6)
    accident = [1e8 * np.exp(0.2 * rng.standard_normal(p)) for p in SIZES]
    tables = [np.where(np.arange(p) == 0, 3e8, 1e8) for p in SIZES]
    runs = [
        run({FLUX: of_flux, MAIN: of_main}, metric=MEMORY_RSS)
        for of_flux, of_main in zip(accident, tables, strict=True)
    ]

    result = {group.callpath: group.names for group in remodel(experiment(*runs)).clusters}

    assert result == {FLUX: ("all",), MAIN: ("others", "rank 0")}


@pytest.mark.parametrize("modeler", ["search", "evidence"])
@plain_and_full("classes", ["joint", "paper"])
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.full) for seed in (1, 2))]
)
def test_incremental_equals_from_scratch(seed, classes, modeler):
    rng = np.random.default_rng(seed)
    paths = [CallPath.parse(f"main->f{i}") for i in range(6)]
    runs = []
    for p in (2, 4, 8, 16, 32, 64):
        for r in range(2):
            chosen = [path for path in paths if rng.random() < 0.7]
            values = {path: np.where(rng.random(p) < 0.3, 5.0, 1.0) * p for path in chosen}
            runs.append(run(values or {MAIN: [1.0] * p}, repetition=r))

    grown, class_means = ModelSet(), None
    for end in range(1, len(runs) + 1):
        grown, class_means = remodel_again(
            with_contents(experiment(*runs[:end])),
            RefitOptions(classes=classes, modeler=modeler),
            previous=class_means,
        )

    assert_same(grown, remodel(experiment(*runs), RefitOptions(classes=classes, modeler=modeler)))


def test_counts_part_the_times_of_ranks_that_noise_would_hide():
    """Times differ by 3 % between classes at 5 % noise; the calls tell which ranks do more."""
    rng = np.random.default_rng(4)
    runs = []
    for p in SIZES:
        calls = np.where(np.isin(np.arange(p), [0, p - 1]), 20.0, 10.0)
        times = (1 + calls / 300) * (1 + 0.05 * rng.standard_normal(p))
        key, table = run({FLUX: calls}, metric=VISITS)
        values = {"visits": table.values["visits"], "time": times[None]}
        runs.append((key, RunTable((FLUX,), (VISITS, TIME), values)))

    clusters = remodel(experiment(*runs)).clusters

    of_time = [group.labels.tolist() for group in clusters if group.metric == "time"]
    assert of_time == [[1] + [0] * (p - 2) + [1] for p in SIZES] or of_time == [
        [0] + [1] * (p - 2) + [0] for p in SIZES
    ]


def test_runs_with_fewer_classes_are_matched_by_laws_of_value_and_size():
    """p = 4 has corners only, p = 8 corners and one kind of edge [CLU §V]."""
    runs = []
    for rows, columns in ((2, 2), (2, 4), (4, 4), (4, 8), (8, 8), (8, 16)):
        i, j = np.divmod(np.arange(rows * columns), columns)
        touched = (i == 0) * 1 + (i == rows - 1) + (j == 0) + (j == columns - 1)
        runs.append(run({FLUX: 10.0 + 5 * touched}, metric=VISITS))

    result = remodel(experiment(*runs))

    assert [group.names for group in result.clusters] == [
        ("corner",),
        ("edge", "corner"),
        *[("inner", "edge", "corner")] * 4,
    ]
    assert [finding.code for finding in result.findings] == ["classes-matched"]
    assert result.findings[0].text.startswith("p=4 p=8 lack behaviour classes of 1 call path;")


def test_an_unknown_way_to_find_classes_is_refused():
    with pytest.raises(ModelingError, match="'best'"):
        remodel(experiment(), RefitOptions(classes="best"))


def plane_surfaces(rng, *, is_shuffled):
    """The surface of each rank in planes of several sizes, in order or in any order of ranks."""
    surfaces = {}
    for p, (rows, columns) in {8: (4, 2), 16: (4, 4), 32: (8, 4), 64: (8, 8)}.items():
        x, y = np.divmod(np.arange(p), columns)
        surface = 1.6 * ((y == 0) | (y == columns - 1)) + 1.0 * ((x == 0) | (x == rows - 1))
        surfaces[p] = rng.permutation(surface) if is_shuffled else surface
    return surfaces


def plane_runs(rng, sizes, *, noise=0.02, surfaces=None):
    """Runs of planes of ranks: rows and columns at its ends have surface to exchange."""
    runs = []
    surfaces = surfaces or plane_surfaces(rng, is_shuffled=False)
    for p, surface in surfaces.items():
        for size in sizes:
            times = 1.5e-4 * size + 0.012 * size**0.5 * surface
            runs.append(run({FLUX: times * (1 + noise * rng.standard_normal(p))}, p=p, s=size))
    return runs


def test_classes_over_two_parameters_are_those_of_the_ranks_and_matched_in_every_run():
    runs = plane_runs(np.random.default_rng(6), (1600, 6400, 25600, 102400))

    result = remodel(experiment(*runs, parameters=("p", "s")))

    assert len(result.clusters) == 16
    names = {clusters.run.size: set(clusters.names) for clusters in result.clusters}
    assert names[8] == {"corner", "edge y"}
    assert all(names[p] == {"corner", "edge x", "edge y", "inner"} for p in (16, 32, 64))
    assert {model.key.behaviour for model in result.models} == {*names[64], "all"}


def test_equal_ranks_are_one_class_over_two_parameters():
    rng = np.random.default_rng(7)
    runs = []
    for p in (8, 16, 32, 64):
        for size in (1, 2, 4, 8):
            runs.append(run({FLUX: size * (1 + 0.05 * rng.standard_normal(p))}, p=p, s=size))

    result = remodel(experiment(*runs, parameters=("p", "s")))

    assert {clusters.names for clusters in result.clusters} == {("all",)}


@pytest.mark.parametrize("noise", [0.005, 0.02, 0.05])
def test_shuffled_ranks_have_the_classes_of_their_domain_in_every_run(noise):
    rng = np.random.default_rng(8)
    surfaces = plane_surfaces(rng, is_shuffled=True)
    runs = plane_runs(rng, (1600, 6400, 25600), noise=noise, surfaces=surfaces)

    result = remodel(experiment(*runs, parameters=("p", "s")))

    class_of_surface = {}
    for clusters in result.clusters:
        for label, surface in zip(clusters.labels, surfaces[clusters.run.size], strict=True):
            class_of_surface.setdefault(surface, set()).add(clusters.names[label])
    assert sorted(map(len, class_of_surface.values())) == [1, 1, 1, 1]
    assert len(set.union(*class_of_surface.values())) == 4


def test_ranks_that_each_differ_in_their_own_way_are_one_class_and_it_is_said():
    rng = np.random.default_rng(9)
    runs = []
    for p in (8, 16, 32, 64):
        speed = 1 + 0.2 * np.arange(p) / p
        for size in (1, 2, 4, 8):
            times = size * speed * (1 + 0.01 * rng.standard_normal(p))
            runs.append(run({FLUX: times}, p=p, s=size))

    result = remodel(experiment(*runs, parameters=("p", "s")))

    assert {clusters.names for clusters in result.clusters} == {("all",)}
    assert [finding.code for finding in result.findings] == ["ranks-differ"]


def test_half_of_the_ranks_disturbed_in_a_single_run_are_no_class():
    rng = np.random.default_rng(10)
    runs = []
    for p in (8, 16, 32, 64):
        for size in (1, 2, 4, 8):
            disturbed = 1.3 if size == 4 and p == 32 else 1.0
            times = size * np.where(rng.random(p) < 0.5, disturbed, 1.0)
            runs.append(run({FLUX: times * (1 + 0.01 * rng.standard_normal(p))}, p=p, s=size))

    result = remodel(experiment(*runs, parameters=("p", "s")))

    assert {clusters.names for clusters in result.clusters} == {("all",)}


def test_equal_series_share_a_model_also_where_it_is_marked():
    """It is then packed and stored once, however many call paths have it."""
    runs = [run({FLUX: [1.0] + [NAN] * (p - 1), HALO: [1.0] + [NAN] * (p - 1)}) for p in SIZES]
    crowded = {key: 2 for key, _ in runs}

    models = by_key(remodel(replace(experiment(*runs), crowded=crowded)))

    flux, halo = (models[SeriesKey(path, "time", "all")] for path in (FLUX, HALO))
    assert [finding.code for finding in flux.findings] == ["ranks-crowded", "few-ranks"]
    assert flux is halo
