"""The largest run as a flame graph: folded stacks, and a profile for speedscope.

Its newest repetition is used: exclusive seconds of the mean rank, and of the slowest rank.
"""

import json
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np

from insitu import __version__
from insitu.entities import RANKS, TIME_EXCLUSIVE, RunKey
from insitu.modeling.base import ModelSet
from insitu.modeling.measurement import Experiment, FloatArray, RunTable

SCHEMA = "https://www.speedscope.app/file-format-schema.json"
MICROSECONDS = 1e6
Stack = tuple[tuple[str, ...], float]


class FoldedStacks:
    """Lines `main;solve;MPI_Allreduce 1234`, in microseconds, as flamegraph.pl reads them."""

    name = "folded"
    suffix = ".folded"

    def write(self, experiment: Experiment, models: ModelSet, out: BinaryIO) -> None:
        """See Exporter."""
        largest = _largest_run(experiment)
        if largest is None:
            return
        _, table, seconds = largest
        for frames, value in _stacks(table, _mean(seconds)):
            stack = ";".join(map(_folded, frames))
            if count := round(value * MICROSECONDS):
                out.write(f"{stack} {count}\n".encode("utf-8", "backslashreplace"))


class Speedscope:
    """A file for speedscope.app, which opens it without sending it anywhere."""

    name = "speedscope"
    suffix = ".speedscope.json"

    def write(self, experiment: Experiment, models: ModelSet, out: BinaryIO) -> None:
        """See Exporter."""
        largest = _largest_run(experiment)
        frames: dict[str, int] = {}
        profiles = [] if largest is None else _profiles(*largest, frames)
        document = {
            "$schema": SCHEMA,
            "exporter": f"insitu {__version__}",
            "name": "no run" if largest is None else str(largest[0]),
            "shared": {"frames": [{"name": name} for name in frames]},
            "profiles": profiles,
        }
        out.write(json.dumps(document, allow_nan=False).encode() + b"\n")


def _profiles(
    run: RunKey, table: RunTable, seconds: FloatArray, frames: dict[str, int]
) -> list[dict[str, Any]]:  # Any: JSON
    slowest = int(np.nansum(seconds, axis=0).argmax())
    return [
        _profile(f"{run}, mean of all ranks", list(_stacks(table, _mean(seconds))), frames),
        _profile(f"{run}, rank {slowest}", list(_stacks(table, seconds[:, slowest])), frames),
    ]


def _profile(name: str, stacks: list[Stack], frames: dict[str, int]) -> dict[str, Any]:
    return {
        "type": "sampled",
        "name": name,
        "unit": "seconds",
        "startValue": 0,
        "endValue": sum(value for _, value in stacks),
        "samples": [
            [frames.setdefault(frame, len(frames)) for frame in path] for path, _ in stacks
        ],
        "weights": [value for _, value in stacks],
    }


def _largest_run(experiment: Experiment) -> tuple[RunKey, RunTable, FloatArray] | None:
    """Return the largest run with exclusive times, (n_callpaths, n_ranks) in s, or None."""
    timed = [(key, table) for key, table in experiment.runs if TIME_EXCLUSIVE.name in table.values]
    if not timed:
        return None
    key, table = max(
        timed, key=lambda run: (dict(run[0].parameters).get(RANKS, 0), run[0].repetition)
    )
    return key, table, table.values[TIME_EXCLUSIVE.name]


def _mean(seconds: FloatArray) -> FloatArray:
    """Return the mean over all ranks; a rank that never called a function counts as 0 s."""
    return np.asarray(np.nan_to_num(seconds).mean(axis=1))


def _stacks(table: RunTable, seconds: FloatArray) -> Iterator[Stack]:
    for path, value in sorted(zip(table.callpaths, seconds.tolist(), strict=True)):
        if value > 0:
            yield path.frames, value


def _folded(frame: str) -> str:
    return " ".join(frame.replace(";", ",").split()) or "?"
