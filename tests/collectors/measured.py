"""Small programs that are measured in a process of their own, and their tables."""

import os
import subprocess
import textwrap
from pathlib import Path

import pytest

from insitu.collectors.table import TableReader
from insitu.run.environment import rank_environment
from insitu.run.options import parse

# Where the native hook and its twin count every call of a program and the standard library.
counts_every_call = pytest.mark.skipif(
    "COVERAGE_RUN" in os.environ,
    reason="coverage.py calls functions of its own in measured programs, which are counted too",
)


def rank_variables(
    script: Path, shared: str, tables: Path, options: tuple[str, ...] = ()
) -> dict[str, str]:
    """The environment in which Python measures this script, into a table below `tables`."""
    return {
        **os.environ,
        **rank_environment(parse([*options, str(script)]), "0" * 32, str(script.parent)),
        "INSITU_LIBRARY": shared,
        "INSITU_TABLES": str(tables),
        "INSITU_AGENT": "off",
        "INSITU_SINGLE": "1",
        "INSITU_FILES": "off",
        "INSITU_TROUBLE": str(tables / "trouble"),
    }


def measure(
    folder: Path,
    python: str,
    program: str,
    shared: str,
    *options: str,
    prints: str = "ended\n",
    status: int = 0,
) -> TableReader:
    """The table of a program that was measured by the native library or, without one, the twin."""
    tables = folder / ("native" if shared else "twin") / str(len(list(folder.rglob("*.table"))))
    tables.mkdir(parents=True)
    script = folder / "program.py"
    script.write_text(textwrap.dedent(program))
    done = subprocess.run(
        [python, str(script)],
        env=rank_variables(script, shared, tables, options),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    trouble = tables / "trouble"
    assert not trouble.exists(), trouble.read_text()
    assert (done.returncode, done.stdout) == (status, prints), done.stderr
    (path,) = tables.rglob("*.table")
    table = TableReader(str(path))
    table.new_rows()
    return table


def paths(table: TableReader) -> list[str]:
    """The call path of each row."""
    call_paths: list[str] = []
    for row in table.rows:
        call_paths.append(f"{call_paths[row.parent]}->{row.name}" if call_paths else row.name)
    return call_paths


def visits(table: TableReader) -> dict[str, int]:
    """Visits per call path, without what the interpreter imports on its own."""
    totals = table.totals(table.tick_s())["visits"]
    result: dict[str, int] = {}
    for path, count in zip(paths(table), totals, strict=True):
        if "(import)" not in path:
            result[path] = result.get(path, 0) + count
    return result
