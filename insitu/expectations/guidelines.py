"""Rules between functions: `MPI_Allreduce <= MPI_Reduce + MPI_Bcast` [VAL §3.1].

What one call does may not cost more than the calls it stands for. The models of both sides are
combined before they are compared [VAL §2.4], so a violation is seen before it is measured.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from insitu.errors import UsageError
from insitu.expectations.prediction import StudentMixture, first_above, predict
from insitu.modeling.base import Model

EXAMPLE = "MPI_Allreduce <= MPI_Reduce + MPI_Bcast"
HORIZON = 16.0  # times the largest measured point, where nothing else is said
Values = Callable[[str], StudentMixture]


@dataclass(frozen=True, slots=True)
class Side:
    """A sum of products: of each the number before it and the names of functions."""

    products: tuple[tuple[float, tuple[str, ...]], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The functions, each once."""
        return tuple(dict.fromkeys(name for _, names in self.products for name in names))

    def value(self, of: Values) -> StudentMixture:
        """The value of the sum from those of its functions."""
        total = StudentMixture.constant(0.0)
        for number, names in self.products:
            part = StudentMixture.constant(number)
            for name in names:
                part = part * of(name)
            total = total + part
        return total


@dataclass(frozen=True, slots=True)
class Guideline:
    """Left may not be more than right."""

    text: str
    left: Side
    right: Side

    @property
    def names(self) -> tuple[str, ...]:
        """The functions of both sides."""
        return tuple(dict.fromkeys((*self.left.names, *self.right.names)))


@dataclass(frozen=True, slots=True)
class Compliance:
    """How probable a violation is at the largest measured point and further out.

    begins: the value of the first parameter from which the models say so, None if nowhere.
    """

    now: float
    later: float
    at: tuple[float, ...]
    begins: float | None


def parse_guideline(text: str) -> Guideline:
    """Read `f <= g + 2 * h`; functions are separated from `+` and `*` by spaces.

    Raises:
        UsageError: the text is no such rule.
    """
    left, mark, right = text.replace("≤", "<=").replace("≼", "<=").partition("<=")
    if not mark or "<=" in right:
        raise UsageError(f"rule '{text}': write one `<=`, as in {EXAMPLE}")
    return Guideline(text, _side(left, text), _side(right, text))


def check_guideline(
    guideline: Guideline,
    models: Callable[[str], Sequence[Model]],
    *,
    largest: Sequence[float],
    at: Sequence[float] | None,
) -> Compliance:
    """Compare both sides at the largest measured point and at a target.

    Args:
        guideline: the rule.
        models: of each function; several call paths of one are added.
        largest: the largest measured point (n_parameters,).
        at: the target; 16 times the first parameter where it is None.
    """
    target = [HORIZON * largest[0], *largest[1:]] if at is None else list(at)

    def sides(point: Sequence[float]) -> tuple[StudentMixture, StudentMixture]:
        def value(name: str) -> StudentMixture:
            total = StudentMixture.constant(0.0)
            for model in models(name):
                total = total + predict(model, point)
            return total

        return guideline.left.value(value), guideline.right.value(value)

    def excess(x: float) -> float:
        left, right = sides([x, *largest[1:]])
        return left.mean - right.mean

    now, later = (left.probability_above(right) for left, right in map(sides, (largest, target)))
    return Compliance(now, later, tuple(target), first_above(float(largest[0]), excess))


def _side(text: str, whole: str) -> Side:
    products = []
    for part in _split(text.split(), "+", whole):
        number, names = 1.0, []
        for words in _split(part, "*", whole):
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
            raise UsageError(f"rule '{whole}': a number before a function is positive")
        products.append((number, tuple(names)))
    return Side(tuple(products))


def _split(words: Sequence[str], sign: str, whole: str) -> list[list[str]]:
    parts: list[list[str]] = [[]]
    for word in words:
        if word == sign:
            parts.append([])
        else:
            parts[-1].append(word)
    if not all(parts):
        raise UsageError(f"rule '{whole}': a function is missing, as in {EXAMPLE}")
    return parts
