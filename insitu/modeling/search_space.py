"""Search spaces of modeler "search": which terms a function may have."""

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
MULTI_PARAMETER_EXPONENTS = tuple(Fraction(i, 2) for i in (-2, 1, 2, 3, 4))  # of each parameter


@dataclass(frozen=True, slots=True)
class SearchSpace:
    """Terms, and which of them make up a function, each with a constant.

    hypotheses: indices into `terms`, ascending; the constant function is the empty tuple.
    """

    parameters: tuple[str, ...]
    terms: tuple[Shape, ...]
    hypotheses: tuple[tuple[int, ...], ...]

    def evaluate_terms(self, coordinates: FloatArray) -> FloatArray:
        """Return the value of each term at each point: (n, n_parameters) to (n_terms, n)."""
        table = columns(coordinates, self.parameters)
        rows = np.ones((len(self.terms), len(table)))
        for i, shape in enumerate(self.terms):
            for factor in shape:
                value = factor(table[:, self.parameters.index(factor.parameter)])
                with np.errstate(invalid="ignore"):  # 0 · ∞: such a term is not used
                    rows[i] *= value
        return rows


def shapes(
    parameter: str,
    *,
    exponents: Iterable[Fraction] = (*QUARTERS, *THIRDS),
    logarithms: Iterable[Fraction] = LOGARITHMS,
    falling: Iterable[Fraction] = FALLING,
) -> tuple[Shape, ...]:
    """Return the terms `x^i * log2(x)^j` for i in I and j in J, and falling powers, sorted."""
    rising: set[Shape] = set()
    for i, j in product(exponents, logarithms):
        if i or j:
            rising.add((Factor(parameter, i, j),))
    return tuple(sorted(rising | {(Factor(parameter, i),) for i in falling}))


@lru_cache(maxsize=64)
def default_space(parameters: tuple[str, ...]) -> SearchSpace:
    """Return the default space: a constant and one term of the parameter [REF §3.2].

    With several parameters, sums and products of one simple term per parameter.
    """
    if len(parameters) == 1:
        terms = shapes(parameters[0])
        return SearchSpace(parameters, terms, ((), *((index,) for index in range(len(terms)))))

    simple_terms = []
    for name in parameters:
        powers = shapes(
            name, exponents=MULTI_PARAMETER_EXPONENTS, logarithms=(Fraction(0),), falling=()
        )
        logarithm = Factor(name, beta=Fraction(1))
        linearithmic = Factor(name, Fraction(1), Fraction(1))
        simple_terms.append((*powers, (logarithm,), (linearithmic,)))
    return combine_parameters(parameters, simple_terms)


def combine_parameters(
    parameters: tuple[str, ...], simple_terms: Sequence[Sequence[Shape]]
) -> SearchSpace:
    """Return every partition of every subset of parameters into products.

    Each parameter has one term. With three parameters: 1, p, n, q, p+n, p*n, p+n+q, p*n+q, …
    p*n*q [Calotoiu et al. 2016].

    Args:
        simple_terms: the terms of each parameter.
    """
    index_of: dict[Shape, int] = {}
    hypotheses: set[tuple[int, ...]] = {()}
    for terms in _choices(simple_terms):
        for groups in _partitions(terms):
            indices = []
            for group in groups:
                shape = tuple(factor for term in group for factor in term)
                indices.append(index_of.setdefault(shape, len(index_of)))
            hypotheses.add(tuple(sorted(indices)))

    ordered = sorted(hypotheses, key=lambda indices: (len(indices), indices))
    return SearchSpace(parameters, tuple(index_of), tuple(ordered))


def _choices(simple_terms: Sequence[Sequence[Shape]]) -> Iterable[tuple[Shape, ...]]:
    """One term of each parameter, for every subset of the parameters."""
    for count in range(1, len(simple_terms) + 1):
        for subset in combinations(simple_terms, count):
            yield from product(*subset)


def _partitions(items: tuple[Shape, ...]) -> Iterable[list[tuple[Shape, ...]]]:
    if not items:
        yield []
        return
    first, rest = items[0], items[1:]
    for groups in _partitions(rest):
        yield [(first,), *groups]
        for i, group in enumerate(groups):
            yield [*groups[:i], (first, *group), *groups[i + 1 :]]
