import re

import numpy as np
import pytest

import insitu
from insitu.errors import ModelingError, UsageError
from insitu.expectations import Match, validate
from insitu.expectations.limits import expect
from insitu.expectations.validate import judge, list_growths, match_of, probability_of_rise

P = np.array([4.0, 8, 16, 32, 64])


def noisy(values: np.ndarray, level: float, seed: int = 1) -> np.ndarray:
    return values * (1 + np.random.default_rng(seed).uniform(-level, level, values.shape))


@pytest.mark.parametrize(
    ("truth", "match"),
    [
        (2 + 3 * P, Match.TOTAL),
        (2 + P**1.25, Match.APPROXIMATE),
        (2 + P**2, Match.NONE),
        (np.full(5, 7.0), Match.NONE),
    ],
)
def test_growth_has_the_right_rank(truth, match):
    (verdict,) = validate(P, noisy(truth, 0.005), "O(p)")

    assert verdict.match is match
    assert verdict.is_settled
    assert verdict.function is not None
    np.testing.assert_allclose(verdict.function(P[:, None]), truth, rtol=0.03)


@pytest.mark.parametrize(
    ("search", "message"),
    [
        ("p * q", "not a term of one parameter"),
        ("1", "not a term"),
        ("q^2", "not q"),
        ("p^^", "p^^"),
    ],
)
def test_invalid_search_terms_are_refused(search, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        validate(P, P, expect("O(p)", search=search))


def test_terms_are_added_for_one_parameter_only():
    points = np.array([(p, n) for p in P for n in P])

    with pytest.raises(UsageError, match="a single parameter only; remove it"):
        validate(points, points[:, 0], expect("O(p)", search="p^5"), parameters=("p", "n"))


def test_the_divergence_is_the_quotient_of_growth_and_expectation():
    (verdict,) = validate(P, noisy(5 + P**2, 0.001), "O(p)")

    assert str(verdict.growth) == "O(p^2)"
    assert verdict.divergence == "O(p)"
    assert verdict.is_violated


def test_growth_below_an_upper_bound_is_met():
    (both, bound) = validate(P, np.tile(noisy(np.full(5, 7.0), 0.01), (2, 1)), ["O(p)", "<= O(p)"])

    assert both.is_violated
    assert not bound.is_violated


def test_an_undecided_verdict_has_a_settling_point():
    (verdict,) = validate(P, noisy(2 + P**1.6, 0.05), "O(p)")

    assert not verdict.is_settled
    assert not verdict.is_violated
    ((name, value),) = verdict.settling_point.at
    assert name == "p"
    assert value > P[-1]
    assert verdict.settling_point.probability > max(verdict.violation, 1 - verdict.violation)


def test_the_settling_point_improves_the_verdict():
    truth = lambda p: 2 + p**1.6  # noqa: E731
    (before,) = validate(P, noisy(truth(P), 0.05), "O(p)")
    x = np.append(P, before.settling_point.at[0][1])

    (after,) = validate(x, np.append(noisy(truth(P), 0.05), truth(x[-1])), "O(p)")

    assert before.violation < 0.5 < after.violation


def test_measurements_that_scatter_by_orders_of_magnitude_are_undecided():
    (verdict,) = validate(P, [2e-8, 1.7e-7, 8.4e-4, 1.4e-2, 5.3e-6], "O(log p)")

    assert verdict.is_drowned
    assert not verdict.is_settled
    assert not verdict.is_violated


def test_repetitions_count():
    values = noisy(np.tile((2 + P**2)[:, None], (1, 9)), 0.1)

    (once,) = validate(P, values[:, 0], "O(p)")
    (often,) = validate(P, values[None], "O(p)")

    assert often.violation > once.violation


def test_the_probabilities_of_the_ranks_sum_to_1():
    (verdict,) = validate(P, noisy(2 + P, 0.05), "O(p)")

    assert sum(verdict.shares.values()) == pytest.approx(1)
    assert verdict.probability == verdict.shares[verdict.match]


@pytest.mark.parametrize(
    ("expectation", "match"),
    [
        ("O(n^2 * log(p))", Match.TOTAL),
        ("O(n^2)", Match.NONE),
        ("O(n^1.5 * log(p))", Match.APPROXIMATE),
        ("O(n * p)", Match.NONE),
    ],
)
def test_several_parameters_are_ranked_together(expectation, match):
    n, p = (axis.ravel() for axis in np.meshgrid([8.0, 16, 32, 64, 128], P))
    values = noisy(3 + 0.5 * n**2 * np.log2(p), 0.01)

    (verdict,) = validate(np.stack([p, n], 1), values, expectation, parameters=("p", "n"))

    assert verdict.match is match


def test_the_expected_growth_of_several_parameters_has_ten_times_the_prior():
    n, p = (axis.ravel() for axis in np.meshgrid([8.0, 16, 32, 64, 128], P))
    values = noisy(3 + 0.5 * n * np.log2(p), 0.2)
    points, expectation = np.stack([p, n], 1), expect("O(n * log(p))")
    (found,) = insitu.fit(points, values[None], parameters=("p", "n"))

    verdict = judge(found, expectation)

    spread = found.spreads[-1]
    matches = [match_of(g, expectation) for g in list_growths(spread, ("p", "n"))]
    alone = float(spread.weights[[match is Match.TOTAL for match in matches]].sum())
    assert 0.01 < alone < 0.9
    assert verdict.shares[Match.TOTAL] == pytest.approx(10 * alone / (1 + 9 * alone))


@pytest.mark.parametrize(
    ("values", "expectation"),
    [([9.1, 17.2], "O(p)"), ([5.0, 50.0], "O(1)"), ([5.0, 5.01], "<= O(p)"), ([4.0], "O(p)")],
)
def test_fewer_than_three_values_settle_nothing(values, expectation):
    (verdict,) = validate(P[: len(values)], values, expectation)

    assert not verdict.is_settled
    assert verdict.doubt.startswith("any power goes through")
    assert str(verdict).startswith("<undecided")


def test_odd_exponents_are_possible_expectations():
    n = 2.0 ** np.arange(3, 9)

    (verdict,) = validate(n, noisy(1 + n**2.81, 0.005), "O(n^2.81)", parameters=("n",))

    assert verdict.match is Match.TOTAL


def test_an_expectation_over_a_parameter_that_does_not_vary_is_refused():
    with pytest.raises(UsageError, match="vary p, not n"):
        validate(P, P, "O(n)")


def test_one_expectation_per_series_or_one_for_all():
    with pytest.raises(UsageError, match="2 expectations for 1 series"):
        validate(P, P, ["O(p)", "O(1)"])


def test_without_measurements_nothing_is_settled():
    (verdict,) = validate(P, np.full(5, np.nan), "O(p)")

    assert not verdict.is_settled
    assert not verdict.is_violated
    assert verdict.probability == verdict.violation == pytest.approx(1 / 3)
    assert set(verdict.shares.values()) == {verdict.probability}


@pytest.mark.parametrize(
    ("mean", "deviation", "probability"),
    [(0.0, 0.5, 0.5), (0.5, 0.5, 0.8413), (-1.0, 0.5, 0.0228), (0.2, 0.0, 1.0), (-0.2, 0.0, 0.0)],
)
def test_an_exponent_rises_as_probably_as_a_normal_value_is_positive(mean, deviation, probability):
    law = np.array([4.0, 0.0, 0.0, mean, deviation])
    ends = np.zeros(5)

    class Tails:
        """The tails of two hypotheses; behind the second one, no new law begins."""

        def all_tails(self):
            return np.array([law, ends])

    rise, nothing = probability_of_rise(Tails())

    assert rise == pytest.approx(probability, abs=1e-4)
    assert np.isnan(nothing)


@pytest.mark.parametrize(
    ("truth", "text"),
    [
        (2 + 3 * P, "<met: grows as O(p), expected O(p)"),
        (2 + P**1.25, "<near: grows as O(p^(5/4)), expected O(p)"),
        (2 + P**2, "<violated: grows as O(p^2), expected O(p)"),
    ],
)
def test_a_verdict_in_words_says_how_sure_it_is(truth, text):
    (verdict,) = validate(P, noisy(truth, 0.005), "O(p)")

    sure = max(verdict.violation, 1 - verdict.violation)
    assert repr(verdict).startswith(text)
    assert repr(verdict).endswith(f", {sure:.0%} sure>")


@pytest.mark.parametrize("exponent", [0.75, 1.5])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_growth_that_a_verdict_names_is_of_its_rank(exponent, seed):
    expectation = expect("O(p)")

    (verdict,) = validate(P, noisy(2 + P**exponent, 0.2, seed), expectation)

    assert match_of(verdict.growth, expectation) is verdict.match


@pytest.mark.parametrize("values", [{"p": [1, 2, 4]}, ["a", 2, 4], [[1, 2, 4], [1, 2]]])
def test_values_that_are_no_numbers_are_refused_with_a_reason(values):
    for function in (insitu.fit, lambda points, values: validate(points, values, "O(p)")):
        with pytest.raises(ModelingError, match="values must be numbers"):
            function([1, 2, 4], values)
        with pytest.raises(ModelingError, match="points must be numbers"):
            function(values, [1, 2, 4])
