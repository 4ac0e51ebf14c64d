"""Measurements for Extra-P 4: its experiments, its text, its JSON Lines.

A class of ranks is written behind the call path, as in `extrap.py`. Extra-P keeps a value per
repetition; the values of single ranks are for `insitu export --to jsonl`.
"""

import io
import json
import struct
import zipfile
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

import numpy as np

from insitu.errors import UsageError
from insitu.formats.extrap import measurements, split_complete
from insitu.modeling.base import ModelSet
from insitu.modeling.measurement import Experiment

WRITTEN_FOR = "4.2.5"  # of Extra-P; an older one warns
VALUES, INDEX = b"Extra-P VALUES\0\0", b"Extra-P INDEX\0\0\0"
MOST_PARAMETERS = 4  # that Extra-P's text can hold
YEAR = (1980, 1, 1, 0, 0, 0)  # in the archive, so that the same campaign gives the same bytes
Series = tuple[str, str, list[dict[str, Any]]]


class ExtrapExperiment:
    """Extra-P's own experiment: a zip archive with every repetition's value."""

    name = "extra-p"
    suffix = ".extra-p"

    def write(self, experiment: Experiment, models: ModelSet, out: BinaryIO) -> None:
        """See Exporter."""
        blobs: list[bytes] = []
        content: dict[str, dict[str, Any]] = {}
        for callpath, metric, points in _series(measurements(experiment, models)):
            rows = []
            for point in points:
                values = np.array(point["values"], dtype=np.float64)
                rows.append(_statistics(point["point"], values) | {"values": [0, len(blobs)]})
                blobs.append(_array(values))
            content.setdefault(callpath, {})[metric] = rows
        document = {
            "Extra-P": WRITTEN_FOR,
            "parameters": list(experiment.parameters),
            "measurements": content,
            "modelers": [],
        }
        with zipfile.ZipFile(out, "w") as archive:
            _put(archive, "experiment.json", json.dumps(document, allow_nan=False).encode())
            if blobs:
                _put(archive, "values/0.vals", VALUES + b"".join(blobs), is_stored=True)
                _put(archive, "values/0.indx", _index(blobs), is_stored=True)


class ExtrapText:
    """Extra-P's text: every series measured at every point; others are named in a comment."""

    name = "extra-p-text"
    suffix = ".txt"

    def write(self, experiment: Experiment, models: ModelSet, out: BinaryIO) -> None:
        """See Exporter.

        Raises:
            UsageError: there are more parameters than the format can hold.
        """
        names = experiment.parameters
        if len(names) > MOST_PARAMETERS:
            raise UsageError(
                f"Extra-P's text holds {MOST_PARAMETERS} parameters, this campaign varies"
                f" {', '.join(names)}; use --to extra-p"
            )
        text = io.TextIOWrapper(out, encoding="utf-8", newline="\n", write_through=True)
        complete, rest = split_complete(measurements(experiment, models))
        found = list(_series(complete))
        places = sorted({tuple(point["point"]) for _, _, points in found for point in points})
        text.writelines(f"PARAMETER {name}\n" for name in names)
        shown = (" ".join(map(repr, place)) for place in places)
        joined = " ".join(f"({place})" if len(names) > 1 else place for place in shown)
        text.write(f"POINTS {joined}\n")
        for callpath, metric, _ in _series(rest):
            title = " ".join(f"{callpath} {metric}".split())
            text.write(f"# left out, not measured at every point: {title}\n")
        for callpath, metric, points in found:
            text.write(f"\nREGION {' '.join(callpath.split())}\nMETRIC {metric}\n")
            for point in points:
                text.write(f"DATA {' '.join(map(repr, point['values']))}\n")
        text.detach()


class ExtrapLines:
    """Extra-P's JSON Lines: one line per point, a list of its repetitions as value.

    Without series that lack a point, which Extra-P refuses.
    """

    name = "extra-p-jsonl"
    suffix = ".extra-p.jsonl"

    def write(self, experiment: Experiment, models: ModelSet, out: BinaryIO) -> None:
        """See Exporter."""
        complete, _ = split_complete(measurements(experiment, models))
        for callpath, metric, points in _series(complete):
            for point in points:
                line = {
                    "params": dict(zip(experiment.parameters, point["point"], strict=True)),
                    "callpath": callpath,
                    "metric": metric,
                    "value": point["values"],
                }
                out.write(json.dumps(line, allow_nan=False).encode() + b"\n")


def _series(found: Mapping[str, Any]) -> Iterator[Series]:
    for callpath, metrics in found.items():
        for metric, points in metrics.items():
            yield callpath, metric, points


def _statistics(point: list[float], values: np.ndarray) -> dict[str, Any]:
    return {
        "coordinate": point,
        "median": float(np.median(values)),
        "mean": float(values.mean()),
        "minimum": float(values.min()),
        "maximum": float(values.max()),
        "std": float(values.std()),
        "repetitions": int(values.size),
    }


def _array(values: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, values)
    return stream.getvalue()


def _index(blobs: list[bytes]) -> bytes:
    """Where each array begins in the file of values."""
    starts = np.cumsum([len(VALUES), *map(len, blobs[:-1])]).tolist()
    return INDEX + struct.pack(f"<{len(starts) + 1}Q", len(starts), *starts)


def _put(archive: zipfile.ZipFile, name: str, data: bytes, *, is_stored: bool = False) -> None:
    entry = zipfile.ZipInfo(name, YEAR)
    entry.compress_type = zipfile.ZIP_STORED if is_stored else zipfile.ZIP_DEFLATED
    archive.writestr(entry, data)
