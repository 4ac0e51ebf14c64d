"""Counts over several parameters without noise: a constant may be negative, as in n·(p - 1)."""

from itertools import product

import numpy as np
import pytest

import insitu

STAR = np.array([(2, 96), (4, 96), (6, 96), (9, 96), (4, 48), (4, 192)], dtype=float)
GRID = np.array(list(product((2, 4, 6, 9), (48, 96, 192))), dtype=float)
TARGET = np.array([[64.0, 1024.0]])


@pytest.mark.parametrize("points", [STAR, GRID, GRID[[0, 1, 3, 4, 5, 8, 10, 11]]])
@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("-1 + 1 * p", lambda p, n: p - 1 + 0 * n),
        ("-10 * n + 10 * n * p", lambda p, n: 10 * n * (p - 1)),
        ("36 * n^2 - 36 * n^2 * p^(-1)", lambda p, n: 36 * n**2 * (p - 1) / p),
    ],
)
def test_what_one_rank_gets_from_all_others_is_exact(points, text, count):
    [model] = insitu.fit(points, [count(*points.T)], parameters=("p", "n"))

    assert model.predict(TARGET) == pytest.approx(count(*TARGET.T), rel=1e-6)
    assert model.interval(TARGET)[0] == pytest.approx(count(*TARGET[0]), rel=1e-4)
    assert str(model) == text


def test_three_parameters():
    points = np.array(list(product((2, 3, 4, 6), (10, 20), (1, 2))), dtype=float)
    p, n, k = points.T

    [model] = insitu.fit(points, [(p - 1) * n * k**2], parameters=("p", "n", "k"))

    assert model.predict([[100.0, 50.0, 3.0]]) == pytest.approx([99 * 50 * 9], rel=1e-6)


def test_counts_beside_an_exact_law_are_not_taken_for_one():
    odd = 10 * GRID[:, 1] * (GRID[:, 0] - 1) + (np.arange(len(GRID)) % 3)

    [model] = insitu.fit(GRID, [odd], parameters=("p", "n"))

    assert all(term.coefficient > 0 for term in model.function.terms)
    assert model.function.constant >= 0


@pytest.mark.parametrize(
    ("count", "levelled"),
    [
        (lambda p, n: p - 1 + 0 * n, 12.14),
        (lambda p, n: 10 * n * (p - 1), 121.4 * TARGET[0, 1]),
        (lambda p, n: 8 * n**2 * (p - 1) / p, 7.875 * TARGET[0, 1] ** 2),  # levels off itself
    ],
)
def test_three_levels_are_exact_beside_a_function_that_levels_off(count, levelled):
    points = np.array(list(product((2, 4, 8), (48, 96, 192))), dtype=float)
    values = count(*points.T)

    [model] = insitu.fit(points, [values], parameters=("p", "n"))

    assert model.predict(TARGET) == pytest.approx(count(*TARGET.T), rel=1e-4)
    assert model.interval(TARGET)[0] == pytest.approx([levelled, count(*TARGET[0])], rel=1e-3)
    for bound in model.interval(points).T:
        assert bound == pytest.approx(values, rel=1e-4)


def test_a_factor_alone_needs_no_more_than_three_levels():
    points = np.array(list(product((2, 4, 8), (48, 96, 192))), dtype=float)

    [model] = insitu.fit(points, [4 * points[:, 0]], parameters=("p", "n"))

    assert model.interval(TARGET)[0] == pytest.approx([256, 256], rel=1e-4)
