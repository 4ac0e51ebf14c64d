"""What the GPUs of a rank did, per call path and as a whole."""

from array import array
from collections.abc import Mapping

from insitu.collectors.ranks import NS_PER_S, GaugeValues, Rank
from insitu.collectors.table import DEVICE
from insitu.entities import (
    BYTES_COPIED,
    DEVICE_BUSY,
    DEVICE_IDLE,
    DEVICE_MEMORY_PEAK,
    DEVICE_TIME,
)


def device_gauges(rank: Rank, totals: Mapping[str, "array[int]"]) -> list[GaugeValues]:
    """The times of kernels and copies, and what the devices did as a whole.

    Args:
        rank: the rank.
        totals: shape (n_rows,) for each column of its table; times of devices are in ns.
    """
    sums: dict[int, dict[str, float]] = {}  # by row of the node; several rows may be one call path
    for i, row in enumerate(rank.table.rows):
        if row.kind != DEVICE or "device_ns" not in totals:
            continue
        values = sums.setdefault(rank.node_rows[i], {DEVICE_TIME.name: 0.0})
        values[DEVICE_TIME.name] += totals["device_ns"][i] / NS_PER_S
        if totals["device_bytes"][i]:
            copied = values.get(BYTES_COPIED.name, 0.0)
            values[BYTES_COPIED.name] = copied + totals["device_bytes"][i]

    gauges: list[GaugeValues] = [(rank.number, row, values) for row, values in sums.items()]
    whole = _whole_rank(rank)
    if whole:
        gauges.append((rank.number, 0, whole))
    return gauges


def _whole_rank(rank: Rank) -> dict[str, float]:
    """What all devices did for the rank; nothing if none did anything."""
    head = rank.table.header
    values: dict[str, float] = {}
    if head.device_span_ns:
        values[DEVICE_BUSY.name] = head.device_busy_ns / NS_PER_S
        values[DEVICE_IDLE.name] = 1 - head.device_busy_ns / head.device_span_ns
    if head.device_memory_peak:
        values[DEVICE_MEMORY_PEAK.name] = float(head.device_memory_peak)
    return values
