"""A diagnosis as lines of JSON."""

from insitu.analysis.diagnosis.diagnose import Diagnosis
from insitu.analysis.diagnosis.statements import Statement


def summary_row(diagnosis: Diagnosis) -> dict[str, object]:
    """The first line of `insitu diagnose --json`."""
    return {
        "kind": "summary",
        "program": diagnosis.program,
        "verdict": diagnosis.verdict,
        "target": dict(diagnosis.target_values),
        "machine": diagnosis.machine.to_dict(),
        "scaling": diagnosis.scaling,
        "is_scaling_given": diagnosis.is_scaling_given,
        "runs": list(diagnosis.runs),
        "totals": diagnosis.totals.to_dict(),
        "limits": len(diagnosis.limits),
        "next_run": diagnosis.next_run,
    }


def statement_row(rank: int, statement: Statement) -> dict[str, object]:
    """A further line of `insitu diagnose --json`."""
    return {
        "rank": rank,
        "kind": statement.kind,
        "callpath": statement.callpath,
        "where": statement.where,
        "inlined": statement.inlined or None,
        "ranks": statement.ranks,
        "status": statement.status,
        "metric": statement.metric,
        "law": statement.law,
        "exact": statement.exact,
        "points": statement.points,
        "breaks_at": statement.breaks_at,
        "now": statement.now,
        "then": statement.then,
        "low": statement.low,
        "high": statement.high,
        "unit": statement.unit,
        "seconds": statement.seconds,
        "severity": statement.severity,
        "text": statement.text,
        "also": list(statement.also),
        "causes": [
            {"callpath": cause.callpath, "share": cause.share, "ranks": list(cause.ranks)}
            for cause in statement.causes
        ],
        "run": statement.run,
    }
