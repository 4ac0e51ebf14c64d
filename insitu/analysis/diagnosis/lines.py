"""A diagnosis as lines of text, which every view shows alike."""

import textwrap
from collections.abc import Sequence

from insitu.analysis.callpaths import callers_unlike, fitted_name
from insitu.analysis.diagnosis.budget import at_text
from insitu.analysis.diagnosis.diagnose import MAX_STATEMENTS, Diagnosis
from insitu.analysis.diagnosis.efficiency import MODELLED
from insitu.analysis.diagnosis.laws import quantity_text
from insitu.analysis.diagnosis.machine import FILE_CALL_S
from insitu.analysis.diagnosis.statements import (
    FINE,
    LIMIT,
    NOT_JUDGED,
    UNCLEAR,
    WARNING,
    Statement,
)
from insitu.analysis.diagnosis.totals import efficiency_text
from insitu.entities import RANKS, SCALINGS, CallPath, number
from insitu.text import printable
from insitu.units import percent, quantity

MARKS = {LIMIT: "✘", WARNING: "!", UNCLEAR: "?", FINE: "✔", NOT_JUDGED: "~"}
KIND_WIDTH, NAME_WIDTH = 9, 18
LEAST_TEXT = 40  # columns of a sentence, however narrow the terminal is
LAST_LINES = 3  # that `insitu run` prints


def statement_lines(
    statement: Statement, width: int, *, namesakes: Sequence[CallPath] = ()
) -> list[str]:
    """A statement: mark, kind and function, beside them its sentence, certainty and site.

    namesakes: other call paths whose function looks the same; with any, its callers are named.
    """
    points = f"exact, {statement.points}" if statement.exact and statement.points else ""
    details = "  ".join(filter(None, (points, statement.where)))
    label = f"{MARKS[statement.status]} {_label(statement)} "

    indent = " " * len(label)
    columns = max(width - len(label), LEAST_TEXT)
    texts = textwrap.wrap(printable(statement.text), columns, break_on_hyphens=False)
    texts += [printable(details)] if details else []
    path = CallPath.parse(statement.callpath) if statement.callpath else None
    if namesakes and path is not None and path.parent is not None:
        texts.append(printable(f"in {callers_unlike(path, namesakes, columns - len('in '))}"))
    return [(label if i == 0 else indent) + text for i, text in enumerate(texts)]


def _label(statement: Statement) -> str:
    """The kind and the function of a statement, of a fixed width."""
    name = fitted_name(statement.name, NAME_WIDTH)
    return f"{statement.kind:<{KIND_WIDTH}} {name:<{NAME_WIDTH}}"


def statement_line(statement: Statement) -> str:
    """A statement on one line, with its site."""
    where = f"  {statement.where}" if statement.where else ""
    name = f"{statement.short_name}: " if statement.callpath else ""
    mark = MARKS[statement.status]
    return printable(f"{mark} {statement.kind}  {name}{statement.text}{where}")


def headline(diagnosis: Diagnosis) -> str:
    """The verdict, and what was measured."""
    return printable(f"{diagnosis.verdict}; {measured_text(diagnosis)}")


def measured_text(diagnosis: Diagnosis) -> str:
    """What was measured: `measured: 2 to 12 ranks, 6 runs`."""
    p, runs, axis = diagnosis.p, len(diagnosis.runs), diagnosis.axis
    scales = (
        f"{number(p[0])} to {number(p[-1])} ranks"
        if len(p) > 1
        else f"{number(p[0])} rank{'s' * (p[0] != 1)}"
    )
    if axis is not None:
        values = f"{axis.text(float(axis.measurements.p[0]))} to {number(axis.largest)}"
        scales = f"{values} on {scales}" if axis.has_ranks else values
    return f"measured: {scales}, {runs} run{'s' * (runs != 1)}"


def totals_line(diagnosis: Diagnosis) -> str:
    """Run time, speed-up, scaling efficiency, POP's efficiencies, and where it stops paying."""
    totals = diagnosis.totals
    texts = []
    if totals.time is not None:
        shared = ", ranks lacked cores" if totals.is_crowded else ""
        time = quantity(totals.time.value, "s")
        texts.append(f"run time {time} at {_at_run(diagnosis)} (without start-up{shared})")

    efficiency = efficiency_text(totals)
    if efficiency and not totals.is_crowded:
        texts.append(efficiency)
    texts += _parallel_texts(diagnosis)
    predicted = totals.predicted
    if predicted is not None:
        seconds, share = predicted.time, predicted.efficiency
        ends = dict.fromkeys(quantity(value, "s") for value in (seconds.low, seconds.high))
        text = f"predicted: {' to '.join(ends)}"
        if share is not None:
            text += f", scaling efficiency {percent(share.low)} to {percent(share.high)}"
        texts.append(f"{text} at {_at_ranks(diagnosis, predicted.p)}")
    if totals.efficiency_then is not None and diagnosis.statements:
        target = at_text(RANKS, diagnosis.target)
        texts.append(f"scaling efficiency at most {percent(totals.efficiency_then)} at {target}")
    if totals.stops_paying_at is not None:
        ranks = f"{totals.stops_paying_at:,.0f}"
        texts.append(f"beyond {ranks} ranks each further rank costs more than it saves")

    return "; ".join(texts)


def _at_run(diagnosis: Diagnosis) -> str:
    """The run whose time is known: `p = 4`, or `nodes = 64` where nobody counted ranks."""
    axis, p = diagnosis.axis, diagnosis.totals.p
    if axis is None or axis.has_ranks:
        return _at_ranks(diagnosis, p)
    return ", ".join(at_text(name, value) for name, value in diagnosis.fixed)


def _at_ranks(diagnosis: Diagnosis, p: float) -> str:
    """`p = 64`, with the values of other parameters that the runs have: `p = 64, n = 800`."""
    others = [] if diagnosis.axis is not None else diagnosis.fixed
    return ", ".join(at_text(name, value) for name, value in ((RANKS, p), *others))


def _parallel_texts(diagnosis: Diagnosis) -> list[str]:
    """`parallel efficiency 71 % (load balance 80 %, communication 89 %) at p = 4`, if known."""
    if not diagnosis.efficiencies:
        return []
    last = diagnosis.efficiencies[0].scales[-1]
    shares = [percent(last.factors[name].value) for name in MODELLED]
    return [
        f"parallel efficiency {shares[0]} (load balance {shares[1]}, communication {shares[2]}) at"
        f" {at_text(RANKS, last.p)}"
    ]


def machine_line(diagnosis: Diagnosis) -> str:
    """The assumptions about the target."""
    machine = diagnosis.machine
    assumed = "assumed" if not machine.given else "with the given machine"
    scaling = f"{diagnosis.scaling} scaling"
    if diagnosis.is_scaling_given:
        scaling += " as given"
    elif diagnosis.scaling not in SCALINGS and len(diagnosis.p) > 1:
        scaling += " (give it by --scaling)"
    elif diagnosis.scaling == "weak":
        scaling += " (else --scaling strong)"  # work that all ranks repeat looks the same
    has_files = any(entry.kind == "files" for entry in diagnosis.statements)
    of_files = f" {quantity(FILE_CALL_S, 's')} to open a file," if has_files else ""
    return (
        f"{assumed}: {quantity(machine.latency_s, 's')} per message,{of_files}"
        f" {quantity_text(machine.bandwidth, 'B')}/s and"
        f" {quantity_text(machine.memory_bytes, 'B')} per rank, {scaling}"
    )


def diagnosis_lines(diagnosis: Diagnosis, width: int = 100) -> list[str]:
    """The whole diagnosis as lines of at most `width` columns."""
    lines = []
    for text in (headline(diagnosis), totals_line(diagnosis), machine_line(diagnosis)):
        lines += _fold(text, width)
    lines.append("")

    shown = diagnosis.statements[:MAX_STATEMENTS]
    functions: dict[str, set[str]] = {}
    for statement in (*shown, *diagnosis.profile):
        functions.setdefault(_label(statement), set()).add(statement.callpath or "")
    for statement in (*shown, *diagnosis.profile):
        others = sorted(functions[_label(statement)] - {statement.callpath or "", ""})
        namesakes = [CallPath.parse(path) for path in others]
        lines += statement_lines(statement, width, namesakes=namesakes)
    hidden = len(diagnosis.statements) - len(shown)
    if hidden:
        lines.append(f"  and {hidden} more; --json lists what they cost")

    for text in fine_texts(diagnosis):
        lines += _fold(text, width)
    for statement in diagnosis.not_judged:
        lines += _fold(f"~ not judged: {_unjudged_text(statement)}", width)
    if diagnosis.start_up is not None:
        lines += _fold(f"  start-up: {diagnosis.start_up.text}", width)
    for note in diagnosis.notes:
        lines += _fold(f"  {note}", width)
    if diagnosis.next_run is not None:
        lines += _fold(f"  the run that helps most: {diagnosis.next_run}", width)
    return lines


def fine_texts(diagnosis: Diagnosis) -> list[str]:
    """What is fine, and why: `✔ main, solve: no growth with p that matters`."""
    names: dict[str, dict[str, None]] = {}
    for entry in diagnosis.fine:
        names.setdefault(entry.text, {})[entry.short_name] = None
    return [f"✔ {', '.join(of_text)}: {text}" for text, of_text in names.items()]


def _fold(text: str, width: int) -> list[str]:
    return textwrap.wrap(printable(text), width, subsequent_indent="  ", break_on_hyphens=False)


def _unjudged_text(statement: Statement) -> str:
    name = f"{statement.short_name}: " if statement.callpath else ""
    return printable(f"{name}{statement.text}")


def last_lines(diagnosis: Diagnosis) -> list[str]:
    """What `insitu run` prints at its end: the verdict and the most important statements."""
    lines = map(statement_line, (*diagnosis.statements, *diagnosis.profile))
    different = list(dict.fromkeys(lines))  # two call paths of one function may have the same
    return [headline(diagnosis), *different[: LAST_LINES - 1]]
