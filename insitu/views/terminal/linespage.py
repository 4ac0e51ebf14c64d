"""Scrollable screens: all runs with the state of every rank, and all findings."""

import time
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import Footer, Static

from insitu.analysis.board import ENDED, FAILED, LOST, MEASURING, SILENT, RunRow
from insitu.analysis.diagnosis.efficiency_table import efficiency_lines
from insitu.analysis.diagnosis.lines import diagnosis_lines
from insitu.analysis.progress import Agenda
from insitu.text import printable
from insitu.views.terminal.listing import STATE_STYLES, group_findings
from insitu.views.terminal.view import View, make_title
from insitu.views.text import (
    SIGNS,
    describe_agenda,
    describe_failures,
    describe_first_run,
    describe_ranks,
    describe_run,
    describe_state,
    format_duration,
)

RANK_STYLES = {MEASURING: "cyan", SILENT: "yellow", ENDED: "green", FAILED: "red", LOST: "bold red"}


MAX_LINE = 120  # columns of a sentence: longer lines are hard to read
STATEMENT_STYLES = {"✘": "bold red", "!": "yellow", "✔": "green", "~": "dim"}
KEYS = (
    ("d", "diagnosis: what will limit the program on more ranks"),
    ("↑ ↓", "select a call path"),
    ("enter", "open the model of the selected call path"),
    ("/", "search call paths: a text, or a pattern with * and ?"),
    ("s", "sort by the next column, or click on its title"),
    ("m", "show the next metric"),
    ("c", "show the next behaviour class"),
    ("p", "predictions at another scale; ← → move the target, PgUp PgDn by 2"),
    ("r", "runs with the state of every rank"),
    ("f", "all findings"),
    ("escape", "return"),
    ("q", "quit"),
)
TABLE_SIGNS = (
    ("▲ ▼", "the run in progress is above or below its forecast"),
    ("share", "share of the cost, measured; ahead: predicted"),
    ("growth", "predicted cost in multiples of the cost now"),
)


class LinesPage(View):
    """A screen of lines that can be scrolled."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,backspace", "back", "back")]

    def compose(self) -> ComposeResult:
        """The widgets of the screen."""
        yield Static(id="title")
        with VerticalScroll(id="all"):
            yield Static(id="lines")
        yield Static(id="trust")
        yield Footer()

    def on_mount(self) -> None:
        """Focus the scrollable part."""
        self.query_one("#all").focus()
        self.draw()

    def fill(self, facts: str, lines: list[Text], legend: Text) -> None:
        """Draw a title, the lines and a legend."""
        self.set_text("title", make_title(self.shown, facts, self.size.width))
        self.set_text("lines", Text("\n").join(lines))
        self.set_text("trust", legend)


class RunsPage(LinesPage):
    """All runs, with a sign for each rank."""

    def draw(self) -> None:
        """Draw everything."""
        if not self.is_up:
            return
        runs = self.shown.board.runs
        facts = [f"{len(runs)} run{'s' * (len(runs) != 1)}", *describe_agenda(self.shown.agenda)]
        width = max(self.size.width - 4, 10)
        lines: list[Text] = []
        for run in runs:
            lines += _run_lines(run, width)
        nothing = printable(describe_first_run(self.shown.campaign, self.shown.agenda))
        lines = lines or [Text(nothing, "dim"), Text("")]
        self.fill(" · ".join(facts), [*lines, *_plan(self.shown.agenda)], _legend())


class DiagnosisPage(LinesPage):
    """What will limit the program on more ranks."""

    def draw(self) -> None:
        """Draw everything."""
        if not self.is_up:
            return
        diagnosis = self.shown.diagnosis
        if diagnosis is not None:
            width = min(self.size.width - 4, MAX_LINE)
            lines = [_diagnosis_line(line) for line in diagnosis_lines(diagnosis, width)]
            tables = efficiency_lines(diagnosis.efficiencies)
            lines += [Text(line) for line in ["", *tables]] if tables else []
        elif self.shown.is_diagnosing:
            lines = [Text("reading all runs …", "dim")]
        else:
            lines = [Text("no complete run yet: the diagnosis follows the first one", "dim")]
        hint = "escape: call paths   ?: keys"
        self.fill("diagnosis", lines, Text(hint, "dim"))


def _diagnosis_line(line: str) -> Text:
    return Text(line, STATEMENT_STYLES.get(line[:1], ""))


class HelpPage(LinesPage):
    """The keys, and the signs of the tables."""

    def draw(self) -> None:
        """Draw everything."""
        if not self.is_up:
            return
        lines = []
        for key, meaning in KEYS:
            lines.append(Text.assemble((f"{key:>10}  ", "bold"), meaning))
        lines.append(Text(""))
        for sign, meaning in TABLE_SIGNS:
            lines.append(Text.assemble((f"{sign:>10}  ", "bold"), meaning))
        self.fill("help", lines, Text("escape returns", "dim"))


class FindingsPage(LinesPage):
    """All findings in full, grouped by code."""

    def draw(self) -> None:
        """Draw everything."""
        if not self.is_up:
            return
        findings = self.shown.board.findings
        facts = f"{len(findings)} finding{'s' * (len(findings) != 1)}"
        hint = Text("insitu explain CODE: what a finding means and what to do", "dim")
        lines = group_findings(findings, min(self.size.width - 4, MAX_LINE))
        self.fill(facts, lines, hint)


def _run_lines(run: RunRow, width: int) -> list[Text]:
    """Name and state of a run, then its ranks in order."""
    took = run.ended_at - run.started_at if run.ended_at and run.started_at else 0.0
    words = (
        f"{describe_ranks(run)}  {format_duration(took)}"
        if took > 0
        else describe_run(run, time.time())
    )
    head = Text.assemble(
        (f"{printable(run.name)}  ", "bold"),
        (describe_state(run), STATE_STYLES.get(run.state, "")),
        printable(f"  {words}"),
    )
    signs = Text()
    for state, n_ranks in run.ranks:
        signs.append(SIGNS.get(state, "·") * n_ranks, RANK_STYLES.get(state, "dim"))

    lines = [head, *_wrap(signs, width)]
    failures = describe_failures(run)
    if failures:
        lines.append(Text(failures, "red"))
    if run.command:
        lines.append(Text(printable(_origin(run)), "dim", overflow="ellipsis", no_wrap=True))

    return [*lines, Text("")]


def _origin(run: RunRow) -> str:
    """When and where a run was made, and its command."""
    started = time.strftime("%Y-%m-%d %H:%M", time.localtime(run.started_at))
    host = f" on {run.host}" if run.host else ""
    return f"{started}{host}: {run.command}"


def _plan(agenda: Agenda | None) -> list[Text]:
    """The runs that campaign.toml plans, and how many have been made."""
    if agenda is None or not agenda.lines:
        return []

    lines = [Text("planned in campaign.toml", "bold")]
    for progress in agenda.lines:
        failed = _failures(progress.failed)
        text = f"{progress.point}: {progress.done} of {progress.wanted} runs{failed}"
        lines.append(Text(printable(text)))
    return lines


def _failures(times: int) -> str:
    return f", failed {times} time{'s' * (times != 1)}" if times else ""


def _wrap(signs: Text, width: int) -> list[Text]:
    """Split the signs into lines of `width` ranks."""
    return [signs[start : start + width] for start in range(0, len(signs), width)]


def _legend() -> Text:
    text = Text(no_wrap=True)
    for state, sign in SIGNS.items():
        text.append(f"{sign} ", RANK_STYLES.get(state, "dim"))
        text.append(f"{state}  ")
    return text
