"""What a rewritten program counts, against its text, and that it stays the same program."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from insitu.collectors.counting.labelling import Labeller
from insitu.collectors.counting.rewrite import Rewriter, compile_counted, namespace
from tests.support.interpreters import OWN_FIRST, find_python, why_missing
from tests.support.parameters import plain_and_full

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "collectors" / "counting" / "site"

PROGRAM = '''
"""A program with one of everything."""
from __future__ import annotations

import sys
from dataclasses import dataclass

import other


@dataclass
class Cell:
    """One cell."""

    size: int = 3

    def shown(self) -> str:
        return super().__repr__() and f"{self.size:4d}"


class Table:
    rows = [n for n in range(3)]
    for row in rows:
        last = row


def numbers(n):
    for i in range(n):
        yield i
        for _ in range(2):
            pass


def nested(n):
    given = yield from numbers(n)
    return given


def some(n):
    waiting = numbers(n)
    return next(waiting), next(waiting)


def work(n):
    """Loops within loops."""
    for i in range(n):
        for j in range(2 * n):
            if j == n:
                break
    while n > 0:
        n -= 1
    return sum(numbers(i))


def fails():
    for i in range(5):
        if i == 3:
            raise ValueError(i)


def matched(value):
    match value:
        case {"a": 1}:
            return "a"
        case [x, *_] if x > 1:
            return x
    return None


def recursive(n):
    return n if n == 0 else recursive(n - 1)


def main(n):
    work(n)
    other.squares(n)
    try:
        fails()
    except ValueError as error:
        print("failed at", error)
    recursive(4)
    for _ in nested(n):
        pass
    some(n)
    total = 0
    total += len([x for x in range(n) if x])
    print(Cell().shown(), matched([2]), Table.last, total, __name__, sys.argv[1:])


if __name__ == "__main__":
    main(int(sys.argv[1]))
'''
OTHER = """
def squares(n):
    return sorted([x * x for x in range(n)])
"""
OUTPUT = "failed at 3\n   3 2 2 5 __main__ ['6']\n"


def counted(folder: Path, *words: str, python: str = sys.executable) -> tuple[str, dict]:
    counts = folder / "counts"
    counts.mkdir()
    environment = {
        **os.environ,
        "PYTHONPATH": f"{SITE}{os.pathsep}{ROOT}",
        "INSITU_COUNTS": str(counts),
    }
    done = subprocess.run(
        [python, *words], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    (file,) = counts.iterdir()
    rows = json.loads(file.read_text())
    return done.stdout + done.stderr, {("->".join(p), site): n for p, site, n in rows}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(PROGRAM)
    (tmp_path / "other.py").write_text(OTHER)
    return tmp_path


def line_of(text: str) -> int:
    return next(i for i, line in enumerate(PROGRAM.splitlines(), 1) if text in line)


@plain_and_full("version", OWN_FIRST)
def test_counts_are_those_of_the_text(folder, version):
    python = find_python(version)
    if not python:
        pytest.skip(why_missing(version))
    output, counts = counted(folder, "app.py", "6", python=python)
    assert output == OUTPUT
    work = "app.py->main->work"
    assert counts[work, "visits"] == 1
    loops = {site: n for (path, site), n in counts.items() if path == work and "loop" in site}
    assert sorted(loops.values()) == [6, 6, 42]  # while, outer, inner
    assert counts[f"{work}->numbers", "visits"] == 1
    outer, inner = (f"loop:{line_of('def numbers') + i}" for i in (1, 3))
    assert counts[f"{work}->numbers", outer] == 5
    assert counts[f"{work}->numbers", inner] == 10
    assert counts["app.py->main->nested", "visits"] == 1
    assert counts["app.py->main->numbers", outer] == 6  # called through another generator
    assert counts["app.py->main->some->numbers", outer] == 2  # closed while it waits
    assert ("app.py->main->some", outer) not in counts
    assert counts["app.py->main->fails", f"loop:{line_of('range(5)')}"] == 4
    assert counts["app.py->main->recursive", "visits"] == 5
    assert counts["app.py->main->other.squares", "visits"] == 1
    assert counts["app.py->main->Cell.shown", "visits"] == 1
    assert not any("shown" in site for _, site in counts)


def test_module_that_is_named_with_m(folder):
    output, counts = counted(folder, "-m", "app", "6")
    assert output == OUTPUT
    assert counts["app.py->main->work", "visits"] == 1


def test_program_that_fails_fails_the_same_way(tmp_path):
    (tmp_path / "app.py").write_text("def f():\n    1 / 0\n\nf()\n")
    output, counts = counted(tmp_path, "app.py")
    assert output.endswith("ZeroDivisionError: division by zero\n")
    assert counts["app.py->f", "visits"] == 1


def test_children_are_not_counted(tmp_path):
    (tmp_path / "app.py").write_text(
        "import os, subprocess, sys\n"
        "print([n for n in os.environ if n.startswith('INSITU')], os.environ.get('PYTHONPATH'))\n"
        "sys.stdout.flush()\n"
        "subprocess.run([sys.executable, '-c', 'print(1)'])\n"
    )
    output, _ = counted(tmp_path, "app.py")
    assert output == "[] None\n1\n"


@pytest.mark.parametrize(
    "text",
    [
        "x = [1, 2, 3]\nx[1:] = [5, 6]\nx[0] += 1\ny = x",
        "a, *b = (i for i in 'abc')\ny = [a, b]",
        "y = [lambda: k for k in range(3)][1]()",
        "class A:\n    n = 0\n    while n < 3:\n        n += 1\ny = A.n",
        "def f(*a, k=2, **o):\n    return a, k, o\ny = f(1, *[2], **{'z': 3})",
        "def f():\n    global y\n    y = 1\nf()",
        "def f():\n    n = 0\n    def g():\n        nonlocal n\n        n += 1\n"
        "    g()\n    return n\ny = f()",
        "y = -3 ** 2 < 4 < 5",
        "import asyncio\nasync def f():\n    await asyncio.sleep(0)\ny = asyncio.run(f())",
        "y = []\nfor i in range(3):\n    if i:\n        continue\n"
        "    y.append(i)\nelse:\n    y += 'a'",
        "try:\n    y = [1][3]\nexcept* IndexError as error:\n    y = 'gone'",
        "def f(x: int = 3) -> 'nothing':\n    z: list[int] = [x]\n    return z\ny = f()",
    ],
)  # fmt: skip
@pytest.mark.parametrize("rewriter", [Rewriter, Labeller])
def test_rewriting_changes_nothing_else(text, rewriter):
    plain: dict = {}
    exec(compile(text, "plain.py", "exec"), plain)
    rewritten = namespace(rewriter)
    exec(compile_counted(text, "rewritten.py", rewriter), rewritten)
    assert rewritten["y"] == plain["y"]


def test_arrays_and_compiled_functions(tmp_path):
    (tmp_path / "app.py").write_text(
        textwrap.dedent(
            """
            import numpy as np

            def arrays(n):
                u = np.zeros(n)
                u += 1
                u[1:-1] = 0
                v = u @ u
                return sorted([3] * n)

            arrays(50)
            """
        )
    )
    _, counts = counted(tmp_path, "app.py")
    found = {site: n for (path, site), n in counts.items() if path == "app.py->arrays"}
    assert found == {
        "visits": 1,
        "call:5": 50,
        "array:6": 50,
        "array:7": 48,
        "array:8": 50,  # of the first, times the columns of the second
        "array:9": 50,
        "call:9": 100,
    }


def test_no_compiled_file_of_a_counted_module_is_left(folder):
    counted(folder, "app.py", "6")
    assert not (folder / "__pycache__").exists()
