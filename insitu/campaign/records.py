"""Convert runs to the columns of campaign.db, and back."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from insitu.entities import ARROW, CallPath, Configuration, Finding, RunKey, RunRecord, RunState

if TYPE_CHECKING:  # `insitu run` imports this module at its start and must not wait for numpy
    from insitu.modeling.measurement import RunTable

RUN_COLUMNS = (
    "id, parameters, repetition, state, started_at, ended_at, configuration, exit_status, missing,"
    " findings"
)

TEXTS_KEPT = 256  # parsed texts of each kind in memory


def parameters_text(parameters: Mapping[str, float]) -> str:
    """Parameters as JSON in the order of RunKey, so that equal parameters are equal texts."""
    return key_text(RunKey.of(parameters))


def key_text(key: RunKey) -> str:
    """The parameters of a key as JSON."""
    return json.dumps(key.parameters)


def key_of(parameters: str, repetition: int) -> RunKey:
    """The key from what `key_text` returned."""
    return RunKey(_parameters_of(parameters), repetition)


def complete_ids(runs: Iterable[RunRecord]) -> list[str]:
    """The ids of the complete runs."""
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
    """Findings as JSON."""
    return json.dumps([(finding.code, finding.text, finding.where) for finding in findings])


def with_findings(run: RunRecord, findings: Sequence[Finding], without: str = "") -> RunRecord:
    """The run with more findings, each of them once, and with none of the code `without`."""
    remaining = [finding for finding in run.findings if finding.code != without]
    return replace(run, findings=tuple(dict.fromkeys((*remaining, *findings))))


def run_of(row: tuple[str, str, int, str, float, float, str, str, str, str]) -> RunRecord:
    """The run from its values of RUN_COLUMNS."""
    run_id, parameters, repetition, state, started_at, ended_at, *texts = row
    configuration, exit_status, missing, findings = texts

    return RunRecord(
        id=run_id,
        key=RunKey(_parameters_of(parameters), repetition),
        state=RunState(state),
        started_at=started_at,
        ended_at=ended_at,
        configuration=_configuration_of(configuration),
        exit_status=_numbers_of(exit_status),
        missing=_numbers_of(missing),
        findings=tuple(Finding(code, text, where) for code, text, where in json.loads(findings)),
    )


# Most runs of a campaign have these in common: a campaign of many runs holds each of them once.


@lru_cache(maxsize=TEXTS_KEPT)
def _parameters_of(text: str) -> tuple[tuple[str, float], ...]:
    return tuple((str(name), float(value)) for name, value in json.loads(text))


@lru_cache(maxsize=TEXTS_KEPT)
def _configuration_of(text: str) -> Configuration:
    return Configuration.of(json.loads(text))


@lru_cache(maxsize=TEXTS_KEPT)
def _numbers_of(text: str) -> tuple[int, ...]:
    return tuple(json.loads(text))


def callpath_text(callpath: CallPath) -> str:
    """A call path as it is stored; an arrow inside a frame is replaced, as CallPath.child does."""
    text = ARROW.join(callpath.frames)
    if text.count(ARROW) == len(callpath.frames) - 1:  # none inside a frame
        return text
    return ARROW.join(frame.replace(ARROW, "→") for frame in callpath.frames)


def callpath_of(text: str) -> CallPath:
    """The call path from what `callpath_text` returned; spaces in frames are preserved."""
    return CallPath(tuple(text.split("->")) if text else ())


def check_shapes(run: RunRecord, table: "RunTable") -> None:
    """Check that the arrays of a table fit together.

    Raises:
        ValueError: a metric has no values, an array is not (call paths × ranks), or a call path
            occurs twice.
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
