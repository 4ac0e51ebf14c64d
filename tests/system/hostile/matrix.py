"""Runs hostile programs bare and measured, and lists what differs."""

import math
import os
import re
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from tests.support.interpreters import find_python, pyenv_pythons
from tests.system.conftest import BINARIES, HERE, Bench, Outcome
from tests.system.hostile.program import Program
from tests.system.hostile.ranks import ENDS
from tests.system.hostile.tallies import compare_tallies, read_tallies

PROGRAMS = Path(__file__).with_name("programs")
OUR_LINES = "insitu: "  # in standard error; no program here prints these words
# How much later than bare a program may end after its last output. Real delays were 2 s and more.
MAX_EXIT_DELAY_S = 1.5
MAX_LONGER_S = 4.0  # than twice the time of the bare run
ENDS_LATE = "ends more than 1.5 s later after its last output than bare"
MAX_OUTLIVED_S = 5.0  # until a process that outlives the program counts as one that stays

# What differs between any two runs: variables and numbers of the launcher, names with process ids.
CHANGING_VARIABLES = re.compile(
    r"variable (PMI|PMIX|HYDRA|HYDI|MPI|OMPI|PRTE|INSITU_TABLES|WITNESS|SHLVL|_=|OLDPWD|UCX"
    r"|COLUMNS|LINES|TMPDIR|_PYI)"
)
# They start the program, and pass the variables of the measurement on to it.
WRAPPERS = (
    *("sh", "dash", "bash", "env", "nice", "mkdir", "rmdir", "head", "yes"),
    *("unshare", "setpriv", "strace", "timeout", "setsid", "cat", "cp", "install"),
    *("gcc", "cc", "cc1", "collect2", "as", "ld"),  # of a script that compiles something first
)
NUMBERS = re.compile(r"/dev/pts/\d+|/dev/shm/.*|/tmp/[^ ]*|\d{3,}|\[\d+\]")
BACKTRACE = re.compile(r"\[ ?\d+\](?= /)")  # number of a stack frame, before its object
FEWER = re.compile(r"counts: .*: (\d+), (\d+) are right")
# Process ids in messages of launchers and of C libraries.
PROCESS_IDS = re.compile(
    r"((?:\b(?:pid|PID|process|Process)[ =:]*|:|-)\[?)\d{2,}|(@\d+,|process rank )\d+"
)


def cache_folder() -> Path:
    """Where `python -m tests.system.hostile --install` puts optional packages."""
    return Path(os.environ.get("INSITU_HOSTILE", "~/.cache/insitu/hostile")).expanduser()


@dataclass(frozen=True)
class Result:
    """What became of a program in one combination."""

    differences: tuple[str, ...] = ()
    skipped: str = ""
    state: str = ""  # of the stored run
    findings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Combination:
    """A program, an MPI and an interpreter, in a folder of its own."""

    program: Program
    bench: Bench
    python: str

    def words(self, what: tuple[str, ...]) -> list[str]:
        """Fill in the words of a command."""
        return [self.fill(word) for word in what]

    def fill(self, word: str) -> str:
        """Replace the names in braces."""
        values = {
            "python": self.python,
            "script": str(PROGRAMS / self.program.file),
            "program": str(self.bench.folder / "program"),
            "build": str(self.bench.folder),
            "programs": str(PROGRAMS),
            "mpi": self.bench.mpi,
            "mpicc": str(BINARIES[self.bench.mpi] / "mpicc"),
            "repository": str(HERE),
            "cache": str(cache_folder()),
            "mpi4py": str(cache_folder() / "src" / "mpi4py-4.1.2"),
        }
        for name, value in values.items():
            word = word.replace("{" + name + "}", value)
        return re.sub(r"\{pyenv\}/([\d.]+)", lambda match: _pyenv_python(match[1]), word)


def _pyenv_python(version: str) -> str:
    """Path of an interpreter of pyenv, which may not exist."""
    return next(iter(pyenv_pythons(version)), f"~/.pyenv/versions/{version}/bin/python")


def why_skipped(combination: Combination) -> str:
    """Return what a combination lacks; empty if it can run."""
    program = combination.program
    if combination.bench.mpi not in program.mpis:
        return f"not with {combination.bench.mpi}"
    for tool in combination.words(program.tools):
        if not shutil.which(tool) and not os.path.exists(tool):  # or unreadable
            return f"no {Path(tool).name}"
    needs_mpi = (
        program.is_python and program.ranks and "{python}" in str(program.words or "{python}")
    )
    for package in (*program.packages, *(("mpi4py",) if needs_mpi else ())):
        if not has_package(combination.python, package):
            return f"no {package}"
    return ""


@cache
def has_package(python: str, package: str) -> bool:
    """Whether an interpreter can import a module."""
    code = f"import importlib.util as u; raise SystemExit(u.find_spec({package!r}) is None)"
    return subprocess.run([python, "-c", code], capture_output=True, check=False).returncode == 0


def interpreter(version: str) -> str:
    """Path of an interpreter with optional packages, or of any of that version; "" if none."""
    own = cache_folder() / f"py{version}" / "bin" / "python"
    return str(own) if own.exists() else find_python(version)


def run(combination: Combination, *, has_tallies: bool = False) -> Result:
    """Run a program bare and measured, and compare.

    Args:
        combination: the program, the MPI and the interpreter.
        has_tallies: compare MPI calls, messages and bytes with what another tool counts in a run
            of its own, too, and say what became of the run.

    Raises:
        subprocess.TimeoutExpired: the bare program hangs.
        RuntimeError: it does not compile.
    """
    reason = why_skipped(combination)
    if reason:
        return Result(skipped=reason)
    program, bench = combination.program, combination.bench
    _compile(combination, has_tallies)

    default = ("{program}",) if not program.is_python else ("{python}", "{script}")
    launcher = [*_mpiexec(combination), "-n", str(program.ranks)] if program.ranks else []
    command = [*launcher, *(program.words or default)]  # the same in every run
    bare = _execute(combination, command, "bare")
    measured_command = [*bench.command("--agent", "off", *program.options, "--"), *command]
    try:
        measured = _execute(combination, measured_command, "measured")
        differences = _compare(program, bare, measured)
        if differences == [ENDS_LATE]:  # once in 60 runs on a machine with ten times its load
            measured = _execute(combination, measured_command, "repeated")
            differences = _compare(program, bare, measured)
    except subprocess.TimeoutExpired:
        return Result((f"hangs: no end after {program.seconds:.0f} s",))

    if differences:  # only what two bare runs have in common counts
        differences = _common(differences, program, (combination, command, measured))
    if not has_tallies and not program.counts:
        return Result(tuple(differences))
    result = _check_values(combination, differences)
    if not has_tallies or result.state == "absent" or not program.ranks:
        return result
    lines = _check_tallies(combination, command)
    if not {"measuring-stopped", "rows-truncated"}.isdisjoint(result.findings):
        lines = tuple(line for line in lines if not _is_fewer(line))
    return replace(result, differences=result.differences + lines)


def _mpiexec(combination: Combination) -> list[str]:
    """The launcher; that of Debian for Fortran, since packages of Python have none for it."""
    words = combination.bench.mpiexec
    if combination.program.file.endswith(".f90"):
        words = [f"/usr/bin/mpiexec.{combination.bench.mpi}", *words[1:]]
    return words


def _is_fewer(line: str) -> bool:
    """Whether a difference is that fewer calls were counted than there were."""
    numbers = FEWER.fullmatch(line)
    return numbers is not None and int(numbers[1]) < int(numbers[2])


def _check_tallies(combination: Combination, command: list[str]) -> tuple[str, ...]:
    """What insitu counted differently; of two tallies, only what they agree on counts."""
    bench = combination.bench
    common: set[str] | None = None
    for kind in ("tally", "tally again"):
        tool = str(bench.folder / "libtally.so")
        preloads = f"{combination.program.environment.get('LD_PRELOAD', '')}:{tool}".lstrip(":")
        environment = {
            "LD_PRELOAD": combination.fill(preloads),
            "TALLY_FILE": str(bench.folder / kind),
        }
        _execute(combination, command, kind, more=environment)
        lines = compare_tallies(
            read_tallies(bench.folder, kind),
            bench.table(),
            are_ranks_equal=combination.program.are_ranks_equal,
        )
        common = set(lines) if common is None else common & set(lines)
        if not common:
            break
    return tuple(sorted(common or ()))


def _common(
    differences: list[str],
    program: Program,
    again: "tuple[Combination, list[str], TimedOutcome]",
) -> list[str]:
    """The differences that are there beside a second bare run as well."""
    combination, command, measured = again
    second = _execute(combination, command, "again")
    others = set(_compare(program, second, measured))
    return [line for line in differences if line in others]


@dataclass(frozen=True)
class TimedOutcome:
    """What a program left behind, and how long it took to end after its last output."""

    outcome: Outcome
    exit_s: float
    states: Counter[str]  # what the processes of the ranks saw when they ended
    files: Counter[str]  # that are in its folder afterwards
    wall_s: float
    left: Counter[str]  # names of the processes that outlived the program


def _execute(
    combination: Combination,
    command: list[str],
    kind: str,
    *,
    more: Mapping[str, str] | None = None,
) -> TimedOutcome:
    """Run a command in a fresh folder called `kind`, with `more` in its environment.

    Raises:
        subprocess.TimeoutExpired: it hangs.
    """
    bench, program = combination.bench, combination.program
    folder = bench.folder / kind
    folder.mkdir()
    command = combination.words(tuple(w.replace("{folder}", str(folder)) for w in command))
    environment = {**bench.environment, "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("PYTHONUNBUFFERED", None)  # lines of two ranks would mix
    environment |= {name: combination.fill(value) for name, value in program.environment.items()}
    environment["WITNESS_FILE"] = str(bench.folder / f"{kind}.state")
    if not program.ranks:
        environment["WITNESS_SINGLE"] = "1"
    if program.has_witness:
        others = environment.get("LD_PRELOAD", "")
        witness = str(bench.folder / "libwitness.so")
        environment["LD_PRELOAD"] = f"{others}:{witness}" if others else witness
    environment |= more or {}

    out, err = bench.folder / f"{kind}.out", bench.folder / f"{kind}.err"
    inherited = os.open(os.devnull, os.O_RDONLY)
    started_at = time.time()
    with out.open("wb") as stdout, err.open("wb") as stderr:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
            pass_fds=[inherited],  # as a shell does with `3< file`
        )
        os.close(inherited)
        try:
            process.wait(program.seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()
            raise
    ended_at = time.time()
    last_output_at = max(out.stat().st_mtime, err.stat().st_mtime)
    texts = [path.read_text(errors="backslashreplace") for path in (out, err)]
    code = process.returncode if process.returncode >= 0 else 128 - process.returncode
    left = _end_processes(environment["WITNESS_FILE"])
    states = _read_states(bench.folder / f"{kind}.state", program.differs)
    files: Counter[str] = Counter(
        NUMBERS.sub("N", re.sub(r"of\d+", "ofN", str(path.relative_to(folder))))
        for path in folder.rglob("*")
    )
    wall_s = ended_at - started_at
    return TimedOutcome(
        Outcome(code, *texts), ended_at - last_output_at, states, files, wall_s, left
    )


def _end_processes(mark: str) -> Counter[str]:
    """Wait for processes of a program that has ended, and return the names of those that stay.

    Helpers of Python's multiprocessing end after the program, when they find a pipe closed.

    Args:
        mark: a word in the environment of all processes of the program, and of no other.
    """
    deadline = time.monotonic() + MAX_OUTLIVED_S
    while (processes := _find_processes(mark)) and time.monotonic() < deadline:
        time.sleep(0.02)

    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    return Counter(processes.values())


def _find_processes(mark: str) -> dict[int, str]:
    """Names of the processes with a word in their environment, by process id."""
    names = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has just ended
            if mark.encode() in (folder / "environ").read_bytes():
                names[int(folder.name)] = (folder / "comm").read_text().strip()
    return names


def _compile(combination: Combination, has_tallies: bool) -> None:
    """Put what the program needs into the folder of the run, and the tool that counts."""
    bench, program = combination.bench, combination.program
    folder = bench.folder
    mpicc, mpicxx = (str(BINARIES[bench.mpi] / name) for name in ("mpicc", "mpicxx"))
    library = ("-shared", "-fPIC")
    jobs = {"libwitness.so": ("gcc", "witness.c", *library)}
    if has_tallies:
        jobs["libtally.so"] = (mpicc, "tally.c", *library)
    if not program.is_python:
        compiler = mpicxx if program.file.endswith(".cc") else mpicc
        flags = program.flags
        if program.file.endswith(".f90"):
            compiler, flags = f"mpif90.{bench.mpi}", (*flags, "-J", _build_folder().name)
        jobs["program"] = (compiler, "-g", program.file, *flags, "-rdynamic")
    if "profiling_tool" in str(program.environment):
        jobs["libprofiling_tool.so"] = (mpicc, "profiling_tool.c", *library)
    if "privileged" in str(program.words):
        jobs["privileged"] = ("gcc", "privileged.c")
    for name, words in jobs.items():
        shutil.copy(_compiled(words), folder / name)
    helper = folder / "privileged"
    if helper.exists():
        if os.getuid() == 0:
            os.chown(helper, 65534, 65534)
        helper.chmod(helper.stat().st_mode | stat.S_ISUID)


@cache
def _compiled(words: tuple[str, ...]) -> Path:
    """Compile once per process: many programs are one file, started with different words."""
    path = Path(_build_folder().name, f"{_compiled.cache_info().currsize}")
    command = [*words, "-w", "-o", str(path)]
    done = subprocess.run(command, cwd=PROGRAMS, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{words}: {done.stderr}")
    return path


@cache
def _build_folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="hostile-build")


# ---- comparing ----------------------------------------------------------------------------------


def _compare(program: Program, bare: TimedOutcome, measured: TimedOutcome) -> list[str]:
    """What differs of the exit code, the output, the time until the end, and the states."""
    lines = []
    if bare.outcome.code != measured.outcome.code:
        lines.append(f"exit code {bare.outcome.code} bare, {measured.outcome.code} measured")
    for what in ("out", "err"):
        texts = [getattr(run.outcome, what) for run in (bare, measured)]
        before, after = (_lines_of_program(text, program.differs) for text in texts)
        if bare.outcome.code and program.ranks > 1:
            # The launcher kills the other ranks at any moment: how often a line comes is chance.
            before, after = Counter(set(before)), Counter(set(after))
        lines += [f"{what}: only bare: {line}" for line in before - after]
        lines += [f"{what}: only measured: {line}" for line in after - before]
    if measured.exit_s > bare.exit_s + MAX_EXIT_DELAY_S:
        lines.append(ENDS_LATE)
    if measured.wall_s > 2 * bare.wall_s + MAX_LONGER_S:
        lines.append(f"takes {measured.wall_s:.0f} s, {bare.wall_s:.0f} s bare")
    more = _names(bare.files - measured.files, program.differs)
    lines += [f"files: only bare: {name}" for name in more]
    more = _names(measured.files - bare.files, program.differs)
    lines += [f"files: only measured: {name}" for name in more]
    lines += [f"left: only bare: {name}" for name in bare.left - measured.left]
    lines += [f"left: only measured: {name}" for name in measured.left - bare.left]
    lines += [f"state: only bare: {line}" for line in bare.states - measured.states]
    return lines + [f"state: only measured: {line}" for line in measured.states - bare.states]


def _names(files: Counter[str], differs: str) -> list[str]:
    return [name for name in files.elements() if not (differs and re.search(differs, name))]


def _lines_of_program(text: str, differs: str) -> Counter[str]:
    lines: Counter[str] = Counter()
    for line in text.splitlines():
        line = line.partition(OUR_LINES)[0].rstrip()  # launchers end with half a line
        if BACKTRACE.search(line) and "/libinsitu.so" in line:
            continue  # that backtraces name our library is documented
        if line and not (differs and re.search(differs, line)):
            lines[_mask(line)] += 1
    return lines


def _mask(line: str) -> str:
    """Replace what differs between any two runs: folders, addresses, times, process ids."""
    line = re.sub(r"/(bare|measured|repeated|again)\b", "/FOLDER", line)
    line = re.sub(r"/tmp/(?!hostile)[^ ]*", "/tmp/NAME", line)
    line = re.sub(r"0x[0-9a-f]+", "0xN", line)
    line = re.sub(r"^\[\d+\.\d+\]", "[TIME]", line)  # of UCX
    line = re.sub(r"\[\[\d+,\d+\],\d+\]", "[[N,N],N]", line)  # Open MPI's name of a process
    line = BACKTRACE.sub("[N]", line)
    return PROCESS_IDS.sub(r"\1\2N", line)


def _read_states(path: Path, differs: str) -> Counter[str]:
    lines: Counter[str] = Counter()
    # The launcher may kill the other ranks of a program that fails before they write anything, and
    # a program may keep its user from reading what it writes.
    if not os.access(path, os.R_OK) or differs == ENDS:
        return lines
    process = ""
    for line in path.read_text(errors="backslashreplace").splitlines():
        if line.startswith("== "):
            process = line[3:]
        elif differs and re.search(differs, line):
            continue
        elif process not in WRAPPERS and not CHANGING_VARIABLES.match(line):
            line = re.sub(r"/(bare|measured|repeated|again)\b", "/FOLDER", line)
            lines[f"{process}: {NUMBERS.sub('N', line)}"] += 1
    return lines


def _check_values(combination: Combination, differences: list[str]) -> Result:
    """Ingest the tables, and compare counts with those that are known."""
    bench = combination.bench
    state, findings = "absent", ()
    if bench.left_tables() and not bench.ingest().errors:
        record = bench.records()[-1]
        state = record.state.value
        findings = tuple(sorted({finding.code for finding in record.findings}))
        visits = count_visits(bench)
        for name, expected in combination.program.counts.items():
            if visits[name] != expected:
                differences.append(f"counts: {name} {visits[name]:.0f}, {expected} are right")
    elif combination.program.counts:
        differences.append("counts: the program was not measured")
    return Result(tuple(differences), state=state, findings=findings)


def count_visits(bench: Bench) -> Mapping[str, float]:
    """Visits of each function in rank 0, in the last run, by the last part of its name."""
    table = bench.table()
    visits: Counter[str] = Counter()
    for path, values in zip(table.callpaths, table.values["visits"], strict=True):
        if not math.isnan(values[0]):  # functions that were only sampled have no count
            visits[path.name.rpartition(".")[2]] += float(values[0])
    return visits


def in_folder(combination: Combination, folder: Path) -> Combination:
    """The same combination in another folder."""
    bench = replace(combination.bench, folder=folder, tables=folder / "tables")
    bench.tables.mkdir(parents=True, exist_ok=True)
    return replace(combination, bench=bench)
