"""Arithmetic of functions: sums, products, derivatives, crossings, growth, and formulas as text."""

from collections.abc import Callable, Mapping
from fractions import Fraction

import numpy as np

from insitu.errors import ModelingError
from insitu.modeling.base import Model
from insitu.modeling.measurement import FloatArray
from insitu.modeling.pmnf import ONE, ZERO, Factor, Function, Term

GRID_SIZE = 2000  # points between which crossings are looked for
HALVINGS = 60  # of the interval that holds a crossing: to the last bits of a float
LN2 = float(np.log(2.0))
GrowthOrder = tuple[Fraction, Fraction, Fraction]  # gamma, alpha, beta: in the order that decides


def add(a: Function, b: Function) -> Function:
    """Return the sum, over the parameters of both; equal terms are merged."""
    terms: dict[tuple[Factor, ...], float] = {}
    for term in (*a.terms, *b.terms):
        terms[term.factors] = terms.get(term.factors, 0.0) + term.coefficient
    return _make_function(_all_parameters(a, b), a.constant + b.constant, terms)


def multiply(a: Function, b: Function) -> Function:
    """Return the product, over the parameters of both."""
    terms: dict[tuple[Factor, ...], float] = {}
    for left in (Term(a.constant, ()), *a.terms):
        for right in (Term(b.constant, ()), *b.terms):
            factors = _multiply_factors(left.factors, right.factors)
            product = left.coefficient * right.coefficient
            terms[factors] = terms.get(factors, 0.0) + product
    return _make_function(_all_parameters(a, b), terms.pop((), 0.0), terms)


def derivative(function: Function, parameter: str) -> Function:
    """Return the derivative with respect to one parameter, again in the normal form.

    Raises:
        ModelingError: the function has no such parameter.
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
            for weight, derived in _differentiate(factor):
                key = _multiply_factors(rest, (derived,))
                terms[key] = terms.get(key, 0.0) + weight * term.coefficient
    return _make_function(function.parameters, terms.pop((), 0.0), terms)


def crossings(
    a: Model, b: Model, low: float, high: float, *, at: Mapping[str, float] | None = None
) -> tuple[float, ...]:
    """Return where the predictions of two models cross between two positive values, ascending.

    With several parameters, along the one that is not fixed. A change of behaviour that takes one
    model from below the other to above it counts as a crossing at the change.

    Args:
        a, b: the models.
        low, high: values of the parameter.
        at: values of the parameters that are fixed, such as {"n": 1600}.

    Raises:
        ModelingError: not exactly one parameter is free, or the bounds are not 0 < low < high.
    """
    fixed = dict(at or {})
    free = sorted({*a.parameters, *b.parameters} - fixed.keys())
    if len(free) != 1:
        raise ModelingError(
            f"crossing along {', '.join(free) or 'nothing'}: fix all parameters but one, "
            "such as at={'n': 1600}"
        )

    def predict(model: Model, x: FloatArray) -> FloatArray:
        columns = [fixed.get(name, 0.0) + (name == free[0]) * x for name in model.parameters]
        return model.predict(np.stack(columns, axis=1))

    return _find_roots(lambda x: predict(a, x) - predict(b, x), low, high)


def growth(function: Function, parameter: str) -> GrowthOrder:
    """Return the order of the fastest growth in one parameter, for comparisons.

    It is (gamma, alpha, beta) of the dominant factor, zeros for a constant.
    """
    orders = []
    for term in function.terms:
        for factor in term.factors:
            if factor.parameter == parameter and term.coefficient:
                orders.append((factor.gamma, factor.alpha, factor.beta))
    if function.constant or not orders:
        orders.append((ZERO, ZERO, ZERO))
    return max(orders)


def to_latex(function: Function) -> str:
    """Return the function as LaTeX mathematics, with numbers of four digits."""
    summands = [_latex_number(function.constant)] if function.constant or not function.terms else []
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
        summands.append(r" \cdot ".join(factors))
    return " + ".join(summands).replace("+ -", "- ")


def python_of(model: Model) -> str:
    """Return a model as an expression of Python with numpy as np; segments by np.where.

    NaN outside of the domain of the model.
    """
    *before, last = [_expression(s.function, "np.log2({})", "2.0") for s in model.segments]
    name, expression = model.parameters[0], last
    for point, text in reversed([*zip(model.change_points, before, strict=True)]):
        middle = (point.low + point.high) / 2
        expression = f"np.where({name} <= {middle!r}, {text}, {expression})"
    for name, lowest in model.domain.items():
        expression = f"np.where({name} < {lowest!r}, np.nan, {expression})"
    return expression


def sympy_of(model: Model) -> str:
    """Return a model as an expression that SymPy reads.

    Segments become a Piecewise, which is nan outside of the domain of the model; logarithms have
    base 2.
    """
    *before, last = [_expression(s.function, "log({}, 2)", "2") for s in model.segments]
    pairs = [f"(nan, {name} < {lowest!r})" for name, lowest in model.domain.items()]
    for point, text in zip(model.change_points, before, strict=True):
        middle = (point.low + point.high) / 2
        pairs.append(f"({text}, {model.parameters[0]} <= {middle!r})")
    return f"Piecewise({', '.join(pairs)}, ({last}, True))" if pairs else last


def _expression(function: Function, logarithm: str, two: str) -> str:
    """The function in Python syntax, with the logarithm and the base of exponentials as given."""
    summands = [repr(float(function.constant))] if function.constant or not function.terms else []
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
        summands.append("*".join(factors))
    return " + ".join(summands)


def latex_of(model: Model) -> str:
    """Return a model as LaTeX mathematics; segments as cases, which needs amsmath."""
    if len(model.segments) == 1:
        conditions = [
            rf"{_latex_name(name)} \ge {_latex_number(lowest)}"
            for name, lowest in model.domain.items()
        ]
        return r", \quad ".join([to_latex(model.function), *conditions])
    name = _latex_name(model.parameters[0])
    rows = []
    for segment in model.segments:
        condition = rf"{name} \ge {_latex_number(segment.lower)}"
        if np.isfinite(segment.upper):
            condition = rf"{name} \le {_latex_number(segment.upper)}"
        rows.append(f"{to_latex(segment.function)} & {condition}")
    return r"\begin{cases} " + r" \\ ".join(rows) + r" \end{cases}"


def _latex_name(parameter: str) -> str:
    return parameter if len(parameter) == 1 else rf"\mathit{{{parameter}}}"


def _make_function(
    parameters: tuple[str, ...], constant: float, terms: dict[tuple[Factor, ...], float]
) -> Function:
    not_zero = [Term(value, factors) for factors, value in terms.items() if value]
    return Function(parameters, constant, tuple(not_zero))


def _all_parameters(a: Function, b: Function) -> tuple[str, ...]:
    return (*a.parameters, *(name for name in b.parameters if name not in a.parameters))


def _multiply_factors(a: tuple[Factor, ...], b: tuple[Factor, ...]) -> tuple[Factor, ...]:
    factors: dict[str, Factor] = {}
    for factor in (*a, *b):
        other = factors.get(factor.parameter, Factor(factor.parameter))
        sums = (x + y for x, y in zip(factor[1:], other[1:], strict=True))
        factors[factor.parameter] = Factor(factor.parameter, *sums)
    return tuple(factor for _, factor in sorted(factors.items()) if any(factor[1:]))


def _differentiate(factor: Factor) -> list[tuple[float, Factor]]:
    """The derivative of a factor as a weighted sum of factors, by the product rule."""
    name, alpha, beta, gamma = factor
    summands = [
        (float(alpha), Factor(name, alpha - ONE, beta, gamma)),
        (float(beta) / LN2, Factor(name, alpha - ONE, beta - ONE, gamma)),
        (float(gamma) * LN2, factor),
    ]
    return [(weight, derived) for weight, derived in summands if weight]


def _find_roots(
    difference: Callable[[FloatArray], FloatArray], low: float, high: float
) -> tuple[float, ...]:
    if not 0 < low < high < np.inf:
        raise ModelingError(f"crossing between {low} and {high}: bounds must be 0 < low < high")
    x = np.geomspace(low, high, GRID_SIZE)
    sign = np.sign(difference(x))
    roots = [float(x[i]) for i in np.flatnonzero(sign == 0)]
    for i in np.flatnonzero(sign[:-1] * sign[1:] < 0):
        roots.append(_bisect(difference, float(x[i]), float(x[i + 1])))
    return tuple(sorted(roots))


def _bisect(difference: Callable[[FloatArray], FloatArray], low: float, high: float) -> float:
    at_low = float(difference(np.array([low]))[0])
    for _ in range(HALVINGS):
        middle = low + (high - low) / 2
        if float(difference(np.array([middle]))[0]) * at_low > 0:
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
