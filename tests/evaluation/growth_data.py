"""Random functions with known growth, as the papers define them."""

from itertools import product

import numpy as np

SCALES = [2.0 ** np.arange(first, first + 5) for first in (1, 3, 5, 7)]  # [REF §4.1]
COMMON = [(1, 0), (2, 0), (3, 0), (0, 1)]
RARE = [(i / 2, 0) for i in (1, 3, 5)] + [(i / 3, 0) for i in (1, 2, 4, 5, 7, 8)] + [(0, 2)]
EXOTIC = [(i / 4, 0) for i in (1, 3, 5, 7, 9, 11)] + [(0, 0.5), (0, 1.5)]
EXOTIC += [(i / 5, 0) for i in range(1, 15) if i not in (5, 10)]
CLASSES = {"common": COMMON, "rare": COMMON + RARE, "exotic": COMMON + RARE + EXOTIC}
NEW = {"common": COMMON, "rare": RARE, "exotic": EXOTIC}  # one of the terms at least
KINDS = ["constant"] + [f"{name}{n}" for name in CLASSES for n in (1, 2)]

SEGMENT_TERMS = [(i / 2, j) for i in range(7) for j in range(3)]  # search space of [SEG §2]
JUMPS = ("any", "moderate", "none")  # W, M and C: how far functions are apart at the change

GRID = [[4, 8, 16, 32, 64], [10, 20, 40, 80, 160], [2, 4, 6, 8, 10]]
PLAIN = [(1 / 3, 0), (1 / 2, 0), (2 / 3, 0), (1, 0), (3 / 2, 0), (2, 0), (0, 1), (0, 2), (1, 1)]
FORMS = {"t + u": [(0,), (1,)], "t u": [(0, 1)], "t + t u": [(0,), (0, 1)], "t": [(0,)]}
FORMS_OF_THREE = {
    "t + u + v": [(0,), (1,), (2,)],
    "t u v": [(0, 1, 2)],
    "t u + v": [(0, 1), (2,)],
    "t u": [(0, 1)],
}


def term(exponents, x):
    alpha, beta = exponents
    return x**alpha * np.log2(x) ** beta if beta else x**alpha * np.ones_like(x)


def singles(rng, kind, count):
    """Functions of one class: (terms, coefficients); coefficients 10^U[-2, 3] [REF §4.1]."""
    for _ in range(count):
        coefficients = 10 ** rng.uniform(-2, 3, 3)
        if kind == "constant":
            yield [], coefficients[:1]
            continue
        name, number = kind[:-1], int(kind[-1])
        while True:
            pool = CLASSES[name] if number == 2 else NEW[name]
            chosen = [pool[i] for i in rng.choice(len(pool), number, replace=False)]
            if any(part in NEW[name] for part in chosen):
                break
        yield chosen, coefficients[: number + 1]


def value(terms, coefficients, x):
    x = np.asarray(x, dtype=float)
    return np.full(x.shape, coefficients[0]) + sum(
        c * term(t, x) for c, t in zip(coefficients[1:], terms, strict=True)
    )


def leading(terms, coefficients, at):
    sizes = [c * term(t, np.array([at]))[0] for c, t in zip(coefficients[1:], terms, strict=True)]
    return terms[int(np.argmax(sizes))] if terms else (0, 0)


def segmented(rng, jump, count, *, noise, outside=False, points=(5, 5), two=True):
    """Series over x = 1..N with a change after points[0], or of one function; [SEG §4.1]."""
    x, values, _ = last_segments(rng, jump, count, outside=outside, points=points, two=two)
    return x, values * (1 + rng.uniform(-noise, noise, values.shape))


def last_segments(rng, jump, count, *, outside=False, points=(5, 5), two=True):
    """The same without noise, and the exponents of the function behind the change."""
    x = np.arange(1.0, sum(points) + 1)
    change, values, exponents = points[0], [], []
    while len(values) < count:
        (first, of_first), (second, of_second) = (_segment(rng, x, outside) for _ in range(2))
        if not two:
            values.append(first)
            exponents.append(of_first)
            continue
        if jump == "moderate":
            ratio = 2 ** (rng.uniform(0.25, 1) * rng.choice([-1, 1]))
            second = second * ratio * first[change] / second[change]
        elif jump == "none":
            second = second * first[change] / second[change]
        if jump != "any" and np.abs(second / first - 1)[change:].max() <= 0.25:
            continue
        values.append(np.concatenate([first[:change], second[change:]]))
        exponents.append(of_second)
    return x, np.array(values), exponents


def _segment(rng, x, outside):
    """A function over x, and its exponents."""
    exponents = (
        (rng.uniform(0, 3), rng.uniform(0, 2))
        if outside
        else SEGMENT_TERMS[rng.integers(len(SEGMENT_TERMS))]
    )
    c = 10 ** rng.uniform(-2, 3, 2)
    return c[0] + c[1] * term(exponents, x), exponents


def forms(count):
    """The sums and products of terms of so many parameters."""
    return FORMS if count == 2 else FORMS_OF_THREE


def several(rng, form, number, *, noise, sparse, count=2):
    """Functions of some parameters: points, values (number, n), truths at the target, term keys.

    The target is four times the largest value of all.
    """
    grids = GRID[:count]
    points = np.array(list(product(*grids)), dtype=float)
    if sparse:  # a line along each axis through the smallest point, one point off them per pair
        off = (points != [g[0] for g in grids]).sum(axis=1)
        middle = (points == [g[2] for g in grids]).sum(axis=1)
        points = points[(off <= 1) | ((off == 2) & (middle == 2))]
    centre = [np.array([np.exp(np.log(g).mean())]) for g in grids]
    target = np.array([[4.0 * g[-1] for g in grids]])
    groups = forms(count)[form]
    values, truths, keys = [], [], []
    for _ in range(number):
        exponents = [PLAIN[i] for i in rng.integers(len(PLAIN), size=count)]
        scale = 10 ** rng.uniform(-2, 3)

        def at(places, group, exponents=exponents):
            return np.prod([term(exponents[i], places[i]) for i in group], axis=0)

        constant = scale * 10 ** rng.uniform(-1, 0)
        weights = [scale * 10 ** rng.uniform(-1, 0) / at(centre, g) for g in groups]
        for table, out in ((points, values), (target, truths)):
            parts = [w * at(table.T, g) for w, g in zip(weights, groups, strict=True)]
            out.append(constant + sum(parts))
        keys.append({tuple((i, *exponents[i]) for i in group) for group in groups})
    measured = np.array(values)
    measured = measured * (1 + rng.uniform(-noise, noise, measured.shape))
    return points, measured, np.array(truths)[:, 0], keys
