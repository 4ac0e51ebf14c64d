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
    ("count", "at_largest"),
    [
        (lambda p, n: p - 1 + 0 * n, 7.0),
        (lambda p, n: 10 * n * (p - 1), 70 * TARGET[0, 1]),
        (lambda p, n: 8 * n**2 * (p - 1) / p, 7 * TARGET[0, 1] ** 2),
    ],
)
def test_three_levels_are_exact_with_a_doubt(count, at_largest):
    """Numbers of neighbours in a grid, 1, 3 and 7, look like p - 1 and grow no further."""
    points = np.array(list(product((2, 4, 8), (48, 96, 192))), dtype=float)

    [model] = insitu.fit(points, [count(*points.T)], parameters=("p", "n"))

    assert model.predict(TARGET) == pytest.approx(count(*TARGET.T), rel=1e-4)
    assert model.interval(TARGET)[0] == pytest.approx([at_largest, count(*TARGET[0])], rel=1e-3)


def test_a_factor_alone_needs_no_more_than_three_levels():
    points = np.array(list(product((2, 4, 8), (48, 96, 192))), dtype=float)

    [model] = insitu.fit(points, [4 * points[:, 0]], parameters=("p", "n"))

    assert model.interval(TARGET)[0] == pytest.approx([256, 256], rel=1e-4)
