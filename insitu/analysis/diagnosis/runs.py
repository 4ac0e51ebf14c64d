"""Statements about runs: failed, crowded and disturbed ones, and functions that were throttled."""

import re
from collections.abc import Iterator, Sequence

import numpy as np

from insitu.analysis.diagnosis.measurements import Measurements
from insitu.analysis.diagnosis.statements import NOT_JUDGED, WARNING, Statement
from insitu.campaign.selection import is_omitted
from insitu.entities import (
    RANK_SIGNAL,
    TIME_EXCLUSIVE,
    VISITS,
    CallPath,
    RunRecord,
    RunState,
    is_start_up,
)
from insitu.modeling.measurement import FloatArray
from insitu.modeling.run_effects import find_disturbed_runs
from insitu.text import describe_end
from insitu.units import percent

SHOWN_RANKS = 2  # failed ranks that a statement names
SHOWN_FAILED = 4  # runs
SHOWN_THROTTLED = 3
THROTTLED = re.compile(r"(?:^|, )(\S.*?) \(\d+ visits\)")  # in the text of the finding
LEAST_TIME_S = 1e-3  # of a call path in a run; shorter times are noise


def find_failed_runs(records: Sequence[RunRecord]) -> list[Statement]:
    """Runs that were killed, aborted or crashed, and those that ended with an error."""
    return [*_find_incomplete(records), *_find_errors(records)]


def describe_failures(program: str, records: Sequence[RunRecord]) -> str:
    """The first line where every run that is used ended with an error; "" where one did not."""
    kept = [run for run in records if not is_omitted(run)]
    runs = [run for run in kept if run.state is RunState.COMPLETE]
    if not runs or not all(run.errors for run in runs):
        return ""
    ends = " and ".join(dict.fromkeys(describe_end(run.errors[0][1]) for run in runs))
    n_incomplete = sum(run.state is RunState.INCOMPLETE for run in kept)
    others = f", {n_incomplete} lack{'s' * (n_incomplete == 1)} ranks" if n_incomplete else ""
    return f"{program}: no run completed: {len(runs)} ended with {ends}{others}"


def _find_errors(records: Sequence[RunRecord]) -> Iterator[Statement]:
    """Complete runs that ended with an error, so that their values may be those of a part."""
    failed = [
        record
        for record in records
        if record.state is RunState.COMPLETE and record.errors and not is_omitted(record)
    ]
    if failed:
        names = ", ".join(str(record.key) for record in failed[:SHOWN_FAILED])
        more = " …" if len(failed) > SHOWN_FAILED else ""
        ends = " and ".join(dict.fromkeys(describe_end(run.errors[0][1]) for run in failed))
        yield Statement(
            kind="run",
            status=WARNING,
            text=f"{len(failed)} of {len(records)} runs ended with {ends} ({names}{more}): if the"
            " program failed, leave them out with `insitu omit`",
        )


def _find_incomplete(records: Sequence[RunRecord]) -> list[Statement]:
    """Runs that were killed, aborted or crashed, with their ranks and signals.

    A run that was killed as a whole, as by a time limit, is left out once it was repeated.
    """
    statements = []
    completed: dict[tuple[tuple[str, float], ...], float] = {}
    for record in records:
        if record.state is RunState.COMPLETE:
            newest = max(record.started_at, completed.get(record.key.parameters, 0.0))
            completed[record.key.parameters] = newest
    for record in records:
        if record.state is not RunState.INCOMPLETE or is_omitted(record):
            continue
        is_repeated = completed.get(record.key.parameters, -1.0) > record.started_at
        if is_repeated and not record.errors:
            continue
        about_ranks = [finding for finding in record.findings if finding.code.startswith("rank-")]
        about_ranks.sort(key=lambda finding: finding.code != RANK_SIGNAL)  # the signal first
        causes = [finding.text for finding in about_ranks]
        failed = [
            f"rank {rank} ended with {describe_end(status)}" for rank, status in record.errors
        ]
        cause = "; ".join([*failed[:SHOWN_RANKS], *causes[:1]]) or "no cause is known"
        statements.append(
            Statement(
                kind="run",
                status=WARNING,
                text=f"run {record.key} is incomplete and not used: {cause}",
                ranks=", ".join(map(str, record.missing[:8])) or None,
            )
        )

    return statements


def find_disturbed(measurements: Measurements) -> Iterator[Statement]:
    """Runs that were slower or faster than their repetitions by one factor in all call paths.

    Only runs that had a core for each rank are judged. `find_disturbed_runs` has the conditions.
    """
    groups = [group for group in measurements.groups if not group[0].is_oversubscribed]
    if not groups or TIME_EXCLUSIVE.name not in measurements.metrics:
        return

    paths = [path for path in measurements.callpaths if not is_start_up(path)]
    most = max(len(group) for group in groups)
    times: FloatArray = np.full((len(paths), len(groups), most), np.nan)
    for c, group in enumerate(groups):
        for r, run in enumerate(group):
            for i, path in enumerate(paths):
                times[i, c, r] = run.vector(path, TIME_EXCLUSIVE.name).mean()

    is_long = np.nanmin(times, axis=(1, 2)) > LEAST_TIME_S
    for effect in find_disturbed_runs(times[is_long]):
        run = groups[effect.coordinate][effect.repetition]
        factor = effect.factor if effect.factor > 1 else 1 / effect.factor
        direction = "slower" if effect.factor > 1 else "faster"
        yield Statement(
            kind="run",
            status=WARNING,
            text=f"run {run.key} was disturbed: {factor:.2g} times {direction} than its"
            f" repetitions in {effect.series} of {effect.total} call paths; repeat it, or leave it"
            " out with `insitu omit`",
            ranks="all",
            metric=TIME_EXCLUSIVE.name,
            unit="s",
            now=effect.factor,
        )


def find_throttled(
    measurements: Measurements, records: Sequence[RunRecord]
) -> dict[CallPath, Statement]:
    """Functions of the program that were called too often to be timed, by call path.

    Their visits are unknown and their time counts as that of their callers, so that nothing is
    known about their growth.
    """
    names: set[str] = set()
    for record in records:
        for finding in record.findings:
            if finding.code == "throttled":
                names.update(THROTTLED.findall(finding.text.partition(" from then on: ")[2]))

    statements = {}
    for path in sorted(measurements.sites):
        if path.name not in names or measurements.is_library(path):
            continue
        names.discard(path.name)
        statements[path] = Statement(
            kind="compute",
            status=NOT_JUDGED,
            text=f"{path.name} is called too often to be timed within the budget, so that its"
            " visits are unknown: run all scales with --budget off",
            callpath=str(path),
            where=measurements.where(path),
            ranks="all",
            metric=VISITS.name,
            unit="1",
            run="all scales with --budget off",
        )
        if len(statements) == SHOWN_THROTTLED:
            break

    return statements


def unjudged_times(measurements: Measurements) -> list[Statement]:
    """Which runs were crowded: by more ranks or threads than cores, or by other processes.

    Where the other runs suffice, times are judged without these.
    """
    statements, n_runs = [], len(measurements.runs)
    are_others_judged = measurements.for_times is not measurements
    crowded = [run for run in measurements.runs if run.is_oversubscribed]
    if crowded:
        worst = max(run.key.size for run in crowded)
        subject = f"{len(crowded)} of {n_runs} runs"
        had = f"times of {subject}, which had" if are_others_judged else f"times: {subject} had"
        threads = max(run.threads for run in crowded)
        what = "ranks" if threads == 1 else f"ranks, or threads ({threads} of a rank),"
        statements.append(
            Statement(
                kind="time",
                status=NOT_JUDGED,
                text=f"{had} more {what} than cores, up to {worst} rank{'s' * (worst != 1)}",
                run="up to as many ranks as there are cores",
            )
        )
    delayed = [run for run in measurements.runs if run.is_crowded and not run.is_oversubscribed]
    if delayed:
        share = max(run.queued_share for run in delayed)
        subject = f"{len(delayed)} of {n_runs} runs"
        where = f"times of {subject}, in which" if are_others_judged else f"times: in {subject},"
        statements.append(
            Statement(
                kind="time",
                status=NOT_JUDGED,
                text=f"{where} other processes used the cores: ranks waited for a processor for up"
                f" to {percent(share)} of their time",
                run="on cores of their own",
            )
        )
    return statements
