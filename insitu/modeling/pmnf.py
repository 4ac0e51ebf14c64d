"""Functions in the performance model normal form (PMNF): sums of powers and logarithms.

f(x₁ … x_m) = c₀ + Σ_k c_k · Π_l x_l^α · log2(x_l)^β [· 2^(γ·x_l)]        [REF §2.1], [SEG §2]
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from insitu.errors import ModelingError
from insitu.modeling.measurement import FloatArray

ZERO = Fraction(0)
ONE = Fraction(1)
LARGEST_DENOMINATOR = 20  # of an exponent that is printed as a fraction


class Factor(NamedTuple):
    """`x^alpha · log2(x)^beta · 2^(gamma·x)` of one parameter.

    gamma is zero except for exponential growth.
    """

    parameter: str
    alpha: Fraction = ZERO
    beta: Fraction = ZERO
    gamma: Fraction = ZERO

    def __call__(self, x: FloatArray) -> FloatArray:
        """Evaluate at values of the parameter; the logarithm of a value below 1 counts as 0."""
        return power(x, float(self.alpha), float(self.beta), float(self.gamma))

    def __str__(self) -> str:
        name = self.parameter
        texts = []
        if self.alpha:
            texts.append(name + _exponent(self.alpha))
        if self.beta:
            texts.append(f"log2({name}){_exponent(self.beta)}")
        if self.gamma:
            texts.append(f"2^({name})" if self.gamma == 1 else f"2^({self.gamma} * {name})")
        return " * ".join(texts) or "1"


class Term(NamedTuple):
    """A coefficient times a product of factors, at most one per parameter."""

    coefficient: float
    factors: tuple[Factor, ...]

    def __str__(self) -> str:
        return " * ".join([_number(self.coefficient), *map(str, self.factors)])


@dataclass(frozen=True, slots=True)
class Function:
    """A constant and a sum of terms over named parameters, in the order of columns of points."""

    parameters: tuple[str, ...]
    constant: float
    terms: tuple[Term, ...] = ()

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        """Pickle faster than a dataclass does by default."""
        return Function, (self.parameters, self.constant, self.terms)

    def __call__(self, points: ArrayLike) -> FloatArray:
        """Evaluate at points: (n, n_parameters), or (n,) with one parameter, to (n,).

        Raises:
            ModelingError: the number of columns differs from the number of parameters.
        """
        table = columns(points, self.parameters)
        total = np.full(len(table), float(self.constant))
        with np.errstate(over="ignore", invalid="ignore"):  # infinite if too large
            for term in self.terms:
                value = np.full(len(table), float(term.coefficient))
                for factor in term.factors:
                    value = value * factor(table[:, self.parameters.index(factor.parameter)])
                total = total + value
        return total

    def __str__(self) -> str:
        texts = [str(term) for term in self.terms]
        if self.constant or not texts:
            texts.insert(0, _number(self.constant))
        return " + ".join(texts).replace("+ -", "- ")

    def leading_term(self, at: ArrayLike) -> Term | None:
        """Return the term with the largest absolute value at one point (n_parameters,).

        None if the function is constant.
        """
        if not self.terms:
            return None
        point = np.asarray(at, dtype=float).reshape(1, -1)
        sizes = [abs(Function(self.parameters, 0.0, (term,))(point)[0]) for term in self.terms]
        return self.terms[int(np.argmax(sizes))]

    def leading(self, at: ArrayLike) -> tuple[tuple[Fraction, Fraction], ...]:
        """Return (alpha, beta) of the leading term at one point, one pair per parameter."""
        term = self.leading_term(at)
        factors = {factor.parameter: factor for factor in term.factors} if term else {}
        absent = Factor("")
        return tuple(
            (factors.get(name, absent).alpha, factors.get(name, absent).beta)
            for name in self.parameters
        )

    def to_dict(self) -> dict[str, Any]:  # Any: JSON
        """Return a form that JSON can hold, exponents as text; `from_dict` reads it exactly."""
        return {
            "parameters": list(self.parameters),
            "constant": None if self.constant != self.constant else self.constant,
            "terms": [
                {
                    "coefficient": term.coefficient,
                    "factors": [
                        {"parameter": factor.parameter} | _exponent_texts(factor)
                        for factor in term.factors
                    ],
                }
                for term in self.terms
            ],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Function":
        """Read what `to_dict` has written."""
        return cls(
            tuple(data["parameters"]),
            float("nan") if data["constant"] is None else float(data["constant"]),
            tuple(
                Term(
                    float(term["coefficient"]),
                    tuple(
                        _factor(
                            factor["parameter"],
                            tuple([factor.get(name, "0") for name in EXPONENT_NAMES]),
                        )
                        for factor in term["factors"]
                    ),
                )
                for term in data["terms"]
            ),
        )


EXPONENT_NAMES = ("exponent", "log", "exponential")


def _exponent_texts(factor: Factor) -> dict[str, str]:
    """The exponents of a factor as text; that of a power of two only where there is one."""
    texts = {"exponent": str(factor.alpha), "log": str(factor.beta)}
    return texts | {"exponential": str(factor.gamma)} if factor.gamma else texts


@lru_cache(maxsize=1024)  # many models share few factors
def _factor(parameter: str, exponents: tuple[str, ...]) -> Factor:
    return Factor(parameter, *map(Fraction, exponents))


def power(x: FloatArray, alpha: float, beta: float, gamma: float = 0.0) -> FloatArray:
    """Return `x^alpha · log2(x)^beta · 2^(gamma·x)` in the shape of x.

    The logarithm of a value below 1 counts as 0.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        value = np.power(x, alpha) if alpha else np.ones_like(x)
        if beta:
            value = value * np.power(np.log2(np.maximum(x, 1.0)), beta)
        if gamma:
            value = value * np.exp2(gamma * x)
    return value


def powers(x: FloatArray, exponents: FloatArray) -> FloatArray:
    """Return `power` for many exponents (…, 3) at once; x broadcasts against (…)."""
    alpha, beta, gamma = exponents[..., 0], exponents[..., 1], exponents[..., 2]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        value = np.power(x, alpha) * np.power(np.log2(np.maximum(x, 1.0)), beta)
        if gamma.any():
            value = value * np.exp2(gamma * x)
    return np.asarray(value)


def columns(points: ArrayLike, parameters: Sequence[str]) -> FloatArray:
    """Return points as an array of shape (n, n_parameters).

    Raises:
        ModelingError: they have another shape.
    """
    table = np.asarray(points, dtype=np.float64)
    if table.ndim <= 1 and len(parameters) == 1:
        table = table.reshape(-1, 1)
    if table.ndim == 1:
        table = table.reshape(1, -1)
    if table.ndim != 2 or table.shape[1] != len(parameters):
        raise ModelingError(
            f"points of shape {np.shape(points)} do not fit the parameters "
            f"{', '.join(parameters)}; give an array of shape (n, {len(parameters)})"
        )
    return table


def _exponent(value: Fraction) -> str:
    if value == 1:
        return ""
    if value.denominator > LARGEST_DENOMINATOR:  # a continuous exponent
        text = f"{float(value):.3g}"
        return f"^{text}" if value > 0 else f"^({text})"
    return f"^{value}" if value.denominator == 1 and value > 0 else f"^({value})"


def _number(value: float) -> str:
    return f"{value:.4g}"
