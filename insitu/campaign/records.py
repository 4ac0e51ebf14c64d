"""Runs as the columns of campaign.db, and back."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from insitu.entities import CallPath, Configuration, Finding, RunKey, RunRecord, RunState

if TYPE_CHECKING:  # who starts a run reads records, and does not wait for numpy
    from insitu.modeling.measurement import RunTable

RUN_COLUMNS = (
    "id, parameters, repetition, state, started_at, ended_at, configuration, exit_status, missing,"
    " findings"
)


def parameters_text(parameters: Mapping[str, float]) -> str:
    """Parameters as they are compared in the file: JSON in the order of RunKey."""
    return key_text(RunKey.of(parameters))


def key_text(key: RunKey) -> str:
    """The parameters of a key as JSON."""
    return json.dumps(key.parameters)


def key_of(parameters: str, repetition: int) -> RunKey:
    """The key that `key_text` wrote."""
    return RunKey(
        tuple((str(name), float(value)) for name, value in json.loads(parameters)), repetition
    )


def sealed(runs: Iterable[RunRecord]) -> list[str]:
    """The ids of the runs that are modelled."""
    return [run.id for run in runs if run.state is RunState.COMPLETE]


def run_row(run: RunRecord) -> tuple[object, ...]:
    """The values of RUN_COLUMNS."""
    return (
        run.id,
        key_text(run.key),
        run.key.repetition,
        run.state.value,
        run.started_at,
        run.ended_at,
        run.configuration.to_json(),
        json.dumps(run.exit_status),
        json.dumps(run.missing),
        findings_text(run.findings),
    )


def findings_text(findings: Iterable[Finding]) -> str:
    """What is kept of findings."""
    return json.dumps([(finding.code, finding.text, finding.where) for finding in findings])


def noted(run: RunRecord, findings: Sequence[Finding], without: str = "") -> RunRecord:
    """The run with more findings, and none of the code `without`; none is said twice."""
    kept = (one for one in run.findings if one.code != without)
    return replace(run, findings=tuple(dict.fromkeys((*kept, *findings))))


def run_of(row: tuple[str, str, int, str, float, float, str, str, str, str]) -> RunRecord:
    """The run that `run_row` wrote."""
    (
        identity,
        parameters,
        repetition,
        state,
        started,
        ended,
        configuration,
        status,
        missing,
        found,
    ) = row
    return RunRecord(
        id=identity,
        key=key_of(parameters, repetition),
        state=RunState(state),
        started_at=started,
        ended_at=ended,
        configuration=Configuration.of(json.loads(configuration)),
        exit_status=tuple(json.loads(status)),
        missing=tuple(json.loads(missing)),
        findings=tuple(Finding(*parts) for parts in json.loads(found)),
    )


def callpath_text(callpath: CallPath) -> str:
    """A call path as it is kept; an arrow inside a frame is written as CallPath.child does."""
    return str(CallPath(tuple(frame.replace("->", "→") for frame in callpath.frames)))


def callpath_of(text: str) -> CallPath:
    """The call path that `callpath_text` wrote, blanks in its frames kept."""
    return CallPath(tuple(text.split("->")) if text else ())


def check_shapes(run: RunRecord, table: "RunTable") -> None:
    """Refuse a table whose arrays do not fit together.

    Raises:
        ValueError: a metric without values, or an array that is not (call paths × ranks).
    """
    if {metric.name for metric in table.metrics} != set(table.values):
        raise ValueError(f"run {run.key}: metrics and values have different names")
    for name, values in table.values.items():
        if values.shape != (len(table.callpaths), table.size):
            raise ValueError(
                f"run {run.key}: {name} has shape {values.shape}, not"
                f" {(len(table.callpaths), table.size)} (call paths × ranks)"
            )
    if len(set(table.callpaths)) != len(table.callpaths):
        raise ValueError(f"run {run.key}: a call path occurs twice")
