"""Why values are no evidence for the growth that a model describes."""

from collections.abc import Sequence

from insitu.entities import Finding

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
