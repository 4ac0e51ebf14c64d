"""The diagnosis at the head of a report, as HTML."""

from html import escape

from insitu.analysis.diagnosis.diagnose import MAX_STATEMENTS, Diagnosis
from insitu.analysis.diagnosis.efficiency_table import efficiency_lines
from insitu.analysis.diagnosis.lines import (
    MARKS,
    fine_texts,
    headline,
    machine_line,
    totals_line,
)
from insitu.analysis.diagnosis.statements import Statement
from insitu.text import printable

DIAGNOSIS_STYLE = """
.diagnosis { background: var(--card); padding: 10px 18px; margin: 12px 0; }
.diagnosis .verdict { font-size: 17px; font-weight: 600; } .diagnosis ul { list-style: none;
  margin: 8px 0; padding: 0; } .diagnosis li { display: flex; gap: 8px; margin: 6px 0;
  break-inside: avoid; } .diagnosis .mark { flex: none; width: 1em; font-weight: 700; }
.diagnosis .limit .mark { color: var(--b); } .diagnosis li > div { min-width: 0; overflow-wrap:
  anywhere; } pre.efficiencies { background: var(--card); padding: 8px 18px; margin: 0;
  font-size: 12px; overflow-x: auto; }
@media print { .diagnosis, pre.efficiencies { padding: 0; font-size: 10px; }
  .diagnosis .verdict { font-size: 13px; } .diagnosis li { margin: 3px 0; }
  .diagnosis p { margin: 3px 0; } pre.efficiencies { font-size: 9px; } }
"""


def diagnosis_section(diagnosis: Diagnosis | None) -> str:
    """The verdict, its statements in order, what is fine and what was not judged."""
    if diagnosis is None:
        return ""

    shown = [*diagnosis.statements[:MAX_STATEMENTS], *diagnosis.profile]
    items = "".join(_statement_item(statement) for statement in shown)
    notes = "".join(f'<p class="dim">{_text(note)}</p>' for note in _notes(diagnosis))
    section = (
        f'<section class="diagnosis"><p class="verdict">{_text(headline(diagnosis))}</p>'
        f"<p>{_text(totals_line(diagnosis))}</p><ul>{items}</ul>{notes}</section>"
    )

    tables = "\n".join(map(_text, efficiency_lines(diagnosis.efficiencies)))
    if not tables:
        return section
    return f'{section}<h2>Efficiencies</h2><pre class="efficiencies">{tables}</pre>'


def _statement_item(statement: Statement) -> str:
    name = f" <code>{_text(statement.short_name)}</code>" if statement.callpath else ""
    sure = f"exact, {statement.points}" if statement.exact and statement.points else ""
    facts = " · ".join(filter(None, (sure, statement.where)))
    return (
        f'<li class="{_text(statement.status.replace(" ", "-"))}">'
        f'<span class="mark">{_text(MARKS[statement.status])}</span><div>'
        f"<b>{_text(statement.kind)}</b>{name}: {_text(statement.text)}"
        f' <span class="dim">{_text(facts)}</span></div></li>'
    )


def _notes(diagnosis: Diagnosis) -> list[str]:
    """What is fine, what was not judged and why, start-up, and the assumptions."""
    notes = []
    hidden = len(diagnosis.statements) - MAX_STATEMENTS
    if hidden > 0:
        notes.append(f"and {hidden} more: insitu diagnose --json lists them")
    notes += fine_texts(diagnosis)
    for statement in diagnosis.not_judged:
        name = f"{statement.short_name}: " if statement.callpath else ""
        notes.append(f"~ not judged: {name}{statement.text}")
    if diagnosis.start_up is not None:
        notes.append(f"start-up: {diagnosis.start_up.text}")
    notes += diagnosis.notes
    if diagnosis.next_run is not None:
        notes.append(f"the run that helps most: {diagnosis.next_run}")
    return [*notes, machine_line(diagnosis)]


def _text(text: str) -> str:
    return escape(printable(text), quote=True)
