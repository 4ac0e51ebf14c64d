"""What a campaign stores about a run besides its values, as JSON: an export can be imported whole.

{"run": "4f1c…", "params": {"p": 64}, "repetition": 0, "state": "sealed", "size": 64,
 "started_at": 1.8e9, "ended_at": 1.8e9, "configuration": {"command": "./heat"},
 "exit_status": [0, …], "missing": [], "findings": [[code, text, where], …],
 "callpaths": ["main", …], "metrics": [["time", "s", "counter"], …],
 "sites": {"main": ["heat.py", 12], …}}

Each site, where a function is defined, is in the first run that has its call path.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from insitu.entities import (
    CallPath,
    Configuration,
    Finding,
    Metric,
    MetricKind,
    RunKey,
    RunRecord,
    RunState,
)
from insitu.modeling.measurement import RunTable

MAX_RANKS = 4_000_000
BROKEN = (ValueError, TypeError, AttributeError, LookupError, OverflowError)


@dataclass(frozen=True, slots=True)
class RunDescription:
    """A run without its values.

    callpaths, metrics: in their order. size: the number of ranks. sites: file and line of the
    function of a call path.
    """

    record: RunRecord
    callpaths: tuple[CallPath, ...]
    metrics: tuple[Metric, ...]
    size: int
    sites: Mapping[CallPath, tuple[str, int]] = field(default_factory=dict)


def describe_run(record: RunRecord, table: RunTable) -> dict[str, Any]:  # Any: JSON
    """Return a run without its values, as JSON."""
    return {
        "run": record.id,
        "params": dict(record.key.parameters),
        "repetition": record.key.repetition,
        "state": record.state.value,
        "size": table.size,
        "started_at": record.started_at,
        "ended_at": record.ended_at,
        "configuration": dict(record.configuration.values),
        "exit_status": list(record.exit_status),
        "missing": list(record.missing),
        "findings": [[item.code, item.text, item.where] for item in record.findings],
        "callpaths": [str(path) for path in table.callpaths],
        "metrics": [[metric.name, metric.unit, metric.kind.value] for metric in table.metrics],
        "sites": {str(path): list(site) for path, site in table.sites.items()},
    }


def parse_run(data: Mapping[str, Any]) -> RunDescription:  # Any: JSON
    """Read what `describe_run` returned.

    Raises:
        ValueError: a value is missing or makes no sense.
    """
    try:
        size = int(data["size"])
        parameters = {str(name): float(value) for name, value in data["params"].items()}
        record = RunRecord(
            id=str(data["run"]),
            key=RunKey.of(parameters, int(data["repetition"])),
            state=RunState(data["state"]),
            started_at=float(data["started_at"]),
            ended_at=float(data["ended_at"]),
            configuration=Configuration.of(data["configuration"]),
            exit_status=tuple(map(int, data["exit_status"])),
            missing=tuple(map(int, data["missing"])),
            findings=tuple(Finding(*map(str, item)) for item in data["findings"]),
        )
        callpaths = tuple(map(CallPath.parse, data["callpaths"]))
        metrics = tuple(Metric(str(n), str(u), MetricKind(k)) for n, u, k in data["metrics"])
        sites = {}
        for text, (file, line) in data.get("sites", {}).items():  # absent in earlier exports
            sites[CallPath.parse(text)] = (str(file), int(line))
    except BROKEN as error:
        raise ValueError(f"describes no run: {type(error).__name__}: {error!s:.80}") from error

    if not record.id or not 0 <= size <= MAX_RANKS or len(set(callpaths)) < len(callpaths):
        raise ValueError("describes no run: its id, number of ranks or call paths make no sense")
    return RunDescription(record, callpaths, metrics, size, sites)
