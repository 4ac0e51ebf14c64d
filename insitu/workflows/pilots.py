"""Pilot runs that count the work of each call path.

A Python program counts by itself, a compiled one with the counters that its compiler added, and any
other program under valgrind. What compiled programs pass to MPI is counted as in measured runs.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence

import numpy as np

import insitu
from insitu.collectors.pilot_calls import read_pilot_calls
from insitu.design.blackbox import Site
from insitu.design.dependencies import counted_path
from insitu.errors import LaunchError, UsageError
from insitu.formats.counts import read_counts, read_labels
from insitu.launch.pilots import fill, program_at, run_pilot
from insitu.modeling.measurement import FloatArray
from insitu.run.environment import preload_environment, rank_environment
from insitu.run.options import Options

Configuration = Mapping[str, float]
PLACEHOLDER = re.compile(r"\{(\w+)\}")
DIRECTORY = "{directory}"  # replaced by the directory that receives the counts
MAX_TAINT_LABELS = 8  # of DataFlowSanitizer since LLVM 13: the bits of a byte
LLVM_COUNTS = f"{DIRECTORY}/%p.profraw"
SHELLS = ("sh", "bash", "dash", "ksh", "zsh")
GCOV, LLVM = b".gcda", b"__llvm_prf_"  # found in programs built with --coverage, or clang's flag

# Each rank writes into a folder of its own; otherwise gcov would add the counts of all ranks.
# In a program that a script starts, insitu's library does the same.
SEPARATE_RANKS = 'GCOV_PREFIX="$INSITU_COUNTS/$$" exec "$0" "$@"'


class Pilots:
    """Runs a command once per configuration and keeps the counts of each run.

    Args:
        template: the command; `{NAME}` stands for the value of a parameter.
        timeout_s: the longest that a run may take.
        report: called with the number of the run, as in "3 of 12", when a run starts, and with ""
            when it has ended.
    """

    def __init__(
        self,
        template: Sequence[str],
        timeout_s: float,
        report: Callable[[str], None] = lambda progress: None,
    ) -> None:
        self._template = template
        self._timeout_s = timeout_s
        self._report = report
        self._counts: list[dict[Site, float]] = []
        self._has_functions = False

    def count(self, configurations: Sequence[Configuration]) -> dict[Site, FloatArray]:
        """Return the counts of each site, (n_configurations,); run what has not been run before.

        Args:
            configurations: those of earlier calls, in the same order, and further ones.

        Raises:
            LaunchError: a run failed or counted nothing.
            UsageError: the command names a parameter that has no value.
        """
        commands = [fill(self._template, values) for values in configurations]
        for i in range(len(self._counts), len(commands)):
            words, environment = counting_command(commands[i])
            with (
                tempfile.TemporaryDirectory(prefix="insitu-pilot-") as directory,
                tempfile.TemporaryDirectory(prefix="insitu-pilot-") as tables,
            ):
                environment |= _mpi_environment(commands[i], tables)
                self._run(words, environment, directory, f"{i + 1} of {len(commands)}")
                _convert_counts(directory)
                functions = read_counts(directory)
                self._has_functions |= bool(functions)
                self._counts.append(functions | _read_mpi_counts(tables))

        sites: set[Site] = set().union(*self._counts)
        program = commands[0][program_at(commands[0])]
        if not self._has_functions and _is_script(program):
            raise LaunchError(
                f"the pilot runs counted no function of what {program} starts: build the"
                " program with --coverage (gcc, gfortran) or -fprofile-instr-generate (clang), or"
                " name the launcher and the program instead of the script"
            )
        if not sites:
            raise LaunchError(
                "the pilot runs counted nothing; a program that ends by os._exit or a signal does"
                " not write its counts"
            )

        return {site: np.array([run.get(site, 0.0) for run in self._counts]) for site in sites}

    def labels(
        self, values: Configuration, ranks: str, taint_program: str = ""
    ) -> dict[str, frozenset[str]]:
        """Run once with labels; return the parameters that each call path may depend on.

        Args:
            values: the configuration.
            ranks: the parameter that is the number of ranks; empty if there is none.
            taint_program: the program as clang's DataFlowSanitizer builds it with insitu_taint.c;
                empty for a Python program.

        Raises:
            LaunchError: the run failed.
            UsageError: the program is neither written in Python nor built so.
        """
        words = fill(self._template, values)
        labelled_words = {}  # by index from the end, since a launcher precedes the program
        for i, word in enumerate(self._template):
            names = PLACEHOLDER.findall(word)
            if names:
                labelled_words[str(i - len(self._template))] = names

        if taint_program:
            words[program_at(words)] = _built_with_labels(taint_program)
            environment = {"INSITU_TAINT": _taint_variable(labelled_words, ranks)}
        else:
            if not _is_python(words[program_at(words)]):
                raise UsageError(
                    "--taint follows values through Python programs; for a compiled one, build it"
                    " with clang -fsanitize=dataflow and insitu_taint.c, and give --taint-program"
                )
            words, environment = counting_command(words)
            labels = {"words": labelled_words, "ranks": [ranks] if ranks else []}
            environment = {**environment, "INSITU_LABELS": json.dumps(labels)}

        with tempfile.TemporaryDirectory(prefix="insitu-pilot-") as directory:
            self._run(words, environment, directory, "with labels")
            return read_labels(directory)

    def _run(
        self, words: list[str], environment: Mapping[str, str], directory: str, progress: str
    ) -> None:
        command = [word.replace(DIRECTORY, directory) for word in words]
        variables = {name: text.replace(DIRECTORY, directory) for name, text in environment.items()}
        variables["INSITU_COUNTS"] = directory

        self._report(progress)
        run_pilot(command, variables, self._timeout_s)
        self._report("")


def _taint_variable(words: Mapping[str, Sequence[str]], ranks: str) -> str:
    """Return the labels as insitu_taint.c reads them, `BIT:INDEX:NAME` each.

    Args:
        words: names of parameters by index from the end of the command line.
        ranks: the parameter that is the number of ranks; empty if there is none.

    Raises:
        UsageError: there are more parameters than labels.
    """
    sources = [(index, name) for index, names in words.items() for name in names if name != ranks]
    if ranks:
        sources.append(("ranks", ranks))
    names = list(dict.fromkeys(name for _, name in sources))
    if len(names) > MAX_TAINT_LABELS:
        raise UsageError(f"clang's taint analysis has {MAX_TAINT_LABELS} labels; omit a parameter")
    return " ".join(f"{1 << names.index(name)}:{index}:{name}" for index, name in sources)


def _built_with_labels(program: str) -> str:
    """Return the path of a program that was built with insitu_taint.c.

    Raises:
        UsageError: it was not, or cannot be read.
    """
    try:
        with open(program, "rb") as file:
            is_built_so = b"INSITU_TAINT" in file.read()
    except OSError as error:
        raise UsageError(f"--taint-program {program}: {error.strerror}") from error
    if not is_built_so:
        raise UsageError(
            f"--taint-program {program}: was not built with insitu_taint.c; its first lines contain"
            " the command"
        )
    return os.path.abspath(program)


def counting_command(words: list[str]) -> tuple[list[str], dict[str, str]]:
    """Return the command and the variables with which the program counts.

    Both contain `{directory}` for the directory that receives the counts.

    Raises:
        LaunchError: the program is compiled without counters, and valgrind is not installed.
    """
    at = program_at(words)
    program = words[at]
    if _is_python(program):
        return _python_command(words, at)
    if _is_script(program):
        return words, {"LLVM_PROFILE_FILE": LLVM_COUNTS} | _python_environment()

    counters = _compiled_counters(program)
    if counters == GCOV and shutil.which("gcov"):
        return [*words[:at], "sh", "-c", SEPARATE_RANKS, *words[at:]], {}
    if counters == LLVM and shutil.which("llvm-profdata"):
        return words, {"LLVM_PROFILE_FILE": LLVM_COUNTS}
    if shutil.which("valgrind") is None:
        raise LaunchError(
            f"{program} is not a Python program, and valgrind, which would count its instructions,"
            " is not installed: install it (apt-get install valgrind), or build the program with"
            " --coverage (gcc, gfortran) or -fprofile-instr-generate (clang)"
        )

    valgrind = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={DIRECTORY}/%p.callgrind"]
    return [*words[:at], *valgrind, *words[at:]], {}


def _mpi_environment(command: list[str], tables: str) -> dict[str, str]:
    """Return the variables with which a compiled program counts what it passes to MPI.

    No agent reads the tables, which stay below the directory `tables`.
    """
    if _is_python(command[program_at(command)]):
        return {}  # it counts by itself
    preload = preload_environment(command[program_at(command)])
    if not preload:
        return {}

    options = Options(command=command, agent="off", heap="off", sample=0)
    run = os.path.basename(tables)
    single = {} if program_at(command) else {"INSITU_SINGLE": "1"}
    return rank_environment(options, run, tables) | preload | single | {"INSITU_TABLES": tables}


def _read_mpi_counts(tables: str) -> dict[Site, float]:
    """Return the largest count of all ranks by site."""
    largest: dict[Site, float] = {}
    for counts in read_pilot_calls(tables):
        totals: dict[Site, float] = {}
        for (callpath, count), amount in counts.items():
            site = (counted_path(callpath), count)
            totals[site] = totals.get(site, 0.0) + amount
        for site, amount in totals.items():
            largest[site] = max(largest.get(site, 0.0), amount)
    return largest


def _is_python(program: str) -> bool:
    return program.endswith(".py") or os.path.basename(program).startswith("python")


def _python_command(words: list[str], at: int) -> tuple[list[str], dict[str, str]]:
    if words[at].endswith(".py"):
        words = [*words[:at], sys.executable, *words[at:]]
    return words, _python_environment()


def _python_environment() -> dict[str, str]:
    """Return the variables with which Python programs count by themselves."""
    package = os.path.dirname(os.path.abspath(insitu.__file__))
    site = os.path.join(package, "collectors", "counting", "site")
    original = os.environ.get("PYTHONPATH", "")
    path = os.pathsep.join(filter(None, [site, os.path.dirname(package), original]))
    return {"PYTHONPATH": path} | ({"INSITU_PYTHONPATH": original} if original else {})


def _is_script(program: str) -> bool:
    """Whether a program is a shell, or starts with `#!`; what it starts is not known before."""
    if os.path.basename(program) in SHELLS:
        return True
    try:
        with open(shutil.which(program) or program, "rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return False


def _compiled_counters(program: str) -> bytes:
    """Return GCOV or LLVM if the compiler added such counters to a program, else b""."""
    try:
        with open(shutil.which(program) or program, "rb") as file:
            content = file.read()
    except OSError:
        return b""
    return next((mark for mark in (GCOV, LLVM) if mark in content), b"")


def _convert_counts(directory: str) -> None:
    """Convert what gcov or clang wrote into a readable file per rank."""
    for name in os.listdir(directory):
        path = os.path.join(directory, name)
        if os.path.isdir(path):
            command = ["gcov", "--json-format", "--stdout", *_link_notes(path)]
            with open(path + ".gcov", "wb") as file:
                file.write(_tool_output(command))
        elif name.endswith(".profraw"):
            command = ["llvm-profdata", "merge", "-text", "-o", "-", path]
            with open(path.removesuffix(".profraw") + ".proftext", "wb") as file:
                file.write(_tool_output(command))


def _link_notes(top: str) -> list[str]:
    """Link the notes of the compiler beside the counter files of a rank; return these.

    A counter file has the same path below `top` that it would have without GCOV_PREFIX, which is
    where its notes are.
    """
    counter_files = []
    for folder, _, names in os.walk(top):
        for name in names:
            if not name.endswith(".gcda"):
                continue
            notes_name = name.removesuffix("gcda") + "gcno"
            notes = os.path.join("/", os.path.relpath(folder, top), notes_name)
            if not os.path.exists(notes):
                raise UsageError(
                    f"{notes}: no such file; keep the .gcno files that the compiler writes with"
                    " --coverage"
                )
            os.symlink(notes, os.path.join(folder, notes_name))
            counter_files.append(os.path.join(folder, name))

    return sorted(counter_files)


def _tool_output(command: Sequence[str]) -> bytes:
    completed = subprocess.run(command, capture_output=True, check=False, stdin=subprocess.DEVNULL)
    if completed.returncode:
        message = completed.stderr.decode(errors="replace").strip()
        raise UsageError(
            f"{command[0]}: {message}; use the {command[0]} of the compiler that built the program"
        )
    return completed.stdout
