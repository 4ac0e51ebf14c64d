"""The sampling error of times."""

import numpy as np
import pytest

from insitu import fit
from insitu.entities import TIME, TIME_EXCLUSIVE, VISITS, CallPath, RunKey
from insitu.modeling import modelers
from insitu.modeling.measurement import Experiment, RunTable, SeriesKey
from insitu.modeling.pipeline import remodel
from insitu.modeling.sampling import merge_rare_functions, sampling_variances

INTERVAL_S = 0.01
NAN = np.nan


def make_table(rows):
    """A table of call path, visits, time and exclusive time per rank; NaN visits mean sampled."""
    paths = tuple(CallPath.parse(text) for text in rows)
    columns = [np.array(column, dtype=float) for column in zip(*rows.values(), strict=True)]
    names = (VISITS.name, TIME.name, TIME_EXCLUSIVE.name)
    return RunTable(paths, (VISITS, TIME, TIME_EXCLUSIVE), dict(zip(names, columns, strict=True)))


def values_of(table, metric, text):
    return table.values[metric][table.callpaths.index(CallPath.parse(text))].tolist()


def draw_run(rng, size, times):
    """A run whose functions below main take so long on every rank, as samples show it."""
    rows = {"app": ([1] * size, [sum(times.values()) + 0.1] * size, [0.1] * size)}
    sampled = {name: rng.poisson(time / INTERVAL_S, size) for name, time in times.items()}
    total = sum(sampled.values()) * INTERVAL_S
    rows["app->main"] = ([NAN] * size, total, [0.0] * size)
    for name, count in sampled.items():
        seen = np.where(count > 0, count * INTERVAL_S, NAN)
        rows[f"app->main->{name}"] = ([NAN] * size, seen, seen)
    return make_table(rows)


def test_the_variance_is_that_of_repeated_samples():
    rng = np.random.default_rng(7)
    path = CallPath.parse("app->main->solve")
    key, seen, known = RunKey.of({"p": 4.0}), [], []
    for _ in range(400):
        table = draw_run(rng, 4, {"solve": 0.4, "rest": 3.6})
        experiment = Experiment(("p",), ((key, table),), sampling_s={key: INTERVAL_S})
        seen.append(np.nanmean(values_of(table, TIME.name, str(path))))
        series = {SeriesKey(path, TIME.name): np.array([seen[-1]])}
        known.append(sampling_variances(experiment, TIME.name, series)[0, 0])

    # Draws of Poisson instead of binomial numbers: 1 - share, which is 0.9, makes the difference.
    assert np.mean(known) == pytest.approx(np.var(seen) / np.mean(seen) ** 2, rel=0.2)


def test_no_sample_in_small_runs_is_no_law() -> None:
    """0, 0, 0, 2, 3 and 11 samples may come from as much time in each rank: the law is no cube."""
    path = CallPath.parse("app->main->solve")
    key, interval = SeriesKey(path, TIME.name), 0.01
    samples = {2: 0, 3: 0, 4: 0, 6: 2, 8: 3, 12: 11}
    runs = []
    for size, count in samples.items():
        seconds = np.zeros(size)
        seconds[:count] = interval
        rows = {"app": ([1] * size, [1.0] * size, [0.9] * size)}
        rows[str(path)] = ([NAN] * size, seconds, seconds)
        runs.append((RunKey.of({"p": size}), make_table(rows)))
    experiment = Experiment(
        ("p",), tuple(runs), sampling_s=dict.fromkeys([run for run, _ in runs], interval)
    )
    values = np.array([interval * count / size for size, count in samples.items()])

    known = sampling_variances(experiment, TIME.name, {key: values})
    coordinates = np.array([[size] for size in samples], dtype=float)
    (model,) = modelers.fit(coordinates, values[None], known_variances=known[:, :, None])

    deviations = np.sqrt(known[0]) * np.where(values > 0, values, 1e-3 * values.max())
    assert deviations[:3] == pytest.approx(interval / np.array([2, 3, 4]), rel=0.02)
    assert model.predict([[96.0]])[0] < 4.7 / 2  # the cube is at 4.7 s
    assert np.ravel(model.interval([[96.0]]))[0] < 0.009  # as on 12 ranks: growth may be chance


def test_measured_times_and_runs_without_samples_have_no_sampling_error():
    table = make_table(
        {"app": ([1], [2.0], [0.5]), "app->main": ([NAN], [1.5], [1.2]),
         "app->main->MPI_Send": ([9], [0.3], [0.3])}
    )  # fmt: skip
    key = RunKey.of({"p": 1.0})
    series = {SeriesKey(path, TIME.name): np.array([1.0]) for path in table.callpaths}

    sampled = Experiment(("p",), ((key, table),), sampling_s={key: INTERVAL_S})
    variances = sampling_variances(sampled, TIME.name, series)

    assert variances[:, 0].tolist() == [0.0, pytest.approx(INTERVAL_S * 1.2 * (1 - 1.2 / 2)), 0.0]
    assert sampling_variances(Experiment(("p",), ((key, table),)), TIME.name, series) is None
    assert sampling_variances(sampled, "visits", series) is None


def test_functions_with_few_samples_count_for_their_callers():
    table = make_table(
        {
            "app": ([1, 1], [9.0, 9.0], [1.0, 1.0]),
            "app->main": ([NAN, NAN], [8.0, 8.0], [0.0, 0.0]),
            "app->main->solve": ([NAN, NAN], [8.0, 7.99], [7.92, 7.98]),
            "app->main->solve->rare": ([NAN, NAN], [0.04, 0.01], [0.01, NAN]),
            "app->main->solve->rare->tiny": ([NAN, NAN], [0.03, 0.01], [0.03, 0.01]),
            "app->main->solve->send": ([NAN, NAN], [0.04, NAN], [0.01, NAN]),
            "app->main->solve->send->MPI_Send": ([5, NAN], [0.03, NAN], [0.03, NAN]),
        }
    )

    merged = merge_rare_functions(table, INTERVAL_S)

    names = [str(path) for path in merged.callpaths]
    assert names == [str(path) for path in table.callpaths if "rare" not in str(path)]
    assert values_of(merged, TIME_EXCLUSIVE.name, "app->main->solve") == pytest.approx([7.96, 7.99])
    assert values_of(merged, TIME.name, "app->main->solve") == [8.0, 7.99]
    assert np.isnan(values_of(merged, TIME.name, "app->main->solve->send")[1])  # it made no call


def test_a_rank_without_a_sample_has_the_time_0():
    table = draw_run(np.random.default_rng(1), 64, {"solve": 2.0, "small": 0.02})
    assert np.isnan(values_of(table, TIME.name, "app->main->small")).any()

    merged = merge_rare_functions(table, INTERVAL_S)

    assert np.isfinite(values_of(merged, TIME.name, "app->main->small")).all()


def test_samples_of_equal_ranks_make_no_classes():
    rng = np.random.default_rng(3)
    runs = []
    for p in (4, 8, 16, 32, 64):
        table = draw_run(rng, p, {"solve": 0.05 * p, "shift": 0.1, "small": 0.03})
        runs.append((RunKey.of({"p": float(p)}), merge_rare_functions(table, INTERVAL_S)))
    sampling = {key: INTERVAL_S for key, _ in runs}

    models = remodel(Experiment(("p",), tuple(runs), sampling_s=sampling))

    behaviours = {model.key.behaviour for model in models.models}
    assert behaviours == {"all"}
    solve = [m for m in models.models if m.key.callpath.name == "solve" and m.key.metric == "time"]
    assert str(solve[0].model.leading(64)[0]) == "(Fraction(1, 1), Fraction(0, 1))"


def test_values_with_a_larger_known_error_count_less():
    points = [2.0, 4.0, 8.0, 16.0, 32.0]
    values = np.array([[[1.8], [1.0], [1.01], [0.99], [1.0]]])  # the first is off by 80 %
    known = np.zeros(values.shape)
    known[0, 0] = 0.5**2

    plain, weighted = fit(points, values)[0], fit(points, values, known_variances=known)[0]

    assert abs(weighted.predict([2.0])[0] - 1) < 0.1 < abs(plain.predict([2.0])[0] - 1)


def draw_sampled(rng, means):
    """Times (k, n) of functions that are hit by Poisson numbers, and their relative variances."""
    drawn = np.maximum(rng.poisson(means), 1)
    return drawn * INTERVAL_S, 1 / drawn


def test_values_with_a_larger_known_error_count_less_with_several_parameters():
    points = np.array([[p, n] for p in (2.0, 8.0, 32.0) for n in (1.0, 2.0, 4.0)])
    values = np.array([1.8, 1.0, 1.01, 0.99, 1.0, 1.0, 1.01, 0.99, 1.0])[None, :, None]
    known = np.zeros(values.shape)
    known[0, 0] = 0.5**2

    plain, weighted = (
        modelers.fit(points, values, parameters=("p", "n"), known_variances=errors)[0]
        for errors in (None, known)
    )

    off = [abs(np.log(model.predict([[128.0, 1.0]])[0])) for model in (weighted, plain)]
    assert off[0] < 0.02 < off[1]


def test_series_without_noise_do_not_make_sampled_ones_certain():
    """Functions that grow in proportion to p, with 2 to 80 samples, among three times as many."""
    rng = np.random.default_rng(5)
    points = np.array([2.0, 4.0, 8.0, 16.0, 32.0, 64.0])
    samples = np.maximum(rng.poisson(1.25 * points, (40, len(points))), 1)
    quiet = 10 ** rng.uniform(-2, 1, 120)[:, None] * np.sqrt(points)
    quiet *= np.exp(0.002 * rng.standard_normal(quiet.shape))
    values = np.concatenate([samples * INTERVAL_S, quiet])[:, :, None]
    known = np.zeros(values.shape)
    known[:40, :, 0] = 1 / samples

    models = fit(points, values, known_variances=known)

    bounds = np.array([np.ravel(model.interval([[256.0]])) for model in models[:40]])
    truth = 1.25 * 256 * INTERVAL_S
    assert np.mean((bounds[:, 0] <= truth) & (truth <= bounds[:, 1])) >= 0.9
