"""Search spaces: which terms a function may have, as a table of hypotheses."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import combinations, product

import numpy as np

from insitu.modeling.measurement import FloatArray
from insitu.modeling.pmnf import Factor, columns

Shape = tuple[Factor, ...]  # a term without its coefficient

QUARTERS = tuple(Fraction(i, 4) for i in range(13))  # I of [REF §4]
THIRDS = tuple(Fraction(i, 3) for i in (1, 2, 4, 5, 7, 8))
FALLING = tuple(
    Fraction(-n, d) for n, d in ((1, 4), (1, 3), (1, 2), (2, 3), (3, 4), (1, 1), (3, 2), (2, 1))
)
LOGARITHMS = (Fraction(0), Fraction(1), Fraction(2))  # J of [REF §4]
FEW = tuple(Fraction(i, 2) for i in (-2, 1, 2, 3, 4))  # per parameter, where there are several


@dataclass(frozen=True, slots=True)
class Space:
    """Terms and which of them make up a function, each with a constant.

    hypotheses: indices into `terms`, ascending; the constant function is the empty one.
    """

    parameters: tuple[str, ...]
    terms: tuple[Shape, ...]
    hypotheses: tuple[tuple[int, ...], ...]

    def design(self, coordinates: FloatArray) -> FloatArray:
        """The value of each term at each point: (n_terms, n_points)."""
        table = columns(coordinates, self.parameters)
        rows = np.ones((len(self.terms), len(table)))
        for i, shape in enumerate(self.terms):
            for factor in shape:
                value = factor(table[:, self.parameters.index(factor.parameter)])
                with np.errstate(invalid="ignore"):  # 0 · ∞: such a term is left out
                    rows[i] *= value
        return rows


def shapes(
    parameter: str,
    *,
    exponents: Iterable[Fraction] = (*QUARTERS, *THIRDS),
    logarithms: Iterable[Fraction] = LOGARITHMS,
    falling: Iterable[Fraction] = FALLING,
) -> tuple[Shape, ...]:
    """Single terms of one parameter, `x^i * log2(x)^j` for i in I and j in J, and falling
    powers.
    """
    rising = {(Factor(parameter, i, j),) for i, j in product(exponents, logarithms) if i or j}
    return tuple(sorted(rising | {(Factor(parameter, i),) for i in falling}))


@lru_cache(maxsize=64)
def default_space(parameters: tuple[str, ...]) -> Space:
    """The default search space of `search`: a constant and one term of a parameter [REF §3.2].

    With several parameters, sums and products of one simple term per parameter.
    """
    if len(parameters) == 1:
        terms = shapes(parameters[0])
        return Space(parameters, terms, ((), *((index,) for index in range(len(terms)))))
    single = [
        (
            *shapes(name, exponents=FEW, logarithms=(Fraction(0),), falling=()),
            (Factor(name, beta=Fraction(1)),),
            (Factor(name, Fraction(1), Fraction(1)),),
        )
        for name in parameters
    ]
    return several_parameters(parameters, single)


def several_parameters(parameters: tuple[str, ...], single: Sequence[Sequence[Shape]]) -> Space:
    """Every partition of every subset of parameters into products, one term per parameter.

    With three parameters: 1, p, n, q, p+n, p*n, p+n+q, p*n+q, … p*n*q [Calotoiu et al. 2016].
    """
    terms: dict[Shape, int] = {}
    hypotheses: set[tuple[int, ...]] = {()}
    for count in range(1, len(parameters) + 1):
        for chosen in combinations(range(len(parameters)), count):
            for choice in product(*(single[i] for i in chosen)):
                for groups in _partitions(tuple(choice)):
                    products = [
                        tuple(factor for shape in group for factor in shape) for group in groups
                    ]
                    indices = [terms.setdefault(shape, len(terms)) for shape in products]
                    hypotheses.add(tuple(sorted(indices)))
    return Space(parameters, tuple(terms), tuple(sorted(hypotheses, key=lambda h: (len(h), h))))


def _partitions(items: tuple[Shape, ...]) -> Iterable[list[tuple[Shape, ...]]]:
    if not items:
        yield []
        return
    first, rest = items[0], items[1:]
    for groups in _partitions(rest):
        yield [(first,), *groups]
        for i, group in enumerate(groups):
            yield [*groups[:i], (first, *group), *groups[i + 1 :]]
