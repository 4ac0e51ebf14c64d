"""What importers share: JSON files, parameters in file names, unique call paths."""

import json
import os
import re
from collections.abc import Mapping
from typing import Any

from insitu.errors import UsageError

Row = Mapping[str, Any]  # Any: JSON; a line of JSON Lines, see jsonl.py
REPETITION = "r"
SUFFIXES = (".json", ".hatchet", ".cali", ".cubex")
_PARAMETER = re.compile(r"([A-Za-z_]+)(\d+(?:[.,]\d+)?)")


def load_json(file: str) -> Any:  # Any: JSON
    """Return the content of a JSON file.

    Raises:
        UsageError: the file cannot be read, or is not JSON.
    """
    try:
        with open(file, encoding="utf-8-sig") as stream:
            return json.load(stream)
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"{file}: cannot be read as JSON: {error}") from error


def parse_file_name(path: str) -> tuple[dict[str, float], int | None]:
    """Return the parameters and the repetition, from 0, in the name of a file or its directory."""
    file = os.path.basename(path)
    for ending in SUFFIXES:
        file = file.removesuffix(ending)
    folder = os.path.basename(os.path.dirname(os.path.abspath(path)))
    name = folder if file.startswith(("profile", "scorep")) else file
    _, _, suffix = name.partition(".")  # the text before the first dot is the program
    words = _PARAMETER.findall(suffix or name)
    values = {name: float(value.replace(",", ".")) for name, value in words}
    repetition = values.pop(REPETITION, None)
    return values, None if repetition is None else max(int(repetition) - 1, 0)


def make_unique(path: str, used: set[str]) -> str:
    """Return a call path that is not in `used`, with a number appended if necessary."""
    if path not in used:
        return path
    number = 2
    while f"{path} #{number}" in used:
        number += 1
    return f"{path} #{number}"
