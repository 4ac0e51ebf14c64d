"""Limits, rules between functions and rules about classes, read and judged."""

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import insitu
from insitu.entities import CallPath, RunKey
from insitu.errors import UsageError
from insitu.expectations.ceilings import compare_with_ceiling, parse_ceiling
from insitu.expectations.guidelines import check_guideline, parse_guideline
from insitu.expectations.prediction import StudentMixture, first_above, predict
from insitu.expectations.settle import find_settling_point_for_limit
from insitu.expectations.uniformity import check_classes, parse_class_rule
from insitu.modeling.base import Clusters
from insitu.units import parse_quantity

P = np.array([4.0, 8, 16, 32, 64])


def model(values: np.ndarray, seed: int = 1, noise: float = 0.005) -> insitu.Model:
    factor = np.random.default_rng(seed).normal(1, noise, values.shape)
    (found,) = insitu.fit(P, (values * factor)[None])
    return found


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2 s", (2.0, "s")),
        ("3 GB", (3e9, "B")),
        ("24 GiB", (24 * 2.0**30, "B")),
        ("15us", (15e-6, "s")),
        ("5 min", (300.0, "s")),
        ("1_000", (1000.0, "1")),
        ("1.5e6", (1.5e6, "1")),
    ],
)
def test_quantities_are_read_into_base_units(text, value):
    assert parse_quantity(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["", "s", "2 apples", "-1 s", "nan"])
def test_texts_that_are_not_quantities_are_refused(text):
    with pytest.raises(ValueError, match="is not a quantity"):
        parse_quantity(text)


def test_a_limit_has_metric_coordinate_and_value():
    found = parse_ceiling("time at p=65536, n=256 < 2 s")

    assert (found.metric, found.at, found.most) == ("time", (("p", 65536.0), ("n", 256.0)), 2.0)


@pytest.mark.parametrize(
    "text", ["memory per node with 8 ranks < 24 GB", "< 24 GB per node with 8 ranks"]
)
def test_a_limit_may_apply_to_a_node(text):
    found = parse_ceiling(text)

    assert (found.ranks, found.most, found.unit) == (8, 24e9, "B")


@pytest.mark.parametrize("text", ["time", "time > 2 s", "time at p < 2 s", "< 3 apples"])
def test_texts_that_are_not_limits_are_refused(text):
    with pytest.raises(UsageError, match=f"limit '{text}'"):
        parse_ceiling(text)


def test_growing_memory_shows_where_a_node_is_full():
    """As [VAL §4.2]: 0.56 MB per connection fills 24 GB with 8 ranks near p = 8192."""
    found = compare_with_ceiling(
        parse_ceiling("< 24 GB per node with 8 ranks"), model(16e6 + 0.36e6 * P)
    )

    assert found.probability == 0.0
    assert found.breaks == pytest.approx(8192, rel=0.05)


def test_a_prediction_exceeds_its_limit_or_does_not():
    growing = model(0.1 + 0.01 * P)

    assert compare_with_ceiling(parse_ceiling("at p=1024 < 2 s"), growing).probability > 0.9
    assert compare_with_ceiling(parse_ceiling("at p=1024 < 200 s"), growing).probability < 0.1


def test_times_that_fall_below_a_limit_exceed_it_where_they_have_grown_again():
    falling, turning = model(100 / P + 0.1), model(100 / P + 0.1 * P)

    met = compare_with_ceiling(parse_ceiling("at p=64 < 5 s"), falling)
    again = compare_with_ceiling(parse_ceiling("at p=64 < 15 s"), turning)

    assert met.breaks is None  # 25.1 s on 4 ranks, but never again
    assert again.breaks == pytest.approx(143, rel=0.1)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10**6),
    count=st.integers(3, 6),
    power=st.sampled_from([-0.5, 0.0, 1.0, 2.0]),
    noise=st.sampled_from([0.0, 0.005, 0.05, 0.2]),
    modeler=st.sampled_from(["evidence", "search"]),
    at=st.sampled_from([1.0, 16.0, 64.0, 1024.0]),
    level=st.floats(0.01, 0.999),
)
def test_the_probability_of_a_limit_at_a_bound_is_the_level_of_the_bound(
    seed, count, power, noise, modeler, at, level
):
    points = 2.0 ** np.arange(2, 2 + count)
    scatter = np.random.default_rng(seed).normal(1, noise, count)
    values = np.abs((0.1 + 0.01 * points**power) * scatter)
    (found,) = insitu.fit(points, values[None], modeler=modeler)
    low, high = found.interval([at], level)[0].tolist()

    def exceeded(most: float) -> float:
        return predict(found, [at]).probability_above(StudentMixture.constant(most))

    if np.isnan(low):
        assert np.isnan(exceeded(1.0))
    elif high - low > 1e-6 * high:  # else a step, of no width in rounding
        assert exceeded(high) == pytest.approx((1 - level) / 2, abs=1e-5)
        assert low == 0.0 or exceeded(low) == pytest.approx((1 + level) / 2, abs=1e-5)


def test_a_limit_within_wide_bounds_is_not_violated_for_sure():
    """Six doublings beyond what was measured, noise and coefficients alone would be sure."""
    (found,) = insitu.fit(2.0 ** np.arange(5), np.array([[0.11, 0.13, 0.14, 0.19, 0.26]]))
    low, high = found.interval([1024])[0].tolist()

    (below, above) = (
        compare_with_ceiling(parse_ceiling(f"at p=1024 < {most!r} s"), found).probability
        for most in (low + 0.01 * (high - low), high - 0.01 * (high - low))
    )

    assert 0.025 < above < below < 0.975


def test_the_settling_point_of_a_limit_lies_before_its_target():
    growing = model(0.1 + 0.01 * P, noise=0.02)
    most = float(growing.predict([1024])[0])

    settling_point = find_settling_point_for_limit(growing, [1024.0], most, sure=0.9)

    ((name, at),) = settling_point.at
    assert name == "p"
    assert 64 < at <= 1024
    assert settling_point.probability > 0.8


def test_a_measurement_at_the_target_of_a_limit_settles_most():
    growing = model(0.1 + 0.01 * P, noise=0.02)
    most = float(growing.predict([1024])[0])

    sure = [
        find_settling_point_for_limit(growing, [1024.0], most, sure=x).probability
        for x in (0.6, 0.75, 1.0)
    ]

    assert sure == sorted(sure)
    assert find_settling_point_for_limit(growing, [1024.0], most, sure=1.0).at == (("p", 1024.0),)


def test_a_program_that_runs_on_cubes_settles_a_limit_on_a_cube():
    cubes = np.array([1.0, 8, 27, 64, 125])
    factor = np.random.default_rng(1).normal(1, 0.02, cubes.shape)
    (growing,) = insitu.fit(cubes, ((0.1 + 0.01 * cubes) * factor)[None])
    most = float(growing.predict([4096])[0])

    ((_, at),) = find_settling_point_for_limit(growing, [4096.0], most, sure=0.8).at

    assert 125 < at < 4096
    assert round(at ** (1 / 3)) ** 3 == at


def test_without_a_degree_of_freedom_a_limit_is_undecided():
    (found,) = insitu.fit(np.array([4.0, 8, 16]), np.array([[1.0, 2.0, 4.5]]), modeler="search")
    exact = replace(found, spreads=())

    assert np.isnan(compare_with_ceiling(parse_ceiling("at p=1024 < 2 s"), exact).probability)
    assert find_settling_point_for_limit(exact, [1024.0], 2.0, sure=0.9) is None


def test_a_target_with_other_parameters_is_refused():
    with pytest.raises(UsageError, match="the models are over p"):
        compare_with_ceiling(parse_ceiling("at n=4 < 2 s"), model(P))


def test_a_rule_is_a_comparison_of_sums_of_products():
    rule = parse_guideline("MPI_Allgather <= 2 * MPI_Gather + MPI_Bcast * steps")

    assert rule.left.products == ((1.0, ("MPI_Allgather",)),)
    assert rule.right.products == ((2.0, ("MPI_Gather",)), (1.0, ("MPI_Bcast", "steps")))


@pytest.mark.parametrize("text", ["a", "a <= ", "a <= b <= c", "a b <= c", "a <= b + + c"])
def test_texts_that_are_not_rules_are_refused(text):
    with pytest.raises(UsageError, match="rule"):
        parse_guideline(text)


@pytest.mark.parametrize(
    ("allreduce", "now", "later"),
    [
        (2 + 0.1 * np.log2(P), False, False),
        (9 + 0.1 * np.log2(P), True, True),
        (1 + 0.01 * P, False, True),
    ],
)
def test_a_rule_is_violated_now_later_or_never(allreduce, now, later):
    """[VAL §4.2]: the guideline that holds where it was measured and not at larger scale."""
    known = {
        "MPI_Allreduce": [model(allreduce, 1, 5e-4)],
        "MPI_Reduce": [model(1 + 0.2 * np.log2(P), 2, 5e-4)],
        "MPI_Bcast": [model(1 + 0.1 * np.log2(P), 3, 5e-4)],
    }
    rule = parse_guideline("MPI_Allreduce <= MPI_Reduce + MPI_Bcast")

    found = check_guideline(rule, known.__getitem__, largest=[64.0], at=[1024.0])

    assert (found.now > 0.99, found.later > 0.8) == (now, later)  # later is far out
    assert min(found.now, 1 - found.now) < 0.01
    assert min(found.later, 1 - found.later) < 0.2


def test_call_paths_of_one_function_are_added():
    known = {"f": [model(2 * P), model(2 * P)], "g": [model(3 * P)]}

    found = check_guideline(
        parse_guideline("f <= g"), known.__getitem__, largest=[64.0], at=[4096.0]
    )

    assert found.now > 0.99


def test_mixtures_add_and_multiply_as_their_means():
    normal = np.full(2, 0.1), np.full(2, np.inf)
    a, b = (StudentMixture(np.full(2, 0.5), np.array(c), *normal) for c in ([1, 3], [4, 6]))

    assert (a + b).mean == pytest.approx(7)
    assert (a * b).mean == pytest.approx(10)


def test_the_difference_of_uncertain_values_has_the_tails_of_welch():
    """Means of four and nine values with standard errors 1 and 0.5, whose difference is 2."""
    ones = np.ones(1)
    first, second = (
        StudentMixture(ones, 3 * ones, ones, 3 * ones),
        StudentMixture(ones, ones, 0.5 * ones, 8 * ones),
    )
    degrees = (1 + 0.25) ** 2 / (1 / 3 + 0.25**2 / 8)

    above = first.probability_above(second)

    assert above == pytest.approx(stats.t.cdf(2 / np.sqrt(1.25), degrees))


def test_the_first_crossing_is_exact_to_rounding():
    assert first_above(4.0, lambda x: x - 1000.5) == pytest.approx(1000.5)
    assert first_above(4.0, lambda x: -x) is None


@pytest.mark.parametrize("text", ["two classes", "a near b", ""])
def test_texts_that_are_not_rules_about_classes_are_refused(text):
    with pytest.raises(UsageError, match="classes"):
        parse_class_rule(text)


@pytest.mark.parametrize(("labels", "is_met"), [([0, 0, 0], True), ([0, 1, 1], False)])
def test_one_class_only_means_that_all_ranks_behave_alike(labels, is_met):
    names = ("all",) if max(labels) == 0 else ("end", "inner")
    clusters = [Clusters(CallPath(("f",)), "time", RunKey.of({"p": 3}), np.array(labels), names)]

    assert check_classes(parse_class_rule("one class only"), clusters, []).is_met is is_met


def test_all_ranks_behave_alike_if_each_has_a_value():
    clusters = [
        Clusters(CallPath(("f",)), "time", RunKey.of({"p": p}), np.zeros(p, dtype=int), ("all",))
        for p in (2, 4)
    ]

    result = check_classes(parse_class_rule("one class only"), clusters, [])

    assert result.text == "all ranks behave alike in 2 runs"


def test_ranks_without_a_value_are_not_said_to_behave_alike():
    clusters = []
    for p in (2, 4):
        labels = np.array([0] + [-1] * (p - 1))
        clusters.append(Clusters(CallPath(("f",)), "time", RunKey.of({"p": p}), labels, ("all",)))

    result = check_classes(parse_class_rule("one class only"), clusters, [])

    assert result.is_met
    assert result.text == "the ranks that have a value (1 of 4 at p=4) behave alike in 2 runs"


@pytest.mark.parametrize("text", ["f + <= g", "f <= g + + h", "f <= * g"])
def test_a_rule_without_a_function_is_refused_with_its_text(text):
    with pytest.raises(UsageError, match=re.escape(f"rule '{text}': a function is missing")):
        parse_guideline(text)
