"""Why values are no evidence for the growth that a model describes."""

from collections.abc import Sequence

from insitu.entities import Finding, number
from insitu.modeling.measurement import FloatArray

ONE_VALUE = "rests-on-one-value"  # the finding of models whose leading term one value supports


def no_evidence(findings: Sequence[Finding], adjusted_r2: float) -> str:
    """Return why values are no evidence for growth, "" if they are.

    Either one value alone supports the leading term, or the functions explain the values no better
    than their mean does.

    Args:
        findings: of the model. adjusted_r2: of its functions, NaN if it is not defined.
    """
    if any(finding.code == ONE_VALUE for finding in findings):
        return "one value alone shows growth"
    return "no better than a constant" if adjusted_r2 <= 0 else ""  # NaN is not


def report_one_value(x: FloatArray, point: int, probability: float, parameter: str) -> Finding:
    """Return the finding that a leading term rests on one value.

    Args:
        x: (n,), values of the parameter. point: index of the value. probability: of the leading
            term without it. parameter: its name.
    """
    at, next_scale = number(x[point]), number(x[-1] ** 2 / x[-2])
    text = (
        f"the growth rests on the value at {parameter}={at} alone: without it, the leading term "
        f"has a probability of {probability:.0%}; "
        f"run {parameter}={at} again, or {parameter}={next_scale}"
    )
    return Finding(ONE_VALUE, text, f"{parameter}={at}")
