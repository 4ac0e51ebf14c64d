"""Worked examples and claims of [VAL], Exascaling Your Library, ICS 2015."""

import numpy as np
import pytest

from insitu.expectations.limits import Expectation, expect, ruler
from insitu.expectations.notation import parse_growth
from insitu.expectations.validate import Match, match_of, validate
from insitu.modeling.pmnf import Factor


def test_the_limits_of_the_example_are_half_a_power_away():
    """[VAL §2.3]: E(p) = p has D(p) = √p."""
    expected = expect("O(p)")

    assert str(expected.lower) == "O(p^(1/2))"
    assert str(expected.upper) == "O(p^(3/2))"


def test_the_ruler_of_the_example():
    """[VAL §2.3]: {1, log p, p^¼, p^¼ log p, √p, … p, p log p, … p^(7/4) log p, p²}."""
    (factor,) = parse_growth("O(p)").products[0]
    ticks = [str(tick) for tick in ruler(factor)]

    quarters = ("p^(1/4)", "p^(1/2)", "p^(3/4)", "p", "p^(5/4)", "p^(3/2)", "p^(7/4)")
    inner = [tick for power in quarters for tick in (power, f"{power} * log2(p)")]
    assert ticks == ["1", "log2(p)", *inner, "p^2"]


@pytest.mark.parametrize(
    ("text", "lower", "upper"),
    [
        ("log(p)", "log(p)^(1/2)", "log(p)^(3/2)"),
        ("p^2", "p", "p^3"),
        ("p * log(p)", "p^(1/2) * log(p)", "p^(3/2) * log(p)"),
        ("k^3 * 2^k", "k^3 * 2^(k/2)", "k^3 * 2^(3 * k / 2)"),
        ("1/p", "1 / p^(3/2)", "1 / p^(1/2)"),
        ("1", "1", "1"),
    ],
)
def test_the_default_deviation_halves_the_leading_exponent(text, lower, upper):
    """[VAL §2.3]: D is of the class of E, F1 logarithms, F2 powers, F3 exponentials."""
    expected = expect(text)

    assert expected.lower.is_same(parse_growth(lower))
    assert expected.upper.is_same(parse_growth(upper))


def test_a_constant_gets_the_search_space_of_the_logarithm():
    """[VAL §3.3]: O(1) is classified as F1, which expands its search space."""
    assert ruler(Factor("p")) == ruler(Factor("p", beta=1))


# Table 2: expectation, model, divergence and match on Juqueen, Juropa, Piz Daint; D = √p [VAL §3.3]
TABLE_2 = """
Barrier        | log(p)   | log(p)          | 1                 | total
Barrier        | log(p)   | p^(2/3) log(p)  | p^(2/3)           | none
Barrier        | log(p)   | p^(1/3)         | p^(1/3) / log(p)  | approximate
Bcast          | log(p)   | p^0.5           | p^0.5 / log(p)    | approximate
Reduce         | log(p)   | p^0.5 log(p)    | p^0.5             | approximate
Allreduce      | log(p)   | p^(2/3) log(p)  | p^(2/3)           | none
Gather         | p        | p               | 1                 | total
Allgather      | p        | p^1.25          | p^0.25            | approximate
Alltoall       | p log(p) | p               | 1 / log(p)        | approximate
Alltoall       | p log(p) | p^1.25          | p^0.25 / log(p)   | approximate
Alltoall       | p log(p) | p^(4/3)         | p^(1/3) / log(p)  | approximate
Bcast (BT)     | log(p)   | p^1.25 log(p)   | p^1.25            | none
Bcast (BT)     | log(p)   | p log(p)        | p                 | none
MPI memory     | log(p)   | p               | p / log(p)        | none
MPI memory     | log(p)   | log(p)          | 1                 | total
Comm_create    | p        | p               | 1                 | total
Comm_dup       | 1        | 1               | 1                 | total
"""
ROWS = [[cell.strip() for cell in row.split("|")] for row in TABLE_2.strip().splitlines()]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]}-{row[2]}")
def test_the_matches_and_divergences_of_tables_2_and_3(row):
    """[VAL §4.2], tables 2 and 3."""
    _, wanted, model, divergence, match = row
    expected = expect(wanted, deviation="sqrt(p)")
    growth = parse_growth(model)

    assert match_of(growth, expected) == Match(match)
    assert growth.over(expected.growth).is_same(parse_growth(divergence))


def test_the_communicator_that_should_be_constant_and_is_linear():
    """Table 3, Comm_dup on Piz Daint: O(p) where O(1) was expected is no match.

    The table was made with D = √p for all expectations [VAL §3.3].
    """
    expected = expect("O(1)", deviation="sqrt(p)")

    assert match_of(parse_growth("p"), expected) is Match.NONE


# Table 4: MAFIA over its dimensionality k.
TABLE_4 = [
    ("gen", "k^3 * 2^k", "k^4 * 2^k", "k", Match.APPROXIMATE),
    ("dedup", "k^4 * 2^k", "k^4 * 2^k", "1", Match.TOTAL),
    ("pcount", "k * 2^k", "k * 2^k", "1", Match.TOTAL),
    ("unjoin", "k^3 * 2^k", "k^2 * 2^k", "1 / k", Match.APPROXIMATE),
]


@pytest.mark.parametrize(("name", "wanted", "model", "divergence", "match"), TABLE_4)
def test_the_matches_of_table_4(name, wanted, model, divergence, match):
    """[VAL §4.3]: exponential expectations with the default limits."""
    expected, growth = expect(wanted), parse_growth(model)

    assert match_of(growth, expected) is match
    assert growth.over(expected.growth).is_same(parse_growth(divergence))


@pytest.mark.parametrize(
    ("expectation", "truth", "match"),
    [
        ("k * 2^k", lambda k: 3.0 * k * 2**k, Match.TOTAL),
        ("k^3 * 2^k", lambda k: 2.0 * k**3 * 2**k, Match.TOTAL),
        ("k^3 * 2^k", lambda k: 0.5 * k**4 * 2**k, Match.APPROXIMATE),
        ("k^3 * 2^k", lambda k: 5.0 * k**2 * 4**k, Match.NONE),
        ("k^3 * 2^k", lambda k: 7.0 * k**3, Match.NONE),
    ],
)
def test_exponential_growth_is_found_from_values(expectation, truth, match):
    """[VAL §4.3]: k = 3, 4, … 16."""
    k = np.arange(3.0, 17.0)
    noise = 1 + np.random.default_rng(4).uniform(-0.01, 0.01, len(k))

    (verdict,) = validate(k, truth(k) * noise, expectation, parameters=("k",))

    assert verdict.match is match


def test_the_search_space_may_be_refined_and_expanded_by_the_user():
    """[VAL §2.3]: further exponents in gaps between terms, and beyond the bounds."""
    p = np.array([2.0, 4, 8, 16, 32, 64])

    for exponent in ("p^(2/7)", "p^(13/3)"):
        power = parse_growth(exponent).products[0][0].alpha
        values = 3 + 0.5 * p ** float(power)
        wanted = [expect("O(log p)"), expect("O(log p)", search=f"{exponent}, p^(9/2)")]
        by_ruler, by_user = validate(p, np.tile(values, (2, 1)), wanted)
        assert str(by_ruler.growth) != f"O({exponent})"
        assert str(by_user.growth) == f"O({exponent})"


def test_a_deviation_of_the_user_replaces_the_default():
    """[VAL §2.3]: the user may provide D."""
    strict: Expectation = expect("O(p)", deviation="log(p)")

    assert match_of(parse_growth("p^1.25"), expect("O(p)")) is Match.APPROXIMATE
    assert match_of(parse_growth("p^1.25"), strict) is Match.NONE
    assert match_of(parse_growth("p log p"), strict) is Match.APPROXIMATE
