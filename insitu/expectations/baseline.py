"""The status quo as an expectation: what was accepted may not grow faster [VAL §2.1]."""

from collections.abc import Sequence

from insitu.expectations.entries import Entry
from insitu.expectations.growth import growth_of_function
from insitu.expectations.limits import Expectation, expect
from insitu.modeling.base import ModelSet


def bounds_from_baseline(
    baseline: ModelSet, models: ModelSet, entries: Sequence[Entry]
) -> tuple[list[Entry], list[str]]:
    """Upper bounds from the models of an accepted campaign, for what has no expectation.

    Args:
        baseline: the accepted models. models: those to be judged. entries: what is expected anyway.

    Returns:
        The bounds, and the call paths that only one of both campaigns has, as sentences.
    """
    said = [entry for entry in entries if isinstance(entry.subject, Expectation)]
    known = {one.key: one for one in models.models}
    bounds = []
    for one in baseline.models:
        key = one.key
        is_said = any(e.metric == key.metric and e.is_about(key.callpath) for e in said)
        if key in known and not is_said:
            bound = expect(growth_of_function(one.model.function))
            subject = Expectation(bound.growth, bound.lower, bound.upper, is_bound=True)
            bounds.append(
                Entry(str(key.callpath), key.metric, subject, key.behaviour, is_exact=True)
            )
    before = {one.key.callpath for one in baseline.models}
    now = {one.key.callpath for one in models.models}
    notes = [f"{path}: not in the accepted campaign, not judged" for path in sorted(now - before)]
    notes += [f"{path}: in the accepted campaign only" for path in sorted(before - now)]
    return bounds, notes
