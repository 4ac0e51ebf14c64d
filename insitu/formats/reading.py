"""What importers share: JSON files, parameters in file names, unique call paths."""

import json
import os
import re
import resource
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from insitu.entities import RANKS
from insitu.errors import UsageError

Row = Mapping[str, Any]  # Any: JSON; a line of JSON Lines, see jsonl.py
FILE = "file"  # in a row: the profile of one run that does not say which repetition it is
REPETITION = "r"
MIN_MEMORY_BYTES = 4 << 30  # that reading a small file may take
MEMORY_PER_BYTE = 32  # of a larger file: JSON of short numbers takes about ten times its size
SUFFIXES = (".json", ".hatchet", ".cali", ".cubex")
_PARAMETER = re.compile(r"([A-Za-z][A-Za-z_]*)(\d+(?:[.,]\d+)?)")


@contextmanager
def limit_memory(file: str) -> Iterator[None]:
    """Refuse a file that takes far more memory than its size suggests, such as a zip bomb.

    The limit is one of this process: every library that reads the file is subject to it.

    Raises:
        UsageError: the limit was reached.
    """
    size = sum(os.path.getsize(path) for path in _files_in(file))
    allowed = max(MIN_MEMORY_BYTES, MEMORY_PER_BYTE * size)
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm", encoding="ascii") as status:
        in_use = int(status.read().split()[0]) * resource.getpagesize()

    limit = in_use + allowed
    if soft != resource.RLIM_INFINITY:
        limit = min(limit, soft)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    try:
        yield
    except MemoryError as error:
        raise UsageError(
            f"{file}: reading it needs more than {allowed >> 20} MiB of memory; is it damaged?"
        ) from error
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _files_in(path: str) -> Iterator[str]:
    """The files of a directory and below, or the file itself."""
    if os.path.isfile(path):
        yield path
    for folder, _, names in os.walk(path):
        for name in names:
            yield os.path.join(folder, name)


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
    """Return the parameters and the repetition, from 0, in the name of a file or its directory.

    A name without a dot may be a random one, as Caliper chooses them: it has parameters only if the
    number of ranks is among them.
    """
    file = os.path.basename(path)
    for ending in SUFFIXES:
        file = file.removesuffix(ending)
    folder = os.path.basename(os.path.dirname(os.path.abspath(path)))
    name = folder if file.startswith(("profile", "scorep")) else file
    _, _, suffix = name.partition(".")  # the text before the first dot is the program
    words = _PARAMETER.findall(suffix or name)
    values = {name: float(value.replace(",", ".")) for name, value in words}
    if not suffix and RANKS not in values:
        return {}, None
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
