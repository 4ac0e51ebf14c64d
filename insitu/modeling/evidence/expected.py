"""A lattice that believes an expectation until data speak against it [VAL §2.3].

The expected growth gets a large part of the prior, since whoever wrote it down knows more than a
lattice does, and the ticks of its ruler get another: growth next to an expectation differs from it
by something that a program does. All other growth shares the rest, so that clear data overrule it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np

from insitu.modeling.evidence.hypothesis_space import PAIRED, Lattice
from insitu.modeling.measurement import FloatArray
from insitu.modeling.pmnf import ZERO, Factor

BELIEF = 0.4  # prior of the expected growth
RULER = 0.2  # prior of the ticks, in units of that of all other growth
ACCOMPANIED = 0.03  # share of a smaller second term in the prior of the expected growth
NEAR = 0.02  # exponents nearer to the expected one cannot be told from it
NOTHING = (ZERO, ZERO, ZERO)  # exponents of the constant
ALL = 64  # hypotheses kept: more than are ever weighed


Key = tuple[Fraction, Fraction, Fraction]  # alpha, beta, gamma


@dataclass(frozen=True, slots=True)
class Expected:
    """The leading term of one parameter as it should be, and how much each tick about it weighs.

    A term without exponents is the constant.
    """

    leading: Factor
    ticks: Mapping[Factor, float] = field(default_factory=dict)


def believing(lattice: Lattice, expected: Expected) -> Lattice:
    """The lattice with the ticks among its terms, and the prior of an expectation."""
    leading = expected.leading[1:]
    keys: list[Key] = [shape[0][1:] for shape in lattice.shapes]
    weights = dict(zip(keys, np.exp(lattice.singles).tolist(), strict=True))
    ticks = {
        one[1:]: weight
        for one, weight in expected.ticks.items()
        if one[1:] not in (leading, NOTHING)
    }
    total = max(sum(ticks.values()), 1e-300)
    for tick, weight in ticks.items():
        weights[tick] = weights.get(tick, 0.0) + RULER * weight / total
    constant, doubles = float(np.exp(lattice.constant)), np.exp(lattice.doubles)
    for key in weights:
        if leading != NOTHING and _is_near(key, leading):
            weights[key] = 0.0
    others = sum(weights.values()) + float(doubles.sum()) + constant * (leading != NOTHING)
    rest, pairs = (1 - BELIEF) / others, lattice.pairs
    constant = BELIEF if leading == NOTHING else rest * constant
    weights = {key: rest * weight for key, weight in weights.items()}
    doubles = rest * doubles
    if leading != NOTHING:
        weights.setdefault(leading, 0.0)
        places = {key: i for i, key in enumerate(weights)}
        beside = [
            (places[(*key, ZERO)], places[leading]) for key in PAIRED if _is_less(key, leading)
        ]
        share = BELIEF * ACCOMPANIED if beside else 0.0
        weights[leading] = BELIEF - share
        pairs = np.array([*pairs.tolist(), *beside], dtype=np.intp)
        doubles = np.concatenate([doubles, np.full(len(beside), share / max(len(beside), 1))])
    name = expected.leading.parameter
    return replace(
        lattice,
        shapes=tuple((Factor(name, *key),) for key in weights),
        exponents=np.array([[float(value) for value in key] for key in weights]),
        pairs=pairs,
        constant=float(np.log(constant)),
        singles=_log(np.array(list(weights.values()))),
        doubles=_log(doubles),
    )


def _is_near(a: Key, b: Key) -> bool:
    return all(abs(float(x) - float(y)) < NEAR for x, y in zip(a, b, strict=True))


def _is_less(paired: tuple[Fraction, Fraction], leading: Key) -> bool:
    alpha, beta, gamma = leading
    return (ZERO, *paired) < (gamma, alpha, beta)


def _log(weights: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore"):
        return np.log(weights)
