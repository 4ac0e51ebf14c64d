"""A violation that one measurement alone shows, and terms that describe how counts are rounded."""

import numpy as np
import pytest

from insitu.entities import TIME, VISITS, CallPath, Metric, RunKey
from insitu.expectations.accepted_values import accepted_values, find_no_evidence
from insitu.expectations.assess import assess
from insitu.expectations.baseline import bounds_from_baseline
from insitu.expectations.confirmation import find_disturbing_point
from insitu.expectations.entries import entry_of
from insitu.expectations.limits import expect
from insitu.expectations.result import Result, Status
from insitu.expectations.rounding import find_unit
from insitu.modeling.measurement import Experiment, RunTable
from insitu.modeling.pipeline import remodel

SOLVE = CallPath.parse("main->solve")
SCALES = (4, 8, 16, 32, 64)


def experiment(values: dict[int, list[float]], metric: Metric = TIME) -> Experiment:
    """The values of one call path by the number of ranks and repetition."""
    runs = []
    for p, repetitions in values.items():
        for i, value in enumerate(repetitions):
            table = RunTable((SOLVE,), (metric,), {metric.name: np.full((1, p), value)})
            runs.append((RunKey.of({"p": float(p)}, i), table))
    return Experiment(("p",), tuple(runs))


def judge(measured: Experiment, growth: str, metric: Metric = TIME) -> Result:
    (result,) = assess(
        [entry_of("solve", metric.name, expect(growth))], measured, remodel(measured)
    )
    return result


def judge_beside_others(
    scales: tuple[int, ...], repetitions: int, *, slow: float = 1.0, n_slow: int = 1, power: int = 1
) -> Result:
    """Times in proportion to p with noise of 1 %, one of which grows otherwise.

    Args:
        scales: numbers of ranks.
        repetitions: of each scale.
        slow: factor of that one at the largest scale.
        n_slow: repetitions with that factor.
        power: of p, of that one.
    """
    rng = np.random.default_rng(1)
    paths = (SOLVE, *(CallPath.parse(f"main->f{i}") for i in range(6)))
    runs = []
    for p in scales:
        for i in range(repetitions):
            seconds = p * rng.normal(1, 0.01, (len(paths), 1))
            seconds[0] *= float(p) ** (power - 1)
            seconds[0] *= slow if p == scales[-1] and i < n_slow else 1.0
            table = RunTable(paths, (TIME,), {TIME.name: np.repeat(seconds, p, axis=1)})
            runs.append((RunKey.of({"p": float(p)}, i), table))
    measured = Experiment(("p",), tuple(runs))
    results = assess([entry_of("*", TIME.name, expect("O(p)"))], measured, remodel(measured))
    (result,) = [result for result in results if result.subject == str(SOLVE)]
    return result


@pytest.mark.parametrize("repetitions", [1, 2])
def test_one_disturbed_run_violates_nothing(repetitions):
    result = judge_beside_others((8, 27, 64), repetitions, slow=2.0)

    assert result.status is Status.UNSETTLED
    assert result.text.endswith("undecided, only the measurement at p=64 shows it")
    assert result.advice.startswith("repeat the runs")


def test_three_slow_repetitions_or_several_slow_scales_violate_an_expectation():
    repeated = judge_beside_others((8, 27, 64), 3, slow=2.0, n_slow=3)
    grown = judge_beside_others((4, 8, 16, 32, 64), 1, power=2)

    assert repeated.status is Status.VIOLATED
    assert grown.status is Status.VIOLATED


def test_the_point_is_named_without_which_values_are_as_expected():
    points = np.array([[4.0, 64], [8, 64], [16, 64], [4, 128], [8, 128], [16, 128]])
    values = (points[:, 0] * points[:, 1])[:, None]
    values[3] *= 2

    def find(text: str) -> str:
        return find_disturbing_point(
            points, values, expect(text), parameters=("p", "n"), noise=0.01
        )

    assert find("O(n * p)") == "p=4, n=128"
    assert find("O(p)") == ""  # n counts at all points


@pytest.mark.parametrize(("noise", "is_evidence"), [(0.02, True), (0.3, False)])
def test_noise_is_no_growth_beside_accepted_values(noise, is_evidence):
    accepted = remodel(experiment({p: [1.0] for p in SCALES})).models[0].model
    grown = {p: [1 + 0.01 * p] for p in SCALES}
    now = remodel(experiment(grown)).models[0].model

    doubt = find_no_evidence(accepted_values(accepted), now, TIME, noise=noise)

    assert (doubt == "") == is_evidence


def test_one_slow_scale_is_no_growth_beside_accepted_values():
    accepted = remodel(experiment({p: [1.0] for p in SCALES})).models[0].model
    slow = {p: [2.0 if p == SCALES[-1] else 1.0] for p in SCALES}

    doubts = []
    for metric in (TIME, VISITS):  # counts are not disturbed
        now = remodel(experiment(slow, metric)).models[0].model
        doubts.append(find_no_evidence(accepted_values(accepted), now, metric, noise=0.01))

    assert doubts[0].startswith("at p=64")
    assert doubts[1] == ""


@pytest.mark.parametrize("cells", [10_007, 48_611, 99_991])
def test_rounding_of_work_that_is_divided_is_no_growth(cells):
    divided = experiment({p: [float(round(cells / p))] for p in SCALES}, VISITS)
    root = experiment({p: [float(round(cells / p**0.5))] for p in SCALES}, VISITS)
    with_more = experiment({p: [round(cells / p) + cells / 10 + 0.0] for p in SCALES}, VISITS)

    assert judge(divided, "O(1 / p)", VISITS).status is Status.MET
    assert judge(root, "<= O(1 / p^(1/2))", VISITS).status is Status.MET
    assert judge(with_more, "O(1 / p)", VISITS).status is Status.VIOLATED


def test_terms_that_cancel_each_other_describe_rounding_as_well():
    """Exactly 1,730,048 / p - 7 + log2(p)."""
    values = {16: [108125.0], 32: [54062.0], 64: [27031.0], 128: [13516.0]}

    assert judge(experiment(values, VISITS), "O(1 / p)", VISITS).status is not Status.VIOLATED


@pytest.mark.parametrize("factor", [1.37, 1.91, 2.17])
def test_a_count_that_is_larger_by_a_factor_grows_no_faster(factor):
    calls = {p: [float(round(8243 * p))] for p in SCALES}
    more = {p: [float(round(8243 * factor * p))] for p in SCALES}
    now = experiment(more, VISITS)
    models = remodel(now)

    bounds, _ = bounds_from_baseline(remodel(experiment(calls, VISITS)), models, [])

    assert Status.VIOLATED not in {result.status for result in assess(bounds, now, models)}


def test_the_unit_of_counts_is_what_divides_all_of_them():
    assert find_unit([1600.0, 2400.0, 8000.0]) == 800.0
    assert find_unit([3.0, 5.0]) == 1.0
    assert find_unit([3.5, 5.0]) == 0.0


@pytest.mark.parametrize(
    ("constant", "status"), [(0.015, Status.UNSETTLED), (0.4, Status.VIOLATED), (0.0, Status.MET)]
)
def test_a_constant_of_a_few_percent_violates_no_law_that_falls(constant, status):
    rng = np.random.default_rng(1)
    paths = (SOLVE, *(CallPath.parse(f"main->f{i}") for i in range(6)))
    runs = []
    for p in (1, 3, 5, 7, 9):
        for i in range(3):
            seconds = 4.3 / p * rng.normal(1, 0.005, (len(paths), 1))
            seconds[0] = (constant + 4.3 / p) * (1.0 + 0.001 * (i - 1))
            table = RunTable(paths, (TIME,), {TIME.name: np.repeat(seconds, p, axis=1)})
            runs.append((RunKey.of({"p": float(p)}, i), table))
    measured = Experiment(("p",), tuple(runs))

    results = assess([entry_of("*", TIME.name, expect("O(1 / p)"))], measured, remodel(measured))

    (result,) = [result for result in results if result.subject == str(SOLVE)]
    assert result.status is status
    assert ("only 3.0 % of the largest scale seem to be constant" in result.text) == (
        status is Status.UNSETTLED
    )
