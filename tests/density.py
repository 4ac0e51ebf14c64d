"""Prints how dense the code of each room is.

    python tests/density.py [PATH...]

The figures: comprehensions per 100 lines; share of blank lines in functions longer than 15 lines,
without their docstrings; share of comment lines; calls with six or more positional arguments per
1,000 lines. Other projects, measured in the same way (comprehensions, blank lines, comments):
pyinstrument 0.7, 12.5 %, 7.8 %; uvicorn 0.5, 10 %, 7.1 %; structlog 0.3, 15 %, 5.1 %; distributed
1.6, 12 %, 5.5 %; memray 0.7, 8 %, 1.9 %. They have 0.2 to 0.35 such calls.
"""

import ast
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
LONG_FUNCTION = 15  # lines
MANY_ARGUMENTS = 6


@dataclass
class Density:
    """Counts over some files."""

    lines: int = 0
    comprehensions: int = 0
    lines_in_long_functions: int = 0
    blank_lines: int = 0  # of these
    comment_lines: int = 0
    long_calls: int = 0

    def add(self, file: Path) -> None:
        """Count one file."""
        text = file.read_text(encoding="utf-8")
        rows = text.splitlines()
        self.lines += len(rows)
        self.comment_lines += sum(row.lstrip().startswith("#") for row in rows)

        for node in ast.walk(ast.parse(text)):
            if isinstance(node, COMPREHENSIONS):
                self.comprehensions += 1
            elif isinstance(node, ast.Call) and len(node.args) >= MANY_ARGUMENTS:
                self.long_calls += 1
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                self._add_function(node, rows)

    def _add_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, rows: list[str]) -> None:
        end = node.end_lineno or node.lineno
        if end - node.lineno < LONG_FUNCTION:
            return

        docstring = range(0)
        if ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            docstring = range(first.lineno, (first.end_lineno or first.lineno) + 1)
        for number in range(node.lineno, end + 1):
            if number not in docstring:
                self.lines_in_long_functions += 1
                self.blank_lines += not rows[number - 1].strip()

    def __str__(self) -> str:
        lines = max(self.lines, 1)
        return (
            f"{self.lines:6d} lines"
            f"  {100 * self.comprehensions / lines:4.1f} comprehensions/100"
            f"  {100 * self.blank_lines / max(self.lines_in_long_functions, 1):4.1f} % blank"
            f"  {100 * self.comment_lines / lines:4.1f} % comments"
            f"  {1000 * self.long_calls / lines:5.2f} long calls/1000"
        )


def python_files(path: Path) -> list[Path]:
    """The files of a room; the links of a checkout to collectors/ and server/ are not followed."""
    if path.is_file():
        return [path]
    links = (ROOT / "insitu" / "collectors", ROOT / "insitu" / "server")
    return [
        file
        for file in sorted(path.rglob("*.py"))
        if not any(link in file.parents for link in links)
    ]


def rooms() -> list[Path]:
    """Every room of the product."""
    folders = (path for path in sorted((ROOT / "insitu").iterdir()) if path.is_dir())
    inside = [path for path in folders if not path.is_symlink() and path.name != "__pycache__"]
    return [ROOT / "collectors", ROOT / "server", *inside, ROOT / "insitu"]


def main(arguments: Iterable[str]) -> None:
    """Print a line for each path, for all rooms without any."""
    for path in [Path(argument).resolve() for argument in arguments] or rooms():
        density = Density()
        for file in python_files(path):
            density.add(file)
        name = str(path.relative_to(ROOT)) if ROOT in path.parents else str(path)
        print(f"{name:24s} {density}")


if __name__ == "__main__":
    main(sys.argv[1:])
