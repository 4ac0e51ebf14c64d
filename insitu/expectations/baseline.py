"""An accepted campaign as an expectation: nothing may grow faster than it does [VAL §2.1]."""

from collections.abc import Sequence

from insitu.expectations.entries import Entry
from insitu.expectations.growth import growth_of_function
from insitu.expectations.limits import Expectation, expect
from insitu.modeling.base import ALL, ModelSet


def bounds_from_baseline(
    baseline: ModelSet, models: ModelSet, entries: Sequence[Entry]
) -> tuple[list[Entry], list[str]]:
    """Return upper bounds from an accepted campaign, for series without an expectation.

    Args:
        baseline: the accepted models.
        models: the models to judge.
        entries: the other expectations.

    Returns:
        The bounds, and sentences on the call paths that only one of the campaigns has.
    """
    growth_entries = [entry for entry in entries if isinstance(entry.subject, Expectation)]
    current = {series.key for series in models.models}

    # The mean of classes follows from them; its growth changes with their sizes alone.
    classified = baseline.classified_series() & models.classified_series()

    bounds = []
    for series in baseline.models:
        key = series.key
        if key.behaviour == ALL and (key.callpath, key.metric) in classified:
            continue
        has_expectation = any(
            entry.metric == key.metric and entry.is_about(key.callpath) for entry in growth_entries
        )
        if key in current and not has_expectation:
            bound = expect(growth_of_function(series.model.function))
            subject = Expectation(bound.growth, bound.lower, bound.upper, is_bound=True)
            bounds.append(
                Entry(str(key.callpath), key.metric, subject, key.behaviour, is_exact=True)
            )

    before = {series.key.callpath for series in baseline.models}
    now = {series.key.callpath for series in models.models}
    notes = [
        f"{path}: not in the accepted campaign, therefore not judged"
        for path in sorted(now - before)
    ]
    notes += [f"{path}: only in the accepted campaign" for path in sorted(before - now)]
    return bounds, notes
