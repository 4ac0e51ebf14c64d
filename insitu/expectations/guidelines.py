"""Rules between functions: `MPI_Allreduce <= MPI_Reduce + MPI_Bcast` [VAL §3.1].

A call must not cost more than the calls that could replace it. The models of both sides are
combined before they are compared [VAL §2.4], so a violation is predicted before it can be measured.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from insitu.errors import UsageError
from insitu.expectations.prediction import StudentMixture, first_above, predict
from insitu.modeling.base import Model
from insitu.modeling.measurement import FloatArray

EXAMPLE = "MPI_Allreduce <= MPI_Reduce + MPI_Bcast"
ValueOf = Callable[[str], StudentMixture]


@dataclass(frozen=True, slots=True)
class Side:
    """A sum of products; each is a coefficient and the names of functions."""

    products: tuple[tuple[float, tuple[str, ...]], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The functions, without duplicates."""
        return tuple(dict.fromkeys(name for _, names in self.products for name in names))

    def value(self, value_of: ValueOf) -> StudentMixture:
        """Return the value of the sum from the values of its functions."""
        total = StudentMixture.constant(0.0)
        for number, names in self.products:
            term = StudentMixture.constant(number)
            for name in names:
                term = term * value_of(name)
            total = total + term
        return total

    def predict(self, values_of: Callable[[str], FloatArray]) -> FloatArray:
        """Return the sum (n,) from what the models of its functions predict at n points."""
        products = [
            math.prod((values_of(name) for name in names), start=number)
            for number, names in self.products
        ]
        return np.asarray(sum(products))


@dataclass(frozen=True, slots=True)
class Guideline:
    """A rule: the left side must not be larger than the right side."""

    text: str
    left: Side
    right: Side

    @property
    def names(self) -> tuple[str, ...]:
        """The functions of both sides."""
        return tuple(dict.fromkeys((*self.left.names, *self.right.names)))


@dataclass(frozen=True, slots=True)
class Compliance:
    """The probabilities of a violation.

    Attributes:
        now: at the largest measured point.
        later: at the target.
        at: the target.
        begins: the value of the first parameter from which the models violate the rule, None if
            they do not.
    """

    now: float
    later: float
    at: tuple[float, ...]
    begins: float | None


def parse_guideline(text: str) -> Guideline:
    """Parse `f <= g + 2 * h`; spaces separate functions from `+` and `*`.

    Raises:
        UsageError: the text has another form.
    """
    left, mark, right = text.replace("≤", "<=").replace("≼", "<=").partition("<=")
    if not mark or "<=" in right:
        raise UsageError(f"rule '{text}': write one `<=`, as in {EXAMPLE}")
    return Guideline(text, _parse_side(left, text), _parse_side(right, text))


def check_guideline(
    guideline: Guideline,
    models: Callable[[str], Sequence[Model]],
    *,
    largest: Sequence[float],
    at: Sequence[float],
) -> Compliance:
    """Compare both sides at the largest measured point and at a target.

    Args:
        guideline: the rule.
        models: of each call path of a function; their values are added.
        largest: the largest measured point (n_parameters,).
        at: the target (n_parameters,).
    """

    def sides(point: Sequence[float]) -> tuple[StudentMixture, StudentMixture]:
        def value(name: str) -> StudentMixture:
            total = StudentMixture.constant(0.0)
            for model in models(name):
                total = total + predict(model, point)
            return total

        return guideline.left.value(value), guideline.right.value(value)

    @np.errstate(over="ignore", invalid="ignore")  # far out, both sides may be infinite
    def excess(values: FloatArray) -> FloatArray:
        points = np.tile(np.asarray(largest, dtype=float), (len(values), 1))
        points[:, 0] = values

        def predicted(name: str) -> FloatArray:
            return np.asarray(sum(model.predict(points) for model in models(name)))

        return guideline.left.predict(predicted) - guideline.right.predict(predicted)

    now, later = (left.probability_above(right) for left, right in map(sides, (largest, at)))
    return Compliance(now, later, tuple(at), first_above(float(largest[0]), excess))


def _parse_side(text: str, whole: str) -> Side:
    products = []
    for term in _split(text.split(), "+", whole):
        number, names = 1.0, []
        for words in _split(term, "*", whole):
            if len(words) != 1:
                raise UsageError(
                    f"rule '{whole}': '{' '.join(words)}' is not one function; "
                    "put + or * between functions, with spaces"
                )
            try:
                number *= float(words[0])
            except ValueError:
                names.append(words[0])
        if not np.isfinite(number) or number < 0:
            raise UsageError(f"rule '{whole}': the number before a function must be positive")
        products.append((number, tuple(names)))

    return Side(tuple(products))


def _split(words: Sequence[str], sign: str, whole: str) -> list[list[str]]:
    groups: list[list[str]] = [[]]
    for word in words:
        if word == sign:
            groups.append([])
        else:
            groups[-1].append(word)
    if not all(groups):
        raise UsageError(f"rule '{whole}': a function is missing, as in {EXAMPLE}")
    return groups
