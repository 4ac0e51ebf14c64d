"""The values of a campaign by scale, with library functions counted as their callers."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import median

import numpy as np

from insitu.analysis.diagnosis.packages import MpiPackages, Site, find_mpi_packages, package_of
from insitu.entities import (
    CPU_TIME,
    DEVICE_TIME,
    FILES_OPENED,
    TIME,
    TIME_EXCLUSIVE,
    TIME_WAITING,
    VISITS,
    CallPath,
    RunKey,
    is_allocator,
    is_start_up,
)
from insitu.modeling import crowding
from insitu.modeling.classes.supplements import LONGER
from insitu.modeling.measurement import FloatArray, RunTable, suffice
from insitu.modeling.sampling import find_sampled_rows

THREAD = "(thread)"  # above the functions of other threads
INITIALISATIONS = frozenset(("MPI_Init", "MPI_Init_thread", "PMPI_Init", "PMPI_Init_thread"))
LIBRARY_FILE = re.compile(
    r"/(site|dist)-packages/|/lib(64)?/python[0-9.]+/|/include/c\+\+/|<frozen |<string>"
)
# A loop around one of these calls waits, and takes processor time.
POLLING = ("MPI_Test", "MPI_Iprobe", "MPI_Improbe")
LAW_SCALES = 3  # that show how something grows
MAX_CALLERS = 3  # a loop, the function that has it, and the loop that calls this one
VALUES_AT_ONCE = 1 << 20  # that are looked through: 8 MiB
REPEATABLE = 1e-9  # largest relative difference between repetitions of a count

Statistic = Callable[[FloatArray], float]


def median_over_ranks(vector: FloatArray) -> float:
    """The median, and the larger of two middle values.

    Where one of two ranks holds nothing, half of what the other holds is the value of no rank, and
    would grow to the value of most of four ranks.
    """
    return float(np.sort(vector)[len(vector) // 2])


@dataclass(frozen=True)
class MeasuredRun:
    """A complete run with its values.

    is_oversubscribed: it had more ranks, or threads of ranks, than cores. sampling_s: CPU time
    between two samples of its functions, 0 if they were not sampled. is_precise: whether these were
    taken when they were due. threads: of each rank, where only they are more than the cores.
    order: its place among all runs, by the time at which they began.
    """

    key: RunKey
    table: RunTable
    is_oversubscribed: bool
    rows: Mapping[CallPath, int]
    sampling_s: float = 0.0
    is_precise: bool = False
    threads: int = 1
    order: int = 0

    def vector(self, path: CallPath, metric: str) -> FloatArray:
        """The values of all ranks, (p,); 0 for ranks that did not visit the call path."""
        row, values = self.rows.get(path), self.table.values.get(metric)
        if row is None or values is None:
            return np.zeros(self.size)
        numbers: FloatArray = values[row].copy()
        numbers[np.isnan(numbers)] = 0.0
        return numbers

    def sum_over(self, paths: Iterable[CallPath], metric: str) -> FloatArray:
        """The sum of the values of several call paths on each rank, (p,)."""
        total = np.zeros(self.size)
        if metric in self.table.values:
            for path in paths:
                if path in self.rows:
                    total += self.vector(path, metric)
        return total

    @cached_property
    def size(self) -> int:
        """The number of ranks."""
        return self.key.size

    @cached_property
    def outer_programs(self) -> frozenset[CallPath]:
        """The programs that call a function which starts MPI, as `main` does in C.

        Their own time, before and after that function, is start-up. The function must have been
        timed: otherwise, the own time of the program is all that it did not spend in MPI. A script
        of Python that starts MPI by its imports works outside of functions as well.
        """
        programs = set()
        for path in self.rows:
            if len(path.frames) > 2 and path.name in INITIALISATIONS:
                starter = CallPath(path.frames[:2])
                if not is_start_up(starter) and np.all(self.vector(starter, VISITS.name) == 1):
                    programs.add(CallPath(path.frames[:1]))
        return frozenset(programs)

    @cached_property
    def is_crowded(self) -> bool:
        """Whether it had more ranks than cores, or other processes used them: times mean little."""
        return self.is_oversubscribed or self.queued_share >= crowding.LEAST_QUEUED

    @cached_property
    def queued_share(self) -> float:
        """The share of its time that the most delayed rank was ready to run but on no processor."""
        return crowding.queued_share(self.table)

    @cached_property
    def lost_shares(self) -> FloatArray:
        """The share of its time that each rank was on no core, beyond waiting in MPI calls, (p,).

        Most MPI libraries occupy the core while they wait; where they do not, that time is waiting.
        """
        elapsed, used = np.zeros(self.size), np.zeros(self.size)
        for path in self.rows:
            if path.parent is None:
                used += self.vector(path, CPU_TIME.name)
                if not path.name.startswith("("):
                    elapsed += self.vector(path, TIME.name)
        is_known = (used > 0) & (elapsed > 0)
        for path in self.rows:
            used += self.vector(path, TIME_WAITING.name)
        return np.where(is_known, 1.0 - used / np.where(is_known, elapsed, 1.0), 0.0)

    @cached_property
    def longer_callee(self) -> CallPath | None:
        """A function that takes more time than the program that calls it, if there is one.

        Where the program has a measured time of its own, times do include those of called ones.
        """
        for path in self.rows:
            caller = path.parent
            if caller is None or caller.parent is not None or caller not in self.rows:
                continue
            of_caller = float(self.vector(caller, TIME.name).sum())
            if self.vector(caller, TIME_EXCLUSIVE.name).sum() > 0:
                continue
            if float(self.vector(path, TIME.name).sum()) > LONGER * of_caller > 0:
                return path
        return None

    @cached_property
    def rank_times(self) -> FloatArray:
        """The time of each rank in seconds, without start-up, (p,).

        0 where it is unknown: no call path, or several of a rank, contain all others, as in lists
        of regions that other tools measured. Some of them may contain each other. MPI calls before
        and after a program with callees are not among these. It is also unknown where the program
        takes less time than what it calls: then times do not include those of called functions.
        """
        top = [path for path in self.rows if path.parent is None and not path.name.startswith("(")]
        callers = {path.parent for path in self.rows}
        has_program = any(path in callers and not is_mpi(path) for path in top)
        if self.longer_callee is not None:
            return np.zeros(self.size)

        total = np.zeros(self.size)
        n_programs = np.zeros(self.size)
        for path in top:
            seconds = self.vector(path, TIME.name)
            total += seconds
            if not (has_program and is_mpi(path)):
                n_programs += seconds > 0
        for path in self.rows:
            if is_start_up(path) and (path.parent is None or not is_start_up(path.parent)):
                is_counted = path.parent is not None or not path.name.startswith("(")
                total -= self.vector(path, TIME.name) if is_counted else 0.0
        for program in self.outer_programs:
            total -= self.vector(program, TIME_EXCLUSIVE.name)
        return np.where(n_programs == 1, total, 0.0)


@dataclass(frozen=True, slots=True)
class RankSeries:
    """One quantity of one call path: for each scale the vectors (p,) of its repetitions."""

    vectors: tuple[tuple[FloatArray, ...], ...]

    def statistic(self, reduce: Statistic) -> FloatArray:
        """A statistic over ranks at each scale, (n_scales,): the median over repetitions."""
        groups = ([reduce(vector) for vector in group] for group in self.vectors)
        return np.array([median(values) if len(values) > 1 else values[0] for values in groups])

    def is_repeatable(self, reduce: Statistic, tolerance: float = REPEATABLE) -> bool:
        """Whether all repetitions of each scale agree in a statistic."""
        for group in self.vectors:
            if len(group) < 2:
                continue
            values = np.array([reduce(vector) for vector in group])
            if np.ptp(values) > tolerance * max(float(np.max(np.abs(values))), 1e-300):
                return False
        return True

    @property
    def is_uniform(self) -> bool:
        """Whether at each scale every rank has the same value."""
        return all(np.ptp(vector) == 0 for group in self.vectors for vector in group)

    def __mul__(self, other: "RankSeries") -> "RankSeries":
        groups = []
        for mine, theirs in zip(self.vectors, other.vectors, strict=True):
            groups.append(tuple(a * b for a, b in zip(mine, theirs, strict=True)))
        return RankSeries(tuple(groups))

    def __truediv__(self, other: "RankSeries") -> "RankSeries":
        """Quotients, 0 where the divisor is: what happens in no visit has no value per visit."""
        groups = []
        for mine, theirs in zip(self.vectors, other.vectors, strict=True):
            pairs = zip(mine, theirs, strict=True)
            groups.append(tuple(a * (b != 0) / np.where(b == 0, 1.0, b) for a, b in pairs))
        return RankSeries(tuple(groups))


@dataclass
class Measurements:
    """The runs of one program at several numbers of ranks, all other parameters alike.

    Attributes:
        p: (n_scales,), ascending.
        groups: the runs of each scale.
        sites: where the function at the end of a call path is defined, as far as this is known.
        fixed: values of the other parameters, if they vary in the campaign; the runs with other
            values are left out.
        elsewhere: the numbers of ranks that were measured with other values only, ascending.
    """

    p: FloatArray
    groups: tuple[tuple[MeasuredRun, ...], ...]
    sites: Mapping[CallPath, Site] = field(default_factory=dict)
    fixed: tuple[tuple[str, float], ...] = ()
    elsewhere: tuple[int, ...] = ()
    _with_any: dict[str, frozenset[CallPath]] = field(default_factory=dict, init=False)

    @cached_property
    def callpaths(self) -> tuple[CallPath, ...]:
        """All call paths, sorted."""
        paths = {path for run in self.runs for path in run.rows}
        return tuple(sorted(paths))

    @cached_property
    def runs(self) -> tuple[MeasuredRun, ...]:
        """All runs, by scale."""
        return tuple(run for group in self.groups for run in group)

    @cached_property
    def metrics(self) -> frozenset[str]:
        """The metrics that any run has."""
        return frozenset(name for run in self.runs for name in run.table.values)

    @cached_property
    def owners(self) -> dict[CallPath, CallPath]:
        """For each call path the function of the program that it belongs to."""
        owners = {}
        for path in self.callpaths:
            is_call = path in self.file_calls or path in self.device_calls
            caller = path.parent if is_call else None
            owners[path] = self._owner_of(caller or path)
        return owners

    def _owner_of(self, path: CallPath) -> CallPath:
        """The nearest function of the program: `main->full` of numpy belongs to `main`.

        What a script calls outside of its own functions belongs to the nearest function that is
        one of a package which calls MPI, if there is any.
        """
        at = path
        while at.parent is not None and self.is_library(at):
            at = at.parent
        if at.parent is not None or is_start_up(path):
            return at
        inner: CallPath | None = path
        while inner is not None:
            if not is_nested(inner) and package_of(inner, self.sites) in self.packages.all:
                return inner
            inner = inner.parent
        return at

    def is_library(self, path: CallPath) -> bool:
        """Whether the last frame is not a function of the program, but called by one."""
        if not is_library(path, self.sites):
            return path in self.wrappers
        return is_nested(path) or package_of(path, self.sites) not in self.packages.programs

    @cached_property
    def wrappers(self) -> frozenset[CallPath]:
        """The functions that call MPI for others, with names such as `hypre_MPI_Isend`."""
        callers = ((path.parent, path.name) for path in self.callpaths if is_mpi(path))
        return frozenset(
            caller for caller, call in callers if caller is not None and caller.name.endswith(call)
        )

    @cached_property
    def packages(self) -> MpiPackages:
        """The installed packages that call MPI."""
        return find_mpi_packages(filter(is_mpi, self.callpaths), self.sites)

    @cached_property
    def file_calls(self) -> frozenset[CallPath]:
        """The call paths that end in a call which opens, reads, writes or maps files."""
        return self._paths_with(FILES_OPENED.name)

    @cached_property
    def device_calls(self) -> frozenset[CallPath]:
        """The call paths that end in something that a GPU does."""
        return self._paths_with(DEVICE_TIME.name)

    def _paths_with(self, metric: str) -> frozenset[CallPath]:
        """The call paths that have a metric in any run."""
        return frozenset(
            path
            for run in self.runs
            for path, row in run.rows.items()
            if metric in run.table.values and np.any(np.isfinite(run.table.values[metric][row]))
        )

    @cached_property
    def members(self) -> dict[CallPath, list[CallPath]]:
        """The call paths that belong to each function of the program, without start-up."""
        outer = {program for run in self.runs for program in run.outer_programs}
        members: dict[CallPath, list[CallPath]] = {}
        for path in self.callpaths:
            if not is_start_up(path) and path not in outer:
                members.setdefault(self.owners[path], []).append(path)
        return members

    @cached_property
    def has_regions(self) -> bool:
        """Whether the call paths are a list of regions without a program around them."""
        roots = [path for path in self.callpaths if path.parent is None]
        return sum(not path.name.startswith("(") for path in roots) > 1

    def is_around(self, path: CallPath) -> bool:
        """Whether a call path is the program around all that was measured."""
        return path.parent is None and not self.has_regions and path in self.children

    @cached_property
    def has_equal_ranks(self) -> bool:
        """Whether no time differs between the ranks of any run, as where means were imported."""
        return all(
            not np.nan_to_num(np.ptp(run.table.values[TIME_EXCLUSIVE.name], axis=1)).any()
            for run in self.runs
            if TIME_EXCLUSIVE.name in run.table.values
        )

    @cached_property
    def children(self) -> dict[CallPath, list[CallPath]]:
        """The call paths directly below each call path."""
        children: dict[CallPath, list[CallPath]] = {}
        for path in self.callpaths:
            if path.parent is not None:
                children.setdefault(path.parent, []).append(path)
        return children

    def series(self, paths: Iterable[CallPath], metric: str) -> RankSeries:
        """The sum of a metric over several call paths."""
        some = self._paths_with_any(metric)
        listed = [path for path in paths if path in some]
        if not listed:
            return self._nothing
        groups = []
        for group in self.groups:
            vectors = []
            for run in group:
                vectors.append(run.sum_over(listed, metric))
            groups.append(tuple(vectors))
        return RankSeries(tuple(groups))

    def _paths_with_any(self, metric: str) -> frozenset[CallPath]:
        """The call paths that have a value other than 0 of a metric in any run.

        Programs have thousands of call paths; most of their quantities are 0 everywhere.
        """
        known = self._with_any.get(metric)
        if known is None:
            found: set[CallPath] = set()
            for run in self.runs:
                paths, rows = list(run.rows), list(run.rows.values())
                step = max(1, VALUES_AT_ONCE // max(run.size, 1))
                for start in range(0, len(rows) if metric in run.table.values else 0, step):
                    values = np.nan_to_num(run.table.values[metric][rows[start : start + step]])
                    has_any = np.flatnonzero(np.any(values != 0, axis=1))
                    found.update(paths[start + i] for i in has_any.tolist())
            known = self._with_any[metric] = frozenset(found)
        return known

    @cached_property
    def _nothing(self) -> RankSeries:
        """A series of zeros."""
        return RankSeries(tuple(tuple(np.zeros(run.size) for run in of) for of in self.groups))

    def visits_up_from(self, path: CallPath) -> list[RankSeries]:
        """The visits of a call path, of its caller and of the caller's caller."""
        series: list[RankSeries] = []
        at: CallPath | None = path
        while at is not None and len(series) < MAX_CALLERS:
            series.append(self.series([at], VISITS.name))
            at = at.parent
        return series

    @cached_property
    def for_times(self) -> "Measurements":
        """The runs whose times are judged: without crowded ones, if the others suffice."""
        idle = [[run for run in group if not run.is_crowded] for group in self.groups]
        is_known = np.array([bool(group) for group in idle])
        n_left = sum(map(len, idle))
        scales = [[(value,) for value in of.tolist()] for of in (self.p[is_known], self.p)]
        if n_left == len(self.runs) or not (is_known.all() or suffice(*scales)):
            return self
        groups = tuple(tuple(group) for group in idle if group)
        return replace(self, p=self.p[is_known], groups=groups)

    @cached_property
    def has_crowded(self) -> bool:
        """Whether any run was crowded, so that measured times mean little."""
        return any(run.is_crowded for run in self.runs)

    @cached_property
    def has_late_samples(self) -> bool:
        """Whether samples of any run may be those of the function that ran before, mostly.

        On shared cores, ranks begin to run when the kernel ticks, and samples that are not precise
        are taken then (`tests/benchmarks/sample_shift.py`).
        """
        return any(run.is_crowded and not run.is_precise for run in self.runs)

    @cached_property
    def polling(self) -> frozenset[CallPath]:
        """Call paths that make polling calls, or call a function that makes them."""
        calls = [path for path in self.callpaths if path.name.startswith(POLLING)]
        callers = [path.parent for path in calls if path.parent is not None]
        above = [path.parent for path in callers if path.parent is not None]
        return frozenset((*callers, *above))

    def is_sampled(self, path: CallPath) -> bool:
        """Whether samples of processor time are all that is known of a call path.

        Sampled functions have no visits. Ranks that share cores use as much processor time.
        """
        return path in self._sampled

    @property
    def has_samples(self) -> bool:
        """Whether any function was sampled."""
        return bool(self._sampled)

    @cached_property
    def _sampled(self) -> frozenset[CallPath]:
        sampled, counted = set[CallPath](), set[CallPath]()
        for run in self.runs:
            is_sampled = find_sampled_rows(run.table)
            times = run.table.values.get(TIME_EXCLUSIVE.name, np.empty((len(is_sampled), 0)))
            has_time = np.asarray(np.isfinite(times).any(axis=1))
            for path, row in run.rows.items():
                if is_sampled[row]:
                    sampled.add(path)
                elif has_time[row]:
                    counted.add(path)
        return frozenset(sampled - counted)

    def where(self, path: CallPath) -> str | None:
        """`file.py:21` of the function that a call path belongs to; None if it is not known."""
        at: CallPath | None = path
        while at is not None:
            file, line = self.sites.get(at, ("", 0))
            if line > 0 and (at == self.owners.get(at) or not LIBRARY_FILE.search(file)):
                return f"{file.rpartition('/')[2]}:{line}"
            at = at.parent if self.is_library(at) else None
        return None


def is_mpi(path: CallPath) -> bool:
    """Whether a call path ends in a call of MPI."""
    return path.name.startswith(("MPI_", "PMPI_"))


def is_nested(path: CallPath) -> bool:
    """Whether the last frame is a comprehension or a lambda, which belong to what is around."""
    return "<" in path.name and path.name.endswith(">")


def is_library(path: CallPath, sites: Mapping[CallPath, Site]) -> bool:
    """Whether the last frame is not a function of the program, but called by one."""
    file, _ = sites.get(path, ("", 0))
    is_standard = path.name.startswith(("(", "std::"))  # of C++ also without debug information
    is_called = is_mpi(path) or is_nested(path) or is_allocator(path.name)
    return is_called or is_standard or bool(LIBRARY_FILE.search(file))
