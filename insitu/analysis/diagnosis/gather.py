"""The runs of an experiment by their number of ranks, of one combination of other parameters."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from insitu.analysis.diagnosis.measurements import LAW_SCALES, MeasuredRun, Measurements
from insitu.analysis.diagnosis.packages import Site
from insitu.entities import RANKS, CallPath, RunKey
from insitu.modeling.measurement import Experiment, RunTable


def measured_run(experiment: Experiment, key: RunKey, table: RunTable) -> MeasuredRun:
    """A run of an experiment with what is known about how it was measured."""
    is_by_threads = key.size <= experiment.crowded.get(key, 0)
    return MeasuredRun(
        key,
        table,
        is_oversubscribed=key in experiment.crowded,
        rows={path: row for row, path in enumerate(table.callpaths)},
        sampling_s=experiment.sampling_s.get(key, 0.0),
        is_precise=key in experiment.precisely_sampled,
        threads=experiment.threads.get(key, 1) if is_by_threads else 1,
    )


def gather(
    experiment: Experiment, sites: Mapping[CallPath, Site], fixed: Mapping[str, float]
) -> Measurements:
    """Group runs by their number of ranks.

    If other parameters vary independently of p, only the runs with one combination of their values
    remain: that of `fixed` if it was measured at LAW_SCALES, else the one measured at most scales,
    else that of `fixed` or the largest.
    """
    others = [name for name in experiment.parameters if name != RANKS]
    combinations: dict[tuple[float, ...], set[int]] = {}
    by_scale: dict[int, set[tuple[float, ...]]] = {}
    for key, _ in experiment.runs:
        at = key.coordinate(others)
        combinations.setdefault(at, set()).add(key.size)
        by_scale.setdefault(key.size, set()).add(at)

    follows_p = all(len(values) == 1 for values in by_scale.values()) and len(by_scale) > 1
    chosen: tuple[float, ...] | None = None
    if others and not follows_p and combinations:
        wanted = tuple(fixed.get(name, np.nan) for name in others)

        def order(at: tuple[float, ...]) -> tuple[bool, int, bool, tuple[float, ...]]:
            count = len(combinations[at])
            return at == wanted and count >= LAW_SCALES, count, at == wanted, at

        chosen = max(combinations, key=order)

    scales: dict[int, list[MeasuredRun]] = {}
    for i, (key, table) in enumerate(experiment.runs):
        if chosen is None or key.coordinate(others) == chosen:
            run = replace(measured_run(experiment, key, table), order=i)
            scales.setdefault(key.size, []).append(run)

    ordered = sorted(scales)
    return Measurements(
        p=np.array(ordered, dtype=float),
        groups=tuple(tuple(scales[p]) for p in ordered),
        sites=sites,
        fixed=tuple(zip(others, chosen, strict=True)) if chosen is not None else (),
        elsewhere=tuple(sorted(by_scale.keys() - scales.keys())),
    )
