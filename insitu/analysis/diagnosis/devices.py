"""GPUs: kernels and copies that grow with p, and how busy they are."""

from collections.abc import Iterator

import numpy as np

from insitu.analysis.callpaths import short_name
from insitu.analysis.diagnosis.budget import at_text, visit_price
from insitu.analysis.diagnosis.growth import CountGrowth, find_growth
from insitu.analysis.diagnosis.limit import Limit, cost_at_price, is_once
from insitu.analysis.diagnosis.measurements import MeasuredRun, Measurements
from insitu.entities import (
    BYTES_COPIED,
    DEVICE_BUSY,
    DEVICE_IDLE,
    DEVICE_TIME,
    RANKS,
    VISITS,
    CallPath,
)
from insitu.modeling.measurement import FloatArray
from insitu.units import percent

DOMINANT = 0.5  # of the devices' time


def device_limits(measurements: Measurements, target: float) -> Iterator[Limit]:
    """Kernels and copies that a rank launches more often, or copies that are larger, on more ranks.

    Their cost is the time of the device. A rank may launch one for each neighbour in a grid, so on
    few ranks their laws are as doubtful as those of messages.
    """
    for path in sorted(measurements.device_calls):
        owner, name = measurements.owners[path], short_name(path.name)
        visits = measurements.visits_up_from(path)
        copied = measurements.series([path], BYTES_COPIED.name)
        growth = find_growth(measurements.p, copied, target, counts=visits)
        metric, subject = BYTES_COPIED, f"needs {{}} of {name}"
        price = _price_of_byte(measurements, path)
        if not _is_growing(growth):
            growth = find_growth(measurements.p, visits[0], target, counts=visits[1:])
            metric, subject = VISITS, f"launches {name} {{}} times"
            price = visit_price(measurements, path)
        if not _is_growing(growth):
            continue
        yield Limit(
            kind="gpu",
            path=owner,
            metric=metric.name,
            unit=metric.unit,
            growth=growth,
            cost=cost_at_price(growth, price, measurements.p, target),
            is_once=is_once(measurements, owner),
            subject=subject,
            detail=path,
        )


def _is_growing(growth: CountGrowth) -> bool:
    return growth.is_growing and growth.law is not None


def _price_of_byte(measurements: Measurements, path: CallPath) -> float:
    """The smallest time that a device takes to copy a byte, in seconds, over all ranks and runs."""
    prices = []
    for run in measurements.runs:
        copied, seconds = run.vector(path, BYTES_COPIED.name), run.vector(path, DEVICE_TIME.name)
        prices += (seconds[copied > 0] / copied[copied > 0]).tolist()
    return min(prices, default=0.0)


def device_note(measurements: Measurements) -> str:
    """How long GPUs were idle at the largest scale, and what they did; "" without GPUs.

    Where copies take most of the time of the devices, it also says from which scale on.
    """
    scales = []
    for p, group in zip(measurements.p.tolist(), measurements.groups, strict=True):
        shares = [share for run in group if (share := _copying_share(measurements, run)) >= 0]
        if shares:
            scales.append((p, float(np.median(shares)), group))
    if not scales:
        return ""

    largest, copying, group = scales[-1]
    idle = [_idle_share(run) for run in group]
    text = f"GPUs: idle {percent(float(np.median(idle)))} of the time at {at_text(RANKS, largest)}"
    text += f", {percent(copying)} of their work is copies"
    if copying > DOMINANT:
        since = largest
        for p, share, _ in reversed(scales):
            if share <= DOMINANT:
                break
            since = p
        if since > scales[0][0]:
            text += f", more than kernels from {at_text(RANKS, since)} on"
    return text


def _idle_share(run: MeasuredRun) -> float:
    """The share of the time in which the devices of all ranks are idle."""
    idle, busy = (_of_program(run, metric) for metric in (DEVICE_IDLE.name, DEVICE_BUSY.name))
    used = busy > 0
    if not used.any():
        return 1.0
    spans = busy[used] / np.maximum(1 - idle[used], 1e-12)
    return float(1 - busy[used].sum() / spans.sum())


def _copying_share(measurements: Measurements, run: MeasuredRun) -> float:
    """The share of copies and memsets in the time of devices; -1 if they did nothing."""
    times = {path: run.vector(path, DEVICE_TIME.name).sum() for path in measurements.device_calls}
    total = sum(times.values())
    copies = sum(
        seconds for path, seconds in times.items() if run.vector(path, BYTES_COPIED.name).any()
    )
    return float(copies / total) if total > 0 else -1.0


def _of_program(run: MeasuredRun, metric: str) -> FloatArray:
    root = min(run.rows, key=lambda path: len(path.frames))
    return run.vector(root, metric)
