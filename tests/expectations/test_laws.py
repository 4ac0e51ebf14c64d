"""Laws of growth, its notation, the search space and uncertain values, for drawn ones."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from insitu.errors import UsageError
from insitu.expectations.ceilings import compare_with_ceiling, parse_ceiling
from insitu.expectations.growth import (
    CONSTANT,
    Growth,
    growth_of_function,
    size,
)
from insitu.expectations.guidelines import parse_guideline
from insitu.expectations.limits import class_of, expect, ruler, weighted_ticks
from insitu.expectations.notation import parse_growth
from insitu.expectations.prediction import COMPONENTS_LIMIT, StudentMixture, first_above
from insitu.modeling.pmnf import Factor, Function, Term

POWERS = st.sampled_from([Fraction(n, d) for n in range(-4, 9) for d in (1, 2, 3)])
LOGARITHMS = st.sampled_from([Fraction(n, 2) for n in range(-2, 5)])
RATES = st.sampled_from(
    [Fraction(0)] * 3 + [Fraction(1, 2), Fraction(1), Fraction(-1), Fraction(2)]
)


@st.composite
def products(draw, names=("n", "p")):
    chosen = draw(st.lists(st.sampled_from(names), unique=True, max_size=len(names)))
    return tuple(Factor(x, draw(POWERS), draw(LOGARITHMS), draw(RATES)) for x in sorted(chosen))


GROWTHS = st.lists(products(), min_size=1, max_size=3).map(Growth.of)
SINGLE = products().map(lambda product: Growth.of([product]))


def value(product, point):
    """A product from its definition, with logarithms to base 2."""
    total = 1.0
    for name, alpha, beta, gamma in product:
        x = point[name]
        total *= x ** float(alpha) * math.log2(x) ** float(beta) * 2.0 ** (float(gamma) * x)
    return total


@given(GROWTHS, st.floats(1.5, 9), st.floats(1.5, 9))
def test_the_value_of_a_growth_is_the_sum_of_its_products(growth, n, p):
    expected = sum(value(product, {"n": n, "p": p}) for product in growth.products)

    assert growth.at({"n": n, "p": p}) == pytest.approx(expected)


@given(GROWTHS)
def test_growth_that_is_printed_and_read_is_the_same(growth):
    assert parse_growth(str(growth)).is_same(growth)


@given(st.lists(products(), min_size=1, max_size=4), st.randoms())
def test_a_sum_depends_neither_on_order_nor_on_repetitions_of_its_terms(terms, random):
    shuffled = [*terms, *terms[:1]]
    random.shuffle(shuffled)

    assert Growth.of(shuffled) == Growth.of(terms)


@given(GROWTHS, SINGLE)
def test_a_quotient_times_its_divisor_is_the_dividend(growth, divisor):
    quotient = growth.over(divisor)

    assert quotient is not None
    assert (quotient * divisor).is_same(growth)
    assert growth.over(growth if len(growth.products) == 1 else divisor) is not None


@given(SINGLE)
def test_growth_over_itself_is_constant(growth):
    assert growth.over(growth) == CONSTANT
    assert growth.over(growth).is_constant
    assert growth.over(growth).parameters == ()


def test_a_sum_of_several_products_divides_nothing():
    assert parse_growth("n").over(parse_growth("n + p")) is None


@given(GROWTHS, GROWTHS, GROWTHS)
def test_bounds_are_an_order(a, b, c):
    assert a.is_bounded_by(a)
    if a.is_bounded_by(b) and b.is_bounded_by(c):
        assert a.is_bounded_by(c)
    if a.is_same(b):
        assert a.is_bounded_by(b) and b.is_bounded_by(a)
        assert b.is_same(a)


@given(products(("p",)), products(("p",)))
def test_of_two_products_of_one_parameter_one_bounds_the_other(a, b):
    first, second = Growth.of([a]), Growth.of([b])

    assert first.is_bounded_by(second) or second.is_bounded_by(first)
    if first.is_bounded_by(second) and second.is_bounded_by(first):
        assert first.is_same(second)


@given(GROWTHS, SINGLE)
def test_bounds_hold_after_both_sides_are_multiplied(growth, factor):
    assume(all(f.alpha >= 0 and f.beta >= 0 and f.gamma >= 0 for f in factor.products[0]))
    product = growth * factor

    assert growth.is_bounded_by(product)
    assert (growth * growth).is_bounded_by(growth * growth)


@pytest.mark.parametrize(
    ("exponent", "is_same"),
    [("2.8109", False), ("2.8111", True), ("2.8119", True), ("2.8131", False)],
)
def test_exponents_are_equal_up_to_a_thousandth(exponent, is_same):
    assert parse_growth(f"n^{exponent}").is_same(parse_growth("n^2.812")) is is_same


@pytest.mark.parametrize(
    ("other", "is_same"), [("n", False), ("n log(n)", True), ("n * 2^n", False), ("log(n)", False)]
)
def test_every_exponent_counts(other, is_same):
    assert parse_growth("n log n").is_same(parse_growth(other)) is is_same
    assert parse_growth(other).is_same(parse_growth("n log n")) is is_same


@pytest.mark.parametrize("c", [2.0, -3.0])
def test_terms_without_a_coefficient_do_not_grow(c):
    terms = (Term(0.0, (Factor("p", Fraction(3)),)), Term(c, (Factor("p", Fraction(1)),)))

    assert str(growth_of_function(Function(("p",), 1.0, terms))) == "O(p)"
    assert str(growth_of_function(Function(("p",), 0.0, terms[:1]))) == "O(1)"
    falling = Term(c, (Factor("p", Fraction(-1)),))
    assert str(growth_of_function(Function(("p",), 0.0, (falling,)))) == "O(1 / p)"
    assert str(growth_of_function(Function(("p",), 1.0, (falling,)))) == "O(1)"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("O(n^(1/9))", "O(n^(1/9))"),
        ("O(n^(1/10))", "O(n^0.1)"),
        ("n^(3/11)", "O(n^0.2727)"),
        ("2^(3*n/4)", "O(2^(3/4 * n))"),
        ("2^(3*n/11)", "O(2^(0.2727 * n))"),
        ("2^(n/11)", "O(2^(n/11))"),
        ("2^(2*n)", "O(4^n)"),
        ("1/2^n", "O(1 / 2^n)"),
        ("1/(p * log(p) * 2^p)", "O(1 / (p * log(p) * 2^p))"),
        ("p·n × log p", "O(n * p * log(p))"),
        ("-(-p)", "O(p)"),
        ("0 + n", "O(n)"),
        ("Θ(n)", "O(n)"),
        ("θ( n )", "O(n)"),
        ("p^-1", "O(1 / p)"),
        ("p**-0.5", "O(1 / p^(1/2))"),
        ("log2 p", "O(log(p))"),
        ("ln(p) lg(p) ld(p) log10(p)", "O(log(p)^4)"),
        ("log(2)", "O(1)"),
        ("log(2^n)", "O(n)"),
        ("log(n*p)", "O(log(p) + log(n))"),
        ("exp(n)", "O(2^(1.443 * n))"),
        ("sqrt p", "O(p^(1/2))"),
        ("sqrt(4)", "O(1)"),
        ("4^(1/2) n", "O(n)"),
        ("(n + 1)^6", "O(n^6)"),
        ("n2", "O(n2)"),
        (".5 n", "O(n)"),
        ("2.n", "O(n)"),
        ("n¹²", "O(n^12)"),
        ("n_1 _n", "O(_n * n_1)"),
    ],
)
def test_what_users_write_is_printed_in_one_notation(text, written):
    assert str(parse_growth(text)) == written


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("(n + 1)^7", "small whole number"),
        ("(n + 1)^0", "small whole number"),
        ("(n + 1)^(1/2)", "small whole number"),
        ("1/(n + 1)", "small whole number"),
        ("0^2", "0 is not a growth"),
        ("1/0", "0 is not a growth"),
        ("log^n p", "the power of a logarithm must be a number"),
        ("log^(1+1) p", "the power of a logarithm must be a number"),
        ("log 2", "a function lacks its argument"),
        ("log(n + p)", "logarithm of a sum"),
        ("log(1/p)", "falling power"),
        ("log(2^n * log(p))", "logarithm of a logarithm"),
        ("2^(n + p)", "an exponent must be a number, or"),
        ("2^(n p)", "a multiple of one parameter"),
        ("2^(n^2)", "a multiple of one parameter"),
        ("(0-2)^n", "an exponent must be a number, or"),
        ("n +", "it ends too early"),
        ("n * )", "'\\)' is unexpected"),
        ("-n", "never negative"),
        ("(a+b+c+d)^4", "too many terms"),
    ],
)
def test_texts_that_are_no_growth_are_refused(text, reason):
    with pytest.raises(UsageError, match=reason):
        parse_growth(text)


def test_as_many_terms_as_the_limit_are_multiplied_out():
    growth = parse_growth("(a+b)^6")  # 2^6 = 64 products before equal ones are joined

    assert len(growth.products) == 7


POSITIVE = st.sampled_from([Fraction(n, d) for n in range(1, 9) for d in (1, 2, 3)])
RISING = st.one_of(
    st.builds(lambda beta: Factor("p", beta=beta), POSITIVE),
    st.builds(lambda alpha, beta: Factor("p", alpha, beta), POSITIVE, LOGARITHMS),
    st.builds(lambda alpha, gamma: Factor("p", alpha, gamma=gamma), POSITIVE, POSITIVE),
)
MAIN_EXPONENTS = {1: "beta", 2: "alpha", 3: "gamma"}  # by class


@given(RISING)
def test_the_ruler_goes_from_1_over_the_expectation_to_its_square(factor):
    ticks = ruler(factor)
    main = MAIN_EXPONENTS[class_of(factor)]

    assert list(ticks) == sorted(set(ticks), key=size)
    assert ticks[0] == Factor("p")
    assert factor in ticks
    assert ticks[-1] == Factor("p", **{main: 2 * getattr(factor, main)})


def test_the_ruler_of_the_paper():
    assert [str(Growth.of([(tick,)])) for tick in ruler(Factor("p", Fraction(1)), 1)] == [
        "O(1)",
        "O(log(p))",
        "O(p^(1/2))",
        "O(p^(1/2) * log(p))",
        "O(p)",
        "O(p * log(p))",
        "O(p^(3/2))",
        "O(p^(3/2) * log(p))",
        "O(p^2)",
    ]
    assert len(ruler(Factor("p", Fraction(1)))) == 17
    assert [tick.beta for tick in ruler(Factor("p"))] == [Fraction(i, 4) for i in range(9)]
    assert ruler(Factor("p")) == ruler(Factor("p", beta=Fraction(1)))


def test_long_ticks_of_the_ruler_weigh_more_than_short_ones():
    weights = weighted_ticks(Factor("p", Fraction(1)))

    at = {str(Growth.of([(tick,)])): weight for tick, weight in weights.items()}
    assert {at[f"O({x})"] for x in ("1", "p^(1/2)", "p", "p^(3/2)", "p^2")} == {1.0}
    assert {at[f"O({x})"] for x in ("p^(1/4)", "p^(3/4)", "p * log(p)", "log(p)")} == {0.3}
    assert at["O(p^(1/4) * log(p))"] == pytest.approx(0.09)
    assert set(weighted_ticks(Factor("p")).values()) == {1.0}


@given(SINGLE)
def test_the_deviation_halves_the_leading_exponent_of_each_parameter(growth):
    expected = expect(growth)

    for limit, sign in ((expected.lower, -1), (expected.upper, 1)):
        shifted = []
        for factor in growth.products[0]:
            name = MAIN_EXPONENTS[class_of(factor)]
            exponent = getattr(factor, name)
            shifted.append(factor._replace(**{name: exponent + sign * abs(exponent) / 2}))
        assert limit == Growth.of([tuple(shifted)])
    assert expected.lower.is_bounded_by(growth) and growth.is_bounded_by(expected.upper)


@pytest.mark.parametrize("text", ["<= O(p)", "≤ p", " at most O(p)"])
def test_an_upper_bound_is_written_in_three_ways(text):
    bound = expect(text)

    assert (bound.is_bound, str(bound.growth), str(bound)) == (True, "O(p)", "<= O(p)")
    assert not expect("O(p)").is_bound


@pytest.mark.parametrize("deviation", ["1/p", "log(p) + n"])
def test_a_deviation_that_does_not_grow_or_is_a_sum_is_refused(deviation):
    with pytest.raises(UsageError, match="write one product that grows"):
        expect("O(p)", deviation=deviation)


def test_a_deviation_moves_both_limits():
    expected = expect("O(p)", deviation=parse_growth("sqrt(p) log(p)"))

    assert str(expected.lower) == "O(p^(1/2) / log(p))"
    assert str(expected.upper) == "O(p^(3/2) * log(p))"


MIXTURES = st.builds(
    lambda rows: StudentMixture(
        np.array([w for w, *_ in rows]) / sum(w for w, *_ in rows),
        np.array([c for _, c, _, _ in rows]),
        np.array([s for *_, s, _ in rows]),
        np.array([d for *_, d in rows]),
    ),
    st.lists(
        st.tuples(st.floats(0.1, 1), st.floats(0.5, 9), st.floats(0.01, 2), st.floats(1, 50)),
        min_size=1,
        max_size=5,
    ),
)


@given(MIXTURES, MIXTURES)
def test_one_of_two_uncertain_values_is_the_larger(a, b):
    above, below = a.probability_above(b), b.probability_above(a)

    assert 0 <= above <= 1
    assert above + below == pytest.approx(1)
    assert a.probability_above(a) == pytest.approx(0.5)


@given(MIXTURES, st.floats(0.1, 20), st.floats(1.0, 3))
def test_a_higher_limit_is_exceeded_with_less_probability(a, limit, factor):
    low, high = (a.probability_above(StudentMixture.constant(x)) for x in (limit, limit * factor))

    assert low >= high - 1e-12


@given(MIXTURES, st.floats(0.1, 20), st.sampled_from([1e-9, 1e-3, 1e6]))
def test_probabilities_do_not_depend_on_the_unit(a, limit, unit):
    scaled = StudentMixture(a.weights, a.centres * unit, a.scales * unit, a.degrees)
    before = a.probability_above(StudentMixture.constant(limit))
    after = scaled.probability_above(StudentMixture.constant(limit * unit))

    assert after == pytest.approx(before, abs=1e-9)
    doubled = a + a
    assert doubled.probability_above(a) == pytest.approx(
        (scaled + scaled).probability_above(scaled), abs=1e-9
    )


@given(MIXTURES, MIXTURES)
def test_sums_and_products_of_mixtures_are_those_of_their_means_and_variances(a, b):
    def variance(x):
        return float(x.weights @ x.scales**2)

    total, product = a + b, a * b

    assert total.mean == pytest.approx(a.mean + b.mean)
    assert product.mean == pytest.approx(a.mean * b.mean)
    assert variance(total) == pytest.approx(variance(a) + variance(b))
    of_a, of_b = float(a.weights @ a.centres**2), float(b.weights @ b.centres**2)
    assert variance(product) == pytest.approx(variance(a) * of_b + of_a * variance(b))
    assert total.weights.sum() == pytest.approx(1)
    assert (b + a).mean == pytest.approx(total.mean)


@given(MIXTURES)
def test_a_constant_changes_neither_width_nor_degrees(a):
    total = a + StudentMixture.constant(3.0)
    order = np.argsort(-a.weights, kind="stable")

    np.testing.assert_allclose(total.scales, a.scales[order])
    np.testing.assert_allclose(total.degrees, a.degrees[order])
    np.testing.assert_allclose(total.centres, a.centres[order] + 3)


def test_a_sum_keeps_the_most_probable_components():
    k = 10
    a = StudentMixture(
        np.arange(1, k + 1) / (k * (k + 1) / 2), np.arange(k) * 1.0, np.ones(k), np.full(k, np.inf)
    )

    total = a + a

    assert len(total.weights) == COMPONENTS_LIMIT
    assert total.centres[0] == 18
    assert total.weights.sum() == pytest.approx(1)


@given(st.floats(1, 100), st.floats(0.5, 1e6), st.booleans())
def test_the_first_crossing_is_where_the_difference_turns_positive(low, factor, returns):
    cross = low * factor

    def difference(x):  # positive above `cross`, and not far beyond it once more
        return np.where(x <= cross, -1.0, 1.0)

    found = first_above(low, difference)

    assert found == pytest.approx(max(cross, low), rel=1e-12)
    assert first_above(low, lambda x: 0.0 * x) is None
    assert first_above(low, lambda x: x) == low
    assert first_above(low, lambda x: x - 1.01e9 * low) is None


@pytest.mark.parametrize(
    ("text", "ranks", "at", "metric"),
    [
        ("< 3 GB per rank", 1, (), ""),
        ("memory per node with 1 rank at p=4 < 3 GB", 1, (("p", 4.0),), "memory"),
        ("time at p=4, < 3 s", 1, (("p", 4.0),), "time"),
        ("<= 3", 1, (), ""),
    ],
)
def test_a_limit_is_read_whole(text, ranks, at, metric):
    ceiling = parse_ceiling(text)

    assert (ceiling.ranks, ceiling.at, ceiling.metric, ceiling.text) == (ranks, at, metric, text)


def test_a_node_without_ranks_is_refused():
    with pytest.raises(UsageError, match="at least 1 rank"):
        parse_ceiling("< 3 GB per node with 0 ranks")


def test_names_of_a_rule_are_listed_once_in_their_order():
    rule = parse_guideline("f ≼ 2 * g * 3 + f * g")

    assert rule.names == ("f", "g")
    assert rule.right.products == ((6.0, ("g",)), (1.0, ("f", "g")))
    constants = {"f": StudentMixture.constant(5.0), "g": StudentMixture.constant(7.0)}
    assert rule.right.value(constants.__getitem__).mean == 6 * 7 + 5 * 7


@pytest.mark.parametrize("number", ["-1", "inf", "nan"])
def test_a_number_before_a_function_is_finite_and_not_negative(number):
    with pytest.raises(UsageError, match="must be positive"):
        parse_guideline(f"f <= {number} * g")
    assert parse_guideline("f <= 0 * g").right.products == ((0.0, ("g",)),)


def test_ranks_of_a_node_share_its_limit():
    import insitu

    p = np.array([4.0, 8, 16, 32, 64])
    (model,) = insitu.fit(p, (5.0 * p)[None])

    def compare(text):
        return compare_with_ceiling(parse_ceiling(text), model)

    one, eight = compare("at p=64 < 100 B"), compare("at p=64 < 800 B per node with 8 ranks")
    assert eight.value == pytest.approx(8 * one.value)
    assert eight.bounds == pytest.approx([8 * bound for bound in one.bounds])
    assert eight.probability == pytest.approx(one.probability)
    assert (one.breaks, eight.breaks) == (pytest.approx(20), pytest.approx(20))
    assert compare("< 320.5 B").probability == 0.0
    assert compare("< 319.5 B").probability == 1.0
