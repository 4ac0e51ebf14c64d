"""Dependencies from counts whose law is known."""

from fractions import Fraction

import numpy as np
import pytest

from insitu.design.blackbox import deduce_nests, deduce_structure, find_loop_candidates
from insitu.design.dependencies import DependencyStatus, Nest
from insitu.design.pilot import pilot_configurations
from insitu.errors import UsageError

LEVELS = {"p": (2, 4, 8), "n": (32, 64, 96), "m": (10, 20, 30)}
CONFIGURATIONS = pilot_configurations(LEVELS)


def counts(law) -> np.ndarray:
    return np.array([float(law(**at)) for at in CONFIGURATIONS])


def test_pilots_of_three_and_four_parameters():
    assert len(CONFIGURATIONS) == 13
    assert CONFIGURATIONS[0] == CONFIGURATIONS[1] == {"p": 2, "n": 32, "m": 10}
    assert CONFIGURATIONS[-1] == CONFIGURATIONS[-2] == {"p": 4, "n": 64, "m": 20}
    assert len(pilot_configurations({**LEVELS, "q": (1, 2, 3)})) == 18
    assert pilot_configurations({"p": (1, 2, 4)})[2:] == [{"p": 2}, {"p": 4}, {"p": 2}]
    with pytest.raises(UsageError, match="3 different values"):
        pilot_configurations({"p": (2, 4)})


@pytest.mark.parametrize(
    ("law", "expected"),
    [
        (lambda p, n, m: 7, []),
        (lambda p, n, m: n, [{"n": 1}]),
        (lambda p, n, m: 3 * n * n + 5, [{"n": 2}]),
        (lambda p, n, m: n**3 / p, [{"n": 3, "p": -1}]),
        (lambda p, n, m: (n - 1) * (m - 2), [{"m": 1, "n": 1}]),
        (lambda p, n, m: (m - 10) * n, [{"m": 1, "n": 1}]),  # nothing at the base
        (
            lambda p, n, m: (p - 2) * n * m,
            [{"m": 1, "n": 1, "p": 1}],
        ),  # e.g. messages between ranks
        (lambda p, n, m: n + m, [{"m": 1}, {"n": 1}]),
        (lambda p, n, m: n / p + m / p, [{"m": 1, "p": -1}, {"n": 1, "p": -1}]),
        (lambda p, n, m: m * (n // m), [{"n": 1}]),  # a dependent parameter cancels
        (lambda p, n, m: n * 2**p, [{"n": None, "p": None}]),  # no power fits: only names
        (lambda p, n, m: p * n * m, [{"m": 1, "n": 1, "p": 1}]),
    ],
)
def test_laws(law, expected):
    nests = set(deduce_nests(CONFIGURATIONS, counts(law)))
    exact = {Nest.of(nest) for nest in expected}
    if law(2, 32, 10) == 30:  # 10 * (32 // 10) is not quite 32
        assert {nest.parameters for nest in nests} <= {frozenset("n"), frozenset("nm")}
    else:
        assert nests == exact


def test_main_loop_needs_all_other_work_to_be_linear():
    sites = {
        ("main", "loop:5"): counts(lambda p, n, m: m),
        ("main", "entries:5"): counts(lambda p, n, m: 1),
        ("main->work", "loop:9"): counts(lambda p, n, m: n * m / p),
        ("main->set_up", "loop:2"): counts(lambda p, n, m: n),
        ("main->norm", "loop:7"): counts(
            lambda p, n, m: m // 15
        ),  # only some iterations, and little work
        ("main->clock", "loop:3"): 100 * (np.arange(float(len(CONFIGURATIONS))) + 1),
    }
    structure, loop = deduce_structure(CONFIGURATIONS, sites, ranks="p")
    assert loop is None  # the work of clock is not linear in anything
    del sites["main->clock", "loop:3"]
    structure, loop = deduce_structure(CONFIGURATIONS, sites, ranks="p")
    assert loop is not None
    assert (loop.parameter, loop.callpath, loop.site) == ("m", "main", "loop:5")
    resolved = {path.callpath: path.nests for path in structure.resolve()}
    assert resolved["main->work"] == (Nest.of({"n": 1, "p": Fraction(-1)}),)
    assert resolved["main"] == ()


def test_a_loop_that_is_entered_again_and_again_is_not_the_main_loop():
    sites = {
        ("main", "loop:5"): counts(lambda p, n, m: m),
        ("main", "entries:5"): counts(lambda p, n, m: 2),
        ("main->work", "loop:9"): counts(lambda p, n, m: n * m / p),
    }

    _, twice = deduce_structure(CONFIGURATIONS, sites, ranks="p")
    sites["main", "entries:5"] = counts(lambda p, n, m: 1)
    _, once = deduce_structure(CONFIGURATIONS, sites, ranks="p")

    assert twice is None
    assert once is not None and once.parameter == "m"


@pytest.mark.parametrize("differing", [1, len(CONFIGURATIONS) - 1])
def test_counts_that_differ_between_equal_runs_are_ignored(differing):
    """On one rank nobody polls, so the runs of the base alone do not show it."""
    polls = counts(lambda p, n, m: (p - 1) * n)
    polls[differing] += 1000
    structure, _ = deduce_structure(CONFIGURATIONS, {("main", "loop:3"): polls})
    (dependency,) = structure.dependencies
    assert dependency.status is DependencyStatus.NONDETERMINISTIC
    assert dependency.nests == ()


def test_a_loop_around_drifting_work_is_not_the_main_loop():
    sites = {
        ("main", "loop:5"): counts(lambda p, n, m: m),
        ("main", "entries:5"): counts(lambda p, n, m: 1),
        ("main->work", "loop:9"): counts(lambda p, n, m: n * m * m),
    }
    assert deduce_structure(CONFIGURATIONS, sites)[1] is None


# Counts per function, as valgrind makes them: no loop is visible.
PER_FUNCTION = {
    ("main", "instructions"): counts(lambda p, n, m: 900 + 7 * m),
    ("main->work", "instructions"): counts(lambda p, n, m: 20 * n * m / p),
    ("main->set_up", "instructions"): counts(lambda p, n, m: 3 * n),
}


def test_a_declared_main_loop_is_accepted_if_the_work_is_proportional_to_it():
    assert deduce_structure(CONFIGURATIONS, PER_FUNCTION)[1] is None
    assert "m" in find_loop_candidates(CONFIGURATIONS, PER_FUNCTION)

    structure, loop = deduce_structure(CONFIGURATIONS, PER_FUNCTION, iteration="m")

    assert loop is not None
    assert (loop.parameter, loop.site) == ("m", "")
    assert loop.share == pytest.approx(1 - (900 + 96) / (900 + 70 + 3200 + 96))
    assert structure.iteration == "m"


@pytest.mark.parametrize(
    ("law", "name", "message"),
    [
        (lambda p, n, m: n * m * m, "m", "0% of the work is proportional to m"),
        (lambda p, n, m: 3 * n + m, "m", "9% of the work is proportional to m"),
        (lambda p, n, m: n * m, "q", "there is no --param q"),
    ],
)
def test_a_declared_main_loop_must_contain_the_work(law, name, message):
    with pytest.raises(UsageError, match=message):
        deduce_structure(CONFIGURATIONS, {("main", "work"): counts(law)}, iteration=name)


@pytest.mark.parametrize("scale", [1.0, 1e6])
def test_counts_that_are_nearly_powers_are_powers_in_any_unit(scale):
    almost = counts(lambda p, n, m: n * n * (1 + 1e-3 * (n == 64)))

    assert set(deduce_nests(CONFIGURATIONS, scale * almost)) == {Nest.of({"n": 2})}


@pytest.mark.parametrize(("excess", "is_triple"), [(230, False), (300, True)])
def test_three_parameters_act_together_if_they_add_more_than_4_percent(excess, is_triple):
    values = counts(lambda p, n, m: 1000 * (p / 2 + n / 32 + m / 10))
    values[-2:] += excess  # of 6000

    nests = set(deduce_nests(CONFIGURATIONS, values))

    alone = {Nest.of({name: 1}) for name in "pnm"}
    assert nests == ({Nest.of({"p": 1, "n": 1, "m": 1})} if is_triple else alone)
