"""What importers read alike: a file of JSON, what its name says of the run, names of call paths."""

import json
import os
import re
from collections.abc import Mapping
from typing import Any

from insitu.errors import UsageError

Row = Mapping[str, Any]  # Any: JSON; a line that `insitu import` takes, see jsonl.py
REPETITION = "r"
SUFFIXES = (".json", ".hatchet", ".cali", ".cubex")
_PARAMETER = re.compile(r"([A-Za-z_]+)(\d+(?:[.,]\d+)?)")


def load_json(file: str) -> Any:  # Any: JSON
    """What a file of JSON says.

    Raises:
        UsageError: it cannot be read, or is no JSON.
    """
    try:
        with open(file, encoding="utf-8-sig") as stream:
            return json.load(stream)
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"{file}: cannot be read as JSON: {error}") from error


def parse_file_name(path: str) -> tuple[dict[str, float], int | None]:
    """The parameters and the repetition, counted from 0, that the name of a file says."""
    file = os.path.basename(path)
    for suffix in SUFFIXES:
        file = file.removesuffix(suffix)
    folder = os.path.basename(os.path.dirname(os.path.abspath(path)))
    name = folder if file.startswith(("profile", "scorep")) else file
    _, _, told = name.partition(".")  # what stands before the first dot is the program
    found = _PARAMETER.findall(told or name)
    values = {name: float(value.replace(",", ".")) for name, value in found}
    repetition = values.pop(REPETITION, None)
    return values, None if repetition is None else max(int(repetition) - 1, 0)


def make_unique(path: str, used: set[str]) -> str:
    """A call path that nobody has: with a number where it was used before."""
    if path not in used:
        return path
    number = 2
    while f"{path} #{number}" in used:
        number += 1
    return f"{path} #{number}"
