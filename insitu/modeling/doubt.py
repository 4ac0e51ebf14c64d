"""Why values are no evidence for the growth that a model describes, and which it describes."""

from collections.abc import Mapping, Sequence

import numpy as np

from insitu.entities import RANKS, Finding, number
from insitu.modeling.measurement import FloatArray
from insitu.modeling.pmnf import Function
from insitu.modeling.rank_counts import find_refused, next_accepted, next_rank_counts

ONE_VALUE = "rests-on-one-value"  # the finding of models whose leading term one value supports
CHANGE_IN_GRID = "change-in-grid"  # the finding of models of the points from `where` on
CHANGE_UNCONFIRMED = "change-unconfirmed"  # the finding of models that the largest value leaves
FEW_VALUES = "few-values"  # the finding of models with a power of a parameter that has two values
MIN_VALUES = 3  # of a parameter, that show a power: any goes through two
DISTURBED = "this run was disturbed, or "
MANY_DISTURBED = "runs with the largest values were disturbed, or "
NEAR = 2.0  # factor between a value and its function, up to which it supports the function
LEAST_NEAR = 2 / 3  # of the values; as many lie within one standard deviation of normal noise


def no_evidence(
    findings: Sequence[Finding], adjusted_r2: float, values: FloatArray, fitted: FloatArray
) -> str:
    """Return why values are no evidence for growth, "" if they are.

    One value alone supports the leading term, or there are fewer than three values in all or of a
    parameter, so that any power goes through them, or the functions explain the values no better
    than their mean does, or fewer than two thirds of the values, or than three, lie within a factor
    of two of the functions: a steep power explains any large value.

    Args:
        findings: of the model. adjusted_r2: of its functions, NaN if it is not defined.
        values: (n,), measured. fitted: (n,), of the functions at the same coordinates.
    """
    if any(finding.code == ONE_VALUE for finding in findings):
        return "one value alone shows growth"
    few = parameters_with_few_values(findings)
    if few:
        return f"any power of {' and '.join(few)} goes through two values"
    if len(values) < MIN_VALUES:
        return f"any power goes through {len(values)} value{'s' * (len(values) != 1)}"
    if adjusted_r2 <= 0:  # NaN is not
        return "no better than a constant"
    larger = np.maximum(np.abs(values), np.abs(fitted))
    near = int(np.count_nonzero(np.abs(values - fitted) <= larger / NEAR))
    if near < max(MIN_VALUES, LEAST_NEAR * len(values)):
        return f"{near} of {len(values)} values lie near it"
    return ""


def parameters_with_few_values(findings: Sequence[Finding]) -> tuple[str, ...]:
    """Return the parameters whose power a model has although any other would fit as well."""
    return tuple(finding.where for finding in findings if finding.code == FEW_VALUES)


def find_domain(
    parameters: Sequence[str], coordinates: FloatArray, findings: Sequence[Finding]
) -> dict[str, float]:
    """Return from which values on a model describes a series that changes before them.

    Args:
        parameters, coordinates, findings: of the model; coordinates (n, n_parameters) are those of
            the points that it describes.
    """
    names = [finding.where.split("=")[0] for finding in findings if finding.code == CHANGE_IN_GRID]
    return {name: float(coordinates[:, parameters.index(name)].min()) for name in names}


def describe_domain(domain: Mapping[str, float]) -> str:
    """Return ` for p >= 16` for what `find_domain` returns, "" for all values."""
    conditions = [f"{name} >= {number(lowest)}" for name, lowest in domain.items()]
    return f" for {' and '.join(conditions)}" if conditions else ""


def report_grid_change(name: str, behind: float, n_behind: int, n_points: int) -> Finding:
    """Return the finding of a model that describes only the points behind a change.

    Args:
        name, behind: of the parameter, and its first value there. n_behind: of n_points points.
    """
    where = f"{name}={number(behind)}"
    text = (
        f"no single function describes both the values below {where} and the others; the model is "
        f"that of {n_behind} of {n_points} points, those with {name} >= {number(behind)}"
    )
    return Finding(CHANGE_IN_GRID, text, where)


def report_few_values(
    parameters: Sequence[str], coordinates: FloatArray, functions: Sequence[Function]
) -> tuple[Finding, ...]:
    """Return a finding for each parameter that functions grow with and that has two values.

    Args:
        parameters: several. coordinates: (n, n_parameters), where the series was measured.
    """
    used = {
        factor.parameter
        for function in functions
        for term in function.terms
        for factor in term.factors
    }
    findings = []
    for name, column in zip(parameters, coordinates.T, strict=True):
        values = np.unique(column)
        if name not in used or len(values) >= MIN_VALUES:
            continue
        text = (
            f"{name} has only the values {' and '.join(map(number, values.tolist()))}, through "
            f"which any power goes: the power of {name} is not determined; measure a third"
        )
        findings.append(Finding(FEW_VALUES, text, name))
    return tuple(findings)


def next_value(x: FloatArray, parameter: str) -> float:
    """The value behind the last two of (n,), ascending, in the same ratio; whole behind whole.

    Of ranks it is the next number that the program accepts, as far as the measured ones show that.
    """
    following = float(x[-1] ** 2 / x[-2])
    if not all(value.is_integer() for value in x.tolist()):
        return following
    whole = round(following)
    measured = [int(value) for value in x.tolist()]
    if parameter == RANKS and find_refused(measured, [whole]):
        return float(next_rank_counts(measured, 1, np.inf)[0])
    if parameter == RANKS:
        return float(next_accepted(measured, whole) or whole)
    return float(whole)


def _runs_text(again: str, larger: str, is_exact: bool) -> str:
    """The runs that decide: `run p=32 again, or p=64`; exact counts would be the same again."""
    return f"run {larger}" if is_exact else f"run {again} again, or {larger}"


def report_one_value(
    x: FloatArray, point: int, probability: float, parameter: str, *, is_exact: bool
) -> Finding:
    """Return the finding that a leading term rests on one value.

    Args:
        x: (n,), values of the parameter. point: index of the value. probability: of the leading
            term without it. parameter: its name. is_exact: a repetition has the same value.
    """
    at = f"{parameter}={number(x[point])}"
    larger = f"{parameter}={number(next_value(x, parameter))}"
    text = (
        f"the growth rests on the value at {at} alone: without it, the leading term has a "
        f"probability of {probability:.0%}; {_runs_text(at, larger, is_exact)}"
    )
    return Finding(ONE_VALUE, text, at)


def report_unconfirmed_change(
    x: FloatArray, factor: float, parameter: str, *, is_exact: bool
) -> Finding:
    """Return the finding that the newest point leaves the law of the others.

    Args:
        x: (n,), values of the parameter. factor: of the newest value to that of the law.
        parameter: its name. is_exact: a repetition has the same value.
    """
    before, newest = (f"{parameter}={number(value)}" for value in x[-2:])
    larger = f"{parameter}={number(next_value(x, parameter))}"
    text = (
        f"the value at {newest} is {factor:.2g} times what the smaller runs predict: "
        f"{'' if is_exact else DISTURBED}a step or a new law begins behind {before}, where "
        f"there are not enough points; {_runs_text(newest, larger, is_exact)}"
    )
    return Finding(CHANGE_UNCONFIRMED, text, newest)


def report_unlike_smaller(
    points: FloatArray, factor: float, parameters: Sequence[str], *, is_exact: bool
) -> Finding:
    """Return the finding that the largest run leaves the law of the smaller ones.

    Args:
        points: (k, m). factor: of the largest value to that of the law. parameters: m names.
            is_exact: a repetition has the same value.
    """
    largest = points.max(axis=0).tolist()
    at = ", ".join(
        f"{name}={number(value)}" for name, value in zip(parameters, largest, strict=True)
    )
    text = (
        f"the value at {at} is {factor:.2g} times what the smaller runs predict: "
        f"{'' if is_exact else MANY_DISTURBED}a step or a new law begins there; "
        f"{_runs_text(at, 'larger values of each parameter', is_exact)}"
    )
    return Finding(CHANGE_UNCONFIRMED, text, at)
