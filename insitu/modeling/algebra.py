"""Arithmetic of functions: sums, products, derivatives, crossings, growth, formulas to paste."""

from collections.abc import Callable, Mapping
from fractions import Fraction

import numpy as np

from insitu.errors import ModelingError
from insitu.modeling.base import Model
from insitu.modeling.measurement import FloatArray
from insitu.modeling.pmnf import ONE, Factor, Function, Term

GRID = 2000  # places between which crossing points are looked for
HALVINGS = 60  # of the gap in which functions cross: to the last bits of a float
LN2 = float(np.log(2.0))
Growth = tuple[Fraction, Fraction, Fraction]  # gamma, alpha, beta: in the order that decides


def add(a: Function, b: Function) -> Function:
    """The sum, over the parameters of both; equal terms are joined."""
    terms: dict[tuple[Factor, ...], float] = {}
    for term in (*a.terms, *b.terms):
        terms[term.factors] = terms.get(term.factors, 0.0) + term.coefficient
    return _function(_joined(a, b), a.constant + b.constant, terms)


def multiply(a: Function, b: Function) -> Function:
    """The product, over the parameters of both."""
    terms: dict[tuple[Factor, ...], float] = {}
    for one in (Term(a.constant, ()), *a.terms):
        for other in (Term(b.constant, ()), *b.terms):
            factors = _product(one.factors, other.factors)
            terms[factors] = terms.get(factors, 0.0) + one.coefficient * other.coefficient
    return _function(_joined(a, b), terms.pop((), 0.0), terms)


def derivative(function: Function, parameter: str) -> Function:
    """The derivative with respect to one parameter, in the normal form again.

    Raises:
        ModelingError: if the function has no such parameter.
    """
    if parameter not in function.parameters:
        raise ModelingError(
            f"no parameter '{parameter}' in {function}; it has {', '.join(function.parameters)}"
        )
    terms: dict[tuple[Factor, ...], float] = {}
    for term in function.terms:
        for factor in term.factors:
            if factor.parameter != parameter:
                continue
            rest = tuple(other for other in term.factors if other is not factor)
            for weight, changed in _derivatives(factor):
                key = _product(rest, (changed,))
                terms[key] = terms.get(key, 0.0) + weight * term.coefficient
    return _function(function.parameters, terms.pop((), 0.0), terms)


def crossings(
    a: Model, b: Model, low: float, high: float, *, at: Mapping[str, float] | None = None
) -> tuple[float, ...]:
    """Where the predictions of two models cross between two positive values, ascending.

    With several parameters, along the one that is not held at a value. A change of behaviour that
    takes one model from below the other to above it counts, at the change.

    Args:
        at: values of the parameters that are held, as in {"n": 1600}.

    Raises:
        ModelingError: if not exactly one parameter is left or the bounds are not 0 < low < high.
    """
    held = dict(at or {})
    free = sorted({*a.parameters, *b.parameters} - held.keys())
    if len(free) != 1:
        raise ModelingError(
            f"crossing along {', '.join(free) or 'nothing'}: hold all parameters but one, "
            "as in at={'n': 1600}"
        )

    def difference(x: FloatArray) -> FloatArray:
        one, other = (
            model.predict(
                np.stack(
                    [held.get(name, 0.0) + (name == free[0]) * x for name in model.parameters],
                    axis=1,
                )
            )
            for model in (a, b)
        )
        return np.asarray(one - other)

    return _roots(difference, low, high)


def growth(function: Function, parameter: str) -> Growth:
    """The fastest growth in one parameter, comparable: (gamma, alpha, beta), zeros for a
    constant.
    """
    zero = Fraction(0)
    found = [
        (factor.gamma, factor.alpha, factor.beta)
        for term in function.terms
        for factor in term.factors
        if factor.parameter == parameter and term.coefficient
    ]
    return max([*found, *([(zero, zero, zero)] if function.constant or not found else [])])


def to_latex(function: Function) -> str:
    """The function as LaTeX mathematics, numbers to four digits."""
    parts = [_latex_number(function.constant)] if function.constant or not function.terms else []
    for term in function.terms:
        factors = [_latex_number(term.coefficient)]
        for factor in term.factors:
            name = _latex_name(factor.parameter)
            if factor.alpha:
                factors.append(name + _latex_power(factor.alpha))
            if factor.beta:
                factors.append(rf"\log_2{_latex_power(factor.beta)} {name}")
            if factor.gamma:
                exponent = name if factor.gamma == 1 else rf"{_latex_fraction(factor.gamma)} {name}"
                factors.append(f"2^{{{exponent}}}")
        parts.append(r" \cdot ".join(factors))
    return " + ".join(parts).replace("+ -", "- ")


def python_of(model: Model) -> str:
    """A model as an expression for Python with numpy as np; segments by np.where."""
    *before, last = [_expression(one.function, "np.log2({})", "2.0") for one in model.segments]
    name, answer = model.parameters[0], last
    for point, text in reversed([*zip(model.change_points, before, strict=True)]):
        answer = f"np.where({name} <= {(point.low + point.high) / 2!r}, {text}, {answer})"
    return answer


def sympy_of(model: Model) -> str:
    """A model as an expression that SymPy reads; segments as Piecewise, logarithms of base 2."""
    *before, last = [_expression(one.function, "log({}, 2)", "2") for one in model.segments]
    if not before:
        return last
    ends = [(point.low + point.high) / 2 for point in model.change_points]
    pairs = [
        f"({text}, {model.parameters[0]} <= {end!r})"
        for text, end in zip(before, ends, strict=True)
    ]
    return f"Piecewise({', '.join(pairs)}, ({last}, True))"


def _expression(function: Function, logarithm: str, two: str) -> str:
    """The function in Python's words, with the logarithm and the base of exponentials as given."""
    parts = [repr(float(function.constant))] if function.constant or not function.terms else []
    for term in function.terms:
        factors = [repr(float(term.coefficient))]
        for factor in term.factors:
            name = factor.parameter
            if factor.alpha:
                factors.append(f"{name}**({factor.alpha})")
            if factor.beta:
                factors.append(f"{logarithm.format(name)}**({factor.beta})")
            if factor.gamma:
                factors.append(f"{two}**(({factor.gamma})*{name})")
        parts.append("*".join(factors))
    return " + ".join(parts)


def latex_of(model: Model) -> str:
    """A model as LaTeX mathematics; segments as cases, which needs amsmath."""
    if len(model.segments) == 1:
        return to_latex(model.function)
    name = _latex_name(model.parameters[0])
    rows = [
        to_latex(segment.function)
        + (
            rf" & {name} \le {_latex_number(segment.upper)}"
            if np.isfinite(segment.upper)
            else rf" & {name} \ge {_latex_number(segment.lower)}"
        )
        for segment in model.segments
    ]
    return r"\begin{cases} " + r" \\ ".join(rows) + r" \end{cases}"


def _latex_name(parameter: str) -> str:
    return parameter if len(parameter) == 1 else rf"\mathit{{{parameter}}}"


def _function(
    parameters: tuple[str, ...], constant: float, terms: dict[tuple[Factor, ...], float]
) -> Function:
    kept = (Term(value, factors) for factors, value in terms.items() if value)
    return Function(parameters, constant, tuple(kept))


def _joined(a: Function, b: Function) -> tuple[str, ...]:
    return (*a.parameters, *(name for name in b.parameters if name not in a.parameters))


def _product(a: tuple[Factor, ...], b: tuple[Factor, ...]) -> tuple[Factor, ...]:
    factors: dict[str, Factor] = {}
    for factor in (*a, *b):
        other = factors.get(factor.parameter, Factor(factor.parameter))
        sums = (x + y for x, y in zip(factor[1:], other[1:], strict=True))
        factors[factor.parameter] = Factor(factor.parameter, *sums)
    return tuple(factor for _, factor in sorted(factors.items()) if any(factor[1:]))


def _derivatives(factor: Factor) -> list[tuple[float, Factor]]:
    name, alpha, beta, gamma = factor
    return [
        (weight, changed)
        for weight, changed in (
            (float(alpha), Factor(name, alpha - ONE, beta, gamma)),
            (float(beta) / LN2, Factor(name, alpha - ONE, beta - ONE, gamma)),
            (float(gamma) * LN2, factor),
        )
        if weight
    ]


def _roots(
    difference: Callable[[FloatArray], FloatArray], low: float, high: float
) -> tuple[float, ...]:
    if not 0 < low < high < np.inf:
        raise ModelingError(f"crossing between {low} and {high}: bounds must be 0 < low < high")
    x = np.geomspace(low, high, GRID)
    sign = np.sign(difference(x))
    answer = [float(x[i]) for i in np.flatnonzero(sign == 0)]
    for i in np.flatnonzero(sign[:-1] * sign[1:] < 0):
        answer.append(_bisected(difference, x[i : i + 2]))
    return tuple(sorted(answer))


def _bisected(difference: Callable[[FloatArray], FloatArray], bounds: FloatArray) -> float:
    low, high = (float(value) for value in bounds)
    below = float(difference(np.array([low]))[0])
    for _ in range(HALVINGS):
        middle = low + (high - low) / 2
        if float(difference(np.array([middle]))[0]) * below > 0:
            low = middle
        else:
            high = middle
    return low + (high - low) / 2


def _latex_number(value: float) -> str:
    mantissa, _, exponent = f"{value:.4g}".partition("e")
    return rf"{mantissa} \cdot 10^{{{int(exponent)}}}" if exponent else mantissa


def _latex_fraction(value: Fraction) -> str:
    if value.denominator == 1:
        return str(value)
    sign = "-" if value < 0 else ""
    return rf"{sign}\frac{{{abs(value.numerator)}}}{{{value.denominator}}}"


def _latex_power(value: Fraction) -> str:
    return "" if value == 1 else f"^{{{value}}}"
