"""The diagnosis of a campaign as JSON for the page."""

from typing import Any

from insitu.analysis.diagnosis.diagnose import MAX_STATEMENTS, Diagnosis
from insitu.analysis.diagnosis.efficiency_table import make_tables
from insitu.analysis.diagnosis.lines import fine_texts, machine_line, measured_text, totals_line
from insitu.analysis.diagnosis.statements import Statement

Json = dict[str, Any]  # Any: JSON


def diagnosis_json(diagnosis: Diagnosis | None) -> Json:
    """What the page shows of a diagnosis; empty without a complete run."""
    if diagnosis is None:
        return {}

    shown = diagnosis.statements[:MAX_STATEMENTS]
    return {
        "verdict": diagnosis.verdict,
        "measured": measured_text(diagnosis),
        "totals": totals_line(diagnosis),
        "machine": machine_line(diagnosis),
        "statements": [_statement_json(statement) for statement in shown],
        "hidden": len(diagnosis.statements) - len(shown),
        "profile": [_statement_json(statement) for statement in diagnosis.profile],
        "fine": fine_texts(diagnosis),
        "not_judged": [
            {"name": statement.short_name, "text": statement.text}
            for statement in diagnosis.not_judged
        ],
        "start_up": "" if diagnosis.start_up is None else diagnosis.start_up.text,
        "notes": list(diagnosis.notes),
        "next_run": diagnosis.next_run or "",
        "efficiencies": [
            {"name": table.name, "heads": table.heads, "rows": table.rows}
            for table in make_tables(diagnosis.efficiencies)
        ],
    }


def _statement_json(statement: Statement) -> Json:
    return {
        "status": statement.status,
        "kind": statement.kind,
        "text": statement.text,
        "callpath": statement.callpath,
        "where": statement.where,
        "ranks": statement.ranks,
        "metric": statement.metric,
        "law": statement.law,
        "exact": statement.exact,
        "points": statement.points,
        "breaks_at": statement.breaks_at,
    }
