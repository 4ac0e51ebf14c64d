"""Pilot runs that count: by themselves, by what the compiler put into them, or under valgrind."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence

import click
import numpy as np

import insitu
from insitu.design.blackbox import Site
from insitu.errors import LaunchError, UsageError
from insitu.formats.counts import read_counts, read_labels
from insitu.launch.pilots import fill, program_at, run_pilot
from insitu.modeling.measurement import FloatArray

Configuration = Mapping[str, float]
PLACEHOLDER = re.compile(r"\{(\w+)\}")
DIRECTORY = "{directory}"
GCOV, LLVM = b".gcda", b"__llvm_prf_"  # in programs built with --coverage, with clang's flag
# Each rank leaves a folder of its own; else their counts would be summed up.
APART = 'GCOV_PREFIX="$INSITU_COUNTS/$$" exec "$0" "$@"'


class Pilots:
    """Runs a command at configurations, each once, and remembers what it counted."""

    def __init__(self, template: Sequence[str], timeout_s: float) -> None:
        self._template = template
        self._timeout_s = timeout_s
        self._columns: list[dict[Site, float]] = []

    def count(self, configurations: Sequence[Configuration]) -> dict[Site, FloatArray]:
        """Counts by site, (n_configurations,): runs what was not run before.

        Args:
            configurations: those of the calls before, and more.

        Raises:
            LaunchError: a run failed, or counted nothing.
            UsageError: the command names a parameter that has no value.
        """
        filled = [fill(self._template, at) for at in configurations]
        for i in range(len(self._columns), len(filled)):
            words, environment = counting(filled[i])
            with tempfile.TemporaryDirectory(prefix="insitu-pilot-") as directory:
                self._run(words, environment, directory, f"{i + 1} of {len(filled)}")
                _prepare(directory)
                self._columns.append(read_counts(directory))
        sites: set[Site] = set().union(*self._columns)
        if not sites:
            raise LaunchError(
                "the pilot runs counted nothing: did they end by os._exit or a signal?"
            )
        return {
            site: np.array([column.get(site, 0.0) for column in self._columns]) for site in sites
        }

    def labels(self, at: Configuration, ranks: str) -> dict[str, frozenset[str]]:
        """Run once with labels; the parameters that each call path may depend on.

        Args:
            at: the configuration.
            ranks: the parameter that is the number of ranks, "" where none is.

        Raises:
            LaunchError: the run failed.
            UsageError: it is no Python program.
        """
        words, environment = counting(fill(self._template, at))
        if "PYTHONPATH" not in environment:
            raise UsageError(
                "--taint follows values through Python programs only; of compiled ones the profile"
                " of perf-taint can be given to `insitu design` instead"
            )
        named = {
            str(i - len(self._template)): PLACEHOLDER.findall(word)
            for i, word in enumerate(self._template)
        }
        said = {"words": {i: of for i, of in named.items() if of}, "ranks": [ranks] * bool(ranks)}
        environment = {**environment, "INSITU_LABELS": json.dumps(said)}
        with tempfile.TemporaryDirectory(prefix="insitu-pilot-") as directory:
            self._run(words, environment, directory, "with labels")
            return read_labels(directory)

    def _run(
        self, words: list[str], environment: Mapping[str, str], directory: str, progress: str
    ) -> None:
        shown = sys.stderr.isatty()
        if shown:
            click.echo(f"\rpilot run {progress} ", err=True, nl=False)
        command_line = [word.replace(DIRECTORY, directory) for word in words]
        filled = {name: text.replace(DIRECTORY, directory) for name, text in environment.items()}
        run_pilot(command_line, filled | {"INSITU_COUNTS": directory}, self._timeout_s)
        if shown:
            click.echo("\r" + " " * 40 + "\r", err=True, nl=False)


def counting(words: list[str]) -> tuple[list[str], dict[str, str]]:
    """The command and the environment in which the program counts; `{directory}` is where to.

    Raises:
        LaunchError: it is compiled, counts nothing by itself, and there is no valgrind.
    """
    at = program_at(words)
    program = words[at]
    if program.endswith(".py") or os.path.basename(program).startswith("python"):
        return _python(words, at)
    built = _built_with(program)
    if built == GCOV and shutil.which("gcov"):
        return [*words[:at], "sh", "-c", APART, *words[at:]], {}
    if built == LLVM and shutil.which("llvm-profdata"):
        return words, {"LLVM_PROFILE_FILE": f"{DIRECTORY}/%p.profraw"}
    if shutil.which("valgrind") is None:
        raise LaunchError(
            f"{program} is no Python program, and there is no valgrind to count its instructions:"
            " install it (apt-get install valgrind), or build the program with --coverage (gcc,"
            " gfortran) or -fprofile-instr-generate (clang)"
        )
    valgrind = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={DIRECTORY}/%p.callgrind"]
    return [*words[:at], *valgrind, *words[at:]], {}


def _python(words: list[str], at: int) -> tuple[list[str], dict[str, str]]:
    if words[at].endswith(".py"):
        words = [*words[:at], sys.executable, *words[at:]]
    package = os.path.dirname(os.path.abspath(insitu.__file__))
    site = os.path.join(package, "collectors", "counting", "site")
    original = os.environ.get("PYTHONPATH", "")
    path = os.pathsep.join(filter(None, [site, os.path.dirname(package), original]))
    return words, {"PYTHONPATH": path} | ({"INSITU_PYTHONPATH": original} if original else {})


def _built_with(program: str) -> bytes:
    """What the compiler let the program count with, b"" for nothing."""
    try:
        with open(shutil.which(program) or program, "rb") as file:
            content = file.read()
    except OSError:
        return b""
    return next((mark for mark in (GCOV, LLVM) if mark in content), b"")


def _prepare(directory: str) -> None:
    """Let gcov and llvm-profdata make readable what their programs left, one file a rank."""
    for name in os.listdir(directory):
        path = os.path.join(directory, name)
        if os.path.isdir(path):
            with open(path + ".gcov", "wb") as file:
                file.write(_tool(["gcov", "--json-format", "--stdout", *_beside_notes(path)]))
        elif name.endswith(".profraw"):
            text = _tool(["llvm-profdata", "merge", "-text", "-o", "-", path])
            with open(path.removesuffix(".profraw") + ".proftext", "wb") as file:
                file.write(text)


def _beside_notes(top: str) -> list[str]:
    """The counters of a rank, with links beside them to what the compiler noted of each file.

    A counter lies in `top` where it would lie without GCOV_PREFIX, beside its notes.
    """
    found = []
    for folder, _, names in os.walk(top):
        for name in names:
            if not name.endswith(".gcda"):
                continue
            notes = name.removesuffix("gcda") + "gcno"
            original = os.path.join("/", os.path.relpath(folder, top), notes)
            if not os.path.exists(original):
                raise UsageError(
                    f"{original}: missing; keep what the compiler made with --coverage"
                )
            os.symlink(original, os.path.join(folder, notes))
            found.append(os.path.join(folder, name))
    return sorted(found)


def _tool(command_line: Sequence[str]) -> bytes:
    answer = subprocess.run(
        command_line, capture_output=True, check=False, stdin=subprocess.DEVNULL
    )
    if answer.returncode:
        said = answer.stderr.decode(errors="replace").strip()
        raise UsageError(
            f"{command_line[0]}: {said}; it has to be of the compiler that built the program"
        )
    return answer.stdout
