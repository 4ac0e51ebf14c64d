"""Measurements from Extra-P: its JSON, its older JSON, its text, its experiments."""

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

MOST_BYTES = 1 << 30  # of a member of an archive: a small file can claim to be a large one
_POINT = re.compile(r"\(([^()]*)\)")


class ExtrapJsonReader:
    """Extra-P's JSON, of version 4 and of version 3."""

    name = "json"

    def rows(self, file: str) -> Iterator[Row]:
        """See Importer."""
        data = load_json(file)
        try:
            if isinstance(data, dict) and "callpaths" in data:
                yield from _numbered(data)
            elif isinstance(data, dict) and "measurements" in data:
                for part in (data["measurements"], data.get("incomplete", {})):
                    yield from _nested(data["parameters"], part, "point", _listed)
            else:
                raise UsageError(
                    f'{file}: no "measurements" in it, as Extra-P\'s JSON has; for other formats'
                    " see `insitu import --help`"
                )
        except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
            raise UsageError(f"{file}: not as Extra-P writes it: {error!r}") from error


class ExtrapExperimentReader:
    """Extra-P's own experiments; where repetitions were not kept, their mean."""

    name = "extra-p"

    def rows(self, file: str) -> Iterator[Row]:
        """See Importer."""
        try:
            with zipfile.ZipFile(file) as archive:
                data = json.loads(_member(archive, "experiment.json"))
                stored: dict[int, list[list[float]]] = {}

                def values(point: Mapping[str, Any]) -> list[float]:
                    if point.get("values") is None:
                        return [float(point["mean"])]
                    chunk, index = point["values"]
                    if chunk not in stored:
                        stored[chunk] = _chunk(archive, int(chunk))
                    return stored[chunk][index]

                yield from _nested(data["parameters"], data["measurements"], "coordinate", values)
        except (OSError, EOFError, zipfile.BadZipFile, zlib.error, RuntimeError) as error:
            raise UsageError(
                f"{file}: no experiment of Extra-P 4 ({error}); one of Extra-P 3 becomes one by"
                f" `extrap --extra-p-3 {file} --save-experiment NEW.extra-p`"
            ) from error
        except (KeyError, TypeError, AttributeError, ValueError, IndexError, struct.error) as error:
            raise UsageError(f"{file}: no experiment of Extra-P 4: {error!r}") from error


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
            yield from _talpas(lines, file)
            return
        names: list[str] = []
        places: list[tuple[float, ...]] = []
        callpath, metric, index = "main", "time", 0
        for number, line in enumerate(lines, start=1):
            word, _, rest = " ".join(line.split()).partition(" ")
            if not word or word.startswith("#"):
                continue
            try:
                if word == "PARAMETER":
                    names += rest.split()
                elif word == "POINTS":
                    places += _points(rest, len(names))
                elif word == "REGION":
                    callpath, index = rest, 0
                elif word == "METRIC":
                    metric, index = rest, 0
                elif word == "DATA":
                    params = dict(zip(names, places[index], strict=True))
                    values = [float(value) for value in rest.split()]
                    yield {
                        "callpath": callpath,
                        "metric": metric,
                        "params": params,
                        "value": values,
                    }
                    index += 1
                else:
                    raise ValueError(f"'{word}' is none of PARAMETER, POINTS, REGION, METRIC, DATA")
            except IndexError:
                raise UsageError(f"{file}: line {number}: more DATA than POINTS") from None
            except ValueError as error:
                raise UsageError(f"{file}: line {number}: {error}") from error


def _talpas(lines: Sequence[str], file: str) -> Iterator[Row]:
    """An object per line and value, with semicolons between its fields."""
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line.replace(";", ","))
            told = {name: row[name] for name in ("callpath", "metric", "value")}
            yield told | {"params": row["parameters"]}
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise UsageError(f"{file}: line {number}: no line of Talpas: {error!r}") from error


def _points(text: str, width: int) -> list[tuple[float, ...]]:
    if width == 0:
        raise ValueError("POINTS before any PARAMETER")
    groups = _POINT.findall(text) if "(" in text else text.split()
    points = [tuple(float(value) for value in re.split(r"[ ,]+", one.strip())) for one in groups]
    if any(len(point) != width for point in points):
        raise ValueError(f"a point has not {width} values, one per parameter")
    return points


def _nested(
    parameters: Sequence[str], measurements: Mapping[str, Any], place: str, values: Any
) -> Iterator[Row]:
    """Call path, metric, points; `values` tells those of a point."""
    for callpath, metrics in measurements.items():
        for metric, points in metrics.items():
            for point in points:
                at = point[place] if isinstance(point[place], list) else [point[place]]
                yield {
                    "callpath": callpath,
                    "metric": metric,
                    "params": dict(zip(parameters, at, strict=True)),
                    "value": values(point),
                }


def _listed(point: Mapping[str, Any]) -> list[float]:
    values = point["values"]
    return values if isinstance(values, list) else [values]


def _numbered(data: Mapping[str, Any]) -> Iterator[Row]:
    """Extra-P 3: everything has a number and is called by it."""
    named = {
        kind: {one["id"]: str(one["name"]) for one in data[kind]}
        for kind in ("parameters", "callpaths", "metrics")
    }
    places = {
        one["id"]: {
            named["parameters"][pair["parameter_id"]]: float(pair["parameter_value"])
            for pair in one["parameter_value_pairs"]
        }
        for one in data["coordinates"]
    }
    for one in data["measurements"]:
        yield {
            "callpath": named["callpaths"][one["callpath_id"]],
            "metric": named["metrics"][one["metric_id"]],
            "params": places[one["coordinate_id"]],
            "value": float(one["value"]),
        }


def _member(archive: zipfile.ZipFile, name: str) -> bytes:
    with archive.open(name) as stream:
        data = stream.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise ValueError(f"{name} is larger than {MOST_BYTES >> 20} MiB")
    return data


def _chunk(archive: zipfile.ZipFile, number: int) -> list[list[float]]:
    """All arrays of one file of values, in their order."""
    data, index = (_member(archive, f"values/{number}.{kind}") for kind in ("vals", "indx"))
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
