"""What holds of every diagnosis, whatever the program does."""

import math
from collections.abc import Mapping

from insitu.analysis.diagnosis.diagnose import Diagnosis
from insitu.analysis.diagnosis.packages import Site
from insitu.analysis.diagnosis.statements import (
    FINE,
    LIMIT,
    NOT_JUDGED,
    UNCLEAR,
    WARNING,
    Statement,
)
from insitu.analysis.finding_help import STATEMENT_HELP
from insitu.entities import METRICS, CallPath

UNITS = {metric.name: metric.unit for metric in METRICS}


def find_faults(diagnosis: Diagnosis, sites: Mapping[CallPath, Site]) -> list[str]:
    """What is wrong with the statements of a diagnosis."""
    return [
        f"{fault}: {entry}"
        for entry in diagnosis.all_statements()
        for fault in _faults_of(entry, sites)
    ]


def _faults_of(entry: Statement, sites: Mapping[CallPath, Site]) -> list[str]:
    is_said = entry.status in (LIMIT, WARNING, UNCLEAR)
    is_about_a_function = is_said and bool(entry.callpath)
    numbers = (entry.now, entry.then, entry.low, entry.high, entry.seconds, entry.severity)
    known = [number for number in numbers if number is not None]
    _, line = sites.get(CallPath.parse(entry.callpath or ""), ("", 0))
    checks = {
        "an unknown status": entry.status in (LIMIT, WARNING, UNCLEAR, FINE, NOT_JUDGED),
        "no help": not is_said or entry.kind in STATEMENT_HELP,
        "no text": bool(entry.text),
        "no line": not line or entry.where is not None,
        "no ranks": not is_about_a_function or entry.ranks is not None,
        "no metric": not is_about_a_function or entry.metric is not None,
        "no unit": entry.now is None or entry.unit is not None,
        "another unit": UNITS.get(entry.metric or "", entry.unit) == entry.unit or not entry.unit,
        "no severity": not is_about_a_function or entry.severity > 0 or entry.status == UNCLEAR,
        "a number that is none": all(map(math.isfinite, known)),
        "a negative number": min(known, default=0.0) >= 0,
        "bounds in another order": (entry.low or 0.0) <= (entry.high or math.inf),
        "a limit within its budget": entry.status != LIMIT or entry.severity >= 1,
        "a limit that never breaks": entry.status != LIMIT
        or entry.breaks_at is not None
        or not entry.exact,
        "another run": ": run p = " not in entry.text or f": run {entry.run}" in entry.text,
        "an exact law without points": not entry.exact or bool(entry.law and entry.points),
    }
    return [fault for fault, is_right in checks.items() if not is_right]
