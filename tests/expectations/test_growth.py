import pytest

from insitu.errors import UsageError
from insitu.expectations.growth import growth_of_function
from insitu.expectations.notation import parse_growth
from insitu.modeling.pmnf import Factor, Function, Term


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("O(1)", "O(1)"),
        ("O(p)", "O(p)"),
        ("3 * p + 7", "O(p)"),
        ("O(n log n)", "O(n * log(n))"),
        ("O(n*log(n))", "O(n * log(n))"),
        ("log^2 p", "O(log(p)^2)"),
        ("log2(p)**2", "O(log(p)^2)"),
        ("sqrt(p) log(p)", "O(p^(1/2) * log(p))"),
        ("O(n^2.81)", "O(n^2.81)"),
        ("O(n²)", "O(n^2)"),
        ("O(k^3 * 2^k)", "O(k^3 * 2^k)"),
        ("4^(k/4)", "O(2^(k/2))"),
        ("3^n", "O(3^n)"),
        ("1/p", "O(1 / p)"),
        ("n^2/(p log p)", "O(n^2 / (p * log(p)))"),
        ("n^2 + n + 1", "O(n^2)"),
        ("log(n^3)", "O(log(n))"),
    ],
)
def test_big_o_is_parsed_as_users_write_it(text, written):
    assert str(parse_growth(text)) == written


@pytest.mark.parametrize("text", ["O(n log n)", "O(k^3 * 2^(k/2))", "n^2/p + log(p)", "(n+p)^2"])
def test_printed_growth_parses_back(text):
    growth = parse_growth(text)

    assert parse_growth(str(growth)).is_same(growth)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("O(", "ends too early"),
        ("p^n", "an exponent must be a number"),
        ("p $ q", "'$ q' is not understood"),
        ("n - p", "never negative"),
        ("(n", "not closed"),
        ("log(log(p))", "logarithm of a logarithm"),
        ("p)", "unexpected"),
    ],
)
def test_other_texts_are_refused_with_a_reason(text, reason):
    with pytest.raises(UsageError, match=reason.replace("$", r"\$")):
        parse_growth(text)


@pytest.mark.parametrize(
    ("less", "more"),
    [
        ("1", "log p"),
        ("log^2 p", "p^0.1"),
        ("p", "p log p"),
        ("p^8", "2^(p/16)"),
        ("n", "n p"),
        ("n p", "n^2 + p^2"),
        ("sqrt(n p)", "n + p"),
        ("1/p", "1"),
    ],
)
def test_growth_is_ordered_as_its_values_finally_are(less, more):
    low, high = parse_growth(less), parse_growth(more)

    assert low.is_bounded_by(high)
    assert not high.is_bounded_by(low)


def test_neither_of_two_parameters_bounds_the_other():
    n, p = parse_growth("n"), parse_growth("p")

    assert not n.is_bounded_by(p)
    assert not p.is_bounded_by(n)


def test_the_growth_of_a_function_is_its_leading_term():
    terms = (Term(3.0, (Factor("p", 1, 1),)), Term(50.0, (Factor("p", 1),)))

    assert growth_of_function(Function(("p",), 2.0, terms)) == parse_growth("O(p log p)")


def test_growth_has_values():
    assert parse_growth("O(n^2 * log(p))").at({"n": 3, "p": 4}) == 18.0
