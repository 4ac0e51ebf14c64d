"""What back-tests say to a user: how far models of the smaller runs missed the largest one."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from insitu.entities import number
from insitu.modeling.base import SeriesModel
from insitu.units import percent

WORST_SHARE = 0.9  # quantile that is called the worst tenth


def describe_back_tests(models: Sequence[SeriesModel]) -> dict[str, str]:
    """Return a sentence per metric whose models were tested, and missed by anything at all.

    Errors are those of models without the largest scale alone, relative to what was measured.
    """
    errors: dict[tuple[str, str, float], list[float]] = defaultdict(list)
    for series in models:
        if not series.model.back_tests:
            continue
        test = series.model.back_tests[0]
        if test.measured > 0:
            key = (series.key.metric, series.model.parameters[0], test.at)
            errors[key].append(abs(test.predicted / test.measured - 1))

    # Of each metric, the coordinate at which most series were tested.
    sentences: dict[str, str] = {}
    for (metric, parameter, at), missed in sorted(errors.items(), key=lambda item: len(item[1])):
        median, worst = np.median(missed), np.quantile(missed, WORST_SHARE)
        if worst <= 0:
            continue
        sentences[metric] = (
            f"{metric}: models of the smaller runs missed {parameter}={number(at)} by "
            f"{percent(float(median))} (median), {percent(float(worst))} (worst tenth)"
        )
    return dict(sorted(sentences.items()))
