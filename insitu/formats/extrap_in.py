"""Imports measurements from Extra-P: JSON of versions 4 and 3, text, and experiments."""

import io
import json
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from insitu.errors import UsageError
from insitu.formats.extrap_files import INDEX, VALUES
from insitu.formats.reading import Row, load_json

MEMBER_BYTES_LIMIT = 1 << 30  # of an archive; protects from zip bombs
_POINT = re.compile(r"\(([^()]*)\)")


class ExtrapJsonReader:
    """Extra-P's JSON, of version 4 and of version 3."""

    name = "json"

    def rows(self, file: str) -> Iterator[Row]:
        """See Importer."""
        data = load_json(file)

        try:
            if isinstance(data, dict) and "callpaths" in data:
                yield from _numbered_rows(data)
            elif isinstance(data, dict) and "measurements" in data:
                for measurements in (data["measurements"], data.get("incomplete", {})):
                    yield from _nested_rows(data["parameters"], measurements, "point", _values)
            else:
                raise UsageError(
                    f'{file}: no "measurements" as in JSON of Extra-P; for other formats'
                    " see `insitu import --help`"
                )
        except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
            raise UsageError(f"{file}: not JSON of Extra-P: {error!r}") from error


class ExtrapExperimentReader:
    """Extra-P's experiments; the mean if the values of repetitions are missing."""

    name = "extra-p"

    def rows(self, file: str) -> Iterator[Row]:
        """See Importer."""
        try:
            with zipfile.ZipFile(file) as archive:
                data = json.loads(_read_member(archive, "experiment.json"))
                stored: dict[int, list[list[float]]] = {}

                def values(point: Mapping[str, Any]) -> list[float]:
                    if point.get("values") is None:
                        return [float(point["mean"])]
                    chunk, index = point["values"]
                    if chunk not in stored:
                        stored[chunk] = _read_chunk(archive, int(chunk))
                    return stored[chunk][index]

                yield from _nested_rows(
                    data["parameters"], data["measurements"], "coordinate", values
                )
        except (OSError, EOFError, zipfile.BadZipFile, zlib.error, RuntimeError) as error:
            raise UsageError(
                f"{file}: not an experiment of Extra-P 4 ({error}); convert one of Extra-P 3 with"
                f" `extrap --extra-p-3 {file} --save-experiment NEW.extra-p`"
            ) from error
        except (KeyError, TypeError, AttributeError, ValueError, IndexError, struct.error) as error:
            raise UsageError(f"{file}: not an experiment of Extra-P 4: {error!r}") from error


class ExtrapTextReader:
    """Extra-P's text: PARAMETER, POINTS, REGION, METRIC, DATA; or lines of Talpas."""

    name = "extra-p-text"

    def rows(self, file: str) -> Iterator[Row]:
        """See Importer."""
        try:
            with open(file, encoding="utf-8-sig") as stream:
                lines = stream.readlines()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{file}: cannot be read: {error}") from error

        if any(line.lstrip().startswith("{") for line in lines[:1]):
            yield from _talpas_rows(lines, file)
            return
        names: list[str] = []
        coordinates: list[tuple[float, ...]] = []
        callpath, metric, index = "main", "time", 0

        for number, line in enumerate(lines, start=1):
            word, _, rest = " ".join(line.split()).partition(" ")
            if not word or word.startswith("#"):
                continue
            try:
                if word == "PARAMETER":
                    names += rest.split()
                elif word == "POINTS":
                    coordinates += _parse_points(rest, len(names))
                elif word == "REGION":
                    callpath, index = rest, 0
                elif word == "METRIC":
                    metric, index = rest, 0
                elif word == "DATA":
                    params = dict(zip(names, coordinates[index], strict=True))
                    values = [float(value) for value in rest.split()]
                    yield {
                        "callpath": callpath,
                        "metric": metric,
                        "params": params,
                        "value": values,
                    }
                    index += 1
                else:
                    raise ValueError(
                        f"'{word}' is not one of PARAMETER, POINTS, REGION, METRIC, DATA"
                    )
            except IndexError:
                raise UsageError(f"{file}: line {number}: more DATA than POINTS") from None
            except ValueError as error:
                raise UsageError(f"{file}: line {number}: {error}") from error


def _talpas_rows(lines: Sequence[str], file: str) -> Iterator[Row]:
    """Yield rows of Talpas: an object per line and value, with semicolons between its fields."""
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line.replace(";", ","))
            fields = {name: row[name] for name in ("callpath", "metric", "value")}
            yield fields | {"params": row["parameters"]}
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise UsageError(f"{file}: line {number}: not a line of Talpas: {error!r}") from error


def _parse_points(text: str, width: int) -> list[tuple[float, ...]]:
    if width == 0:
        raise ValueError("POINTS before any PARAMETER")
    groups = _POINT.findall(text) if "(" in text else text.split()
    points = [tuple(map(float, re.split(r"[ ,]+", group.strip()))) for group in groups]
    if any(len(point) != width for point in points):
        raise ValueError(f"a point does not have {width} values, one per parameter")
    return points


def _nested_rows(
    parameters: Sequence[str], measurements: Mapping[str, Any], coordinate_key: str, values: Any
) -> Iterator[Row]:
    """Yield rows by call path, metric and point; `values` returns the values of a point."""
    for callpath, metrics in measurements.items():
        for metric, points in metrics.items():
            for point in points:
                coordinate = point[coordinate_key]
                at = coordinate if isinstance(coordinate, list) else [coordinate]
                yield {
                    "callpath": callpath,
                    "metric": metric,
                    "params": dict(zip(parameters, at, strict=True)),
                    "value": values(point),
                }


def _values(point: Mapping[str, Any]) -> list[float]:
    values = point["values"]
    return values if isinstance(values, list) else [values]


def _numbered_rows(data: Mapping[str, Any]) -> Iterator[Row]:
    """Yield rows of Extra-P 3, where everything has a number and is referred to by it."""
    names = {}
    for kind in ("parameters", "callpaths", "metrics"):
        names[kind] = {entry["id"]: str(entry["name"]) for entry in data[kind]}

    coordinates = {}
    for entry in data["coordinates"]:
        coordinates[entry["id"]] = {
            names["parameters"][pair["parameter_id"]]: float(pair["parameter_value"])
            for pair in entry["parameter_value_pairs"]
        }

    for entry in data["measurements"]:
        yield {
            "callpath": names["callpaths"][entry["callpath_id"]],
            "metric": names["metrics"][entry["metric_id"]],
            "params": coordinates[entry["coordinate_id"]],
            "value": float(entry["value"]),
        }


def _read_member(archive: zipfile.ZipFile, name: str) -> bytes:
    with archive.open(name) as stream:
        data = stream.read(MEMBER_BYTES_LIMIT + 1)
    if len(data) > MEMBER_BYTES_LIMIT:
        raise ValueError(f"{name} is larger than {MEMBER_BYTES_LIMIT >> 20} MiB")
    return data


def _read_chunk(archive: zipfile.ZipFile, number: int) -> list[list[float]]:
    """Return all arrays of one file of values, in their order."""
    data, index = (_read_member(archive, f"values/{number}.{kind}") for kind in ("vals", "indx"))
    if not data.startswith(VALUES) or not index.startswith(INDEX):
        raise ValueError(f"values/{number} does not begin as Extra-P writes it")
    (count,) = struct.unpack_from("<Q", index, len(INDEX))
    if count > len(index) // 8:
        raise ValueError(f"values/{number}.indx claims {count} arrays")
    starts = struct.unpack_from(f"<{count}Q", index, len(INDEX) + 8)
    stream = io.BytesIO(data)

    arrays = []
    for start in starts:
        stream.seek(start)
        array = np.lib.format.read_array(stream, allow_pickle=False, max_header_size=1000)
        arrays.append(array.astype(np.float64).ravel().tolist())

    return arrays
