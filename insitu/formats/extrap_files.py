"""Exports measurements to Extra-P 4: its experiments, its text and its JSON Lines.

The behaviour class follows the call path, as in `extrap.py`. Extra-P has one value per repetition;
`insitu export --to jsonl` has the values of all ranks.
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

WRITTEN_FOR = "4.2.5"  # version of Extra-P; older ones print a warning
VALUES, INDEX = b"Extra-P VALUES\0\0", b"Extra-P INDEX\0\0\0"
PARAMETERS_LIMIT = 4  # of Extra-P's text
TIMESTAMP = (1980, 1, 1, 0, 0, 0)  # fixed, so that the same campaign gives the same bytes
Series = tuple[str, str, list[dict[str, Any]]]


class ExtrapExperiment:
    """Extra-P's experiment: a zip archive with the value of every repetition."""

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
    """Extra-P's text. Series that lack a point are left out and listed in comments."""

    name = "extra-p-text"
    suffix = ".txt"

    def write(self, experiment: Experiment, models: ModelSet, out: BinaryIO) -> None:
        """See Exporter.

        Raises:
            UsageError: there are more parameters than the format can hold.
        """
        names = experiment.parameters
        if len(names) > PARAMETERS_LIMIT:
            raise UsageError(
                f"Extra-P's text holds {PARAMETERS_LIMIT} parameters, this campaign varies"
                f" {', '.join(names)}; use --to extra-p"
            )
        text = io.TextIOWrapper(out, encoding="utf-8", newline="\n", write_through=True)
        complete, incomplete = split_complete(measurements(experiment, models))
        series = list(_series(complete))

        coordinates: set[tuple[float, ...]] = set()
        for _, _, points in series:
            coordinates.update(tuple(point["point"]) for point in points)

        text.writelines(f"PARAMETER {name}\n" for name in names)
        formatted = [" ".join(map(repr, coordinate)) for coordinate in sorted(coordinates)]
        if len(names) > 1:
            formatted = [f"({values})" for values in formatted]
        text.write(f"POINTS {' '.join(formatted)}\n")

        for callpath, metric, _ in _series(incomplete):
            title = " ".join(f"{callpath} {metric}".split())
            text.write(f"# left out, not measured at every point: {title}\n")

        for callpath, metric, points in series:
            text.write(f"\nREGION {' '.join(callpath.split())}\nMETRIC {metric}\n")
            for point in points:
                text.write(f"DATA {' '.join(map(repr, point['values']))}\n")

        text.detach()


class ExtrapLines:
    """Extra-P's JSON Lines: one line per point, with the list of its repetitions as value.

    Series that lack a point are left out, since Extra-P refuses them.
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


def _series(document: Mapping[str, Any]) -> Iterator[Series]:
    for callpath, metrics in document.items():
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
    """Return the index: the offset of each array in the file of values."""
    starts = np.cumsum([len(VALUES), *map(len, blobs[:-1])]).tolist()
    return INDEX + struct.pack(f"<{len(starts) + 1}Q", len(starts), *starts)


def _put(archive: zipfile.ZipFile, name: str, data: bytes, *, is_stored: bool = False) -> None:
    entry = zipfile.ZipInfo(name, TIMESTAMP)
    entry.compress_type = zipfile.ZIP_STORED if is_stored else zipfile.ZIP_DEFLATED
    archive.writestr(entry, data)
