"""Screens of lines: all runs with the state of every rank, and all findings."""

import time
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import Footer, Static

from insitu.analysis.board import ENDED, FAILED, LOST, MEASURING, SILENT, RunRow
from insitu.analysis.progress import Agenda
from insitu.text import printable
from insitu.views.terminal.listing import STATES, findings_text
from insitu.views.terminal.view import View, title_of
from insitu.views.text import (
    SIGNS,
    describe_agenda,
    describe_first_run,
    describe_ranks,
    describe_run,
    format_duration,
)

STYLES = {MEASURING: "cyan", SILENT: "yellow", ENDED: "green", FAILED: "red", LOST: "bold red"}


class LinesPage(View):
    """Lines that can be scrolled."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,backspace", "back", "back")]

    def compose(self) -> ComposeResult:
        """The parts of the screen."""
        yield Static(id="title")
        with VerticalScroll(id="all"):
            yield Static(id="lines")
        yield Static(id="trust")
        yield Footer()

    def on_mount(self) -> None:
        """Begin where it can be scrolled."""
        self.query_one("#all").focus()
        self.draw()

    def fill(self, facts: str, lines: list[Text], legend: Text) -> None:
        """Draw them below a title and above a legend."""
        self.tell("title", title_of(self.shown, facts, self.size.width))
        self.tell("lines", Text("\n").join(lines))
        self.tell("trust", legend)


class RunsPage(LinesPage):
    """Every run with a sign for every rank."""

    def draw(self) -> None:
        """Draw everything."""
        if not self.is_up:
            return
        runs = self.shown.board.runs
        facts = [f"{len(runs)} run{'s' * (len(runs) != 1)}", *describe_agenda(self.shown.agenda)]
        width = max(self.size.width - 4, 10)
        lines = [line for run in runs for line in _lines(run, width)]
        nothing = printable(describe_first_run(self.shown.campaign, self.shown.agenda))
        lines = lines or [Text(nothing, "dim"), Text("")]
        self.fill(" · ".join(facts), [*lines, *_plan(self.shown.agenda)], _legend())


class FindingsPage(LinesPage):
    """Everything that a person should know and that is no error."""

    def draw(self) -> None:
        """Draw everything."""
        if not self.is_up:
            return
        findings = self.shown.board.findings
        facts = f"{len(findings)} finding{'s' * (len(findings) != 1)}"
        told = findings_text(findings, most=len(findings))
        self.fill(facts, [told], Text("README.md says what each kind means", "dim"))


def _lines(run: RunRow, width: int) -> list[Text]:
    """Its name and state, then its ranks in their order."""
    took = run.ended_at - run.started_at if run.ended_at and run.started_at else 0.0
    words = (
        f"{describe_ranks(run)}  {format_duration(took)}"
        if took > 0
        else describe_run(run, time.time())
    )
    head = Text.assemble(
        (f"{printable(run.name)}  ", "bold"),
        (run.state, STATES.get(run.state, "")),
        printable(f"  {words}"),
    )
    signs = Text()
    for state, many in run.ranks:
        signs.append(SIGNS.get(state, "·") * many, STYLES.get(state, "dim"))
    return [head, *_wrapped(signs, width), Text("")]


def _plan(agenda: Agenda | None) -> list[Text]:
    """The configurations that campaign.toml asks for, and how often each was made."""
    lines = [] if agenda is None else agenda.lines
    head = [Text("asked for by campaign.toml", "bold")] if lines else []
    return head + [
        Text(printable(f"{one.point}: {one.done} of {one.wanted} runs{_failed(one.failed)}"))
        for one in lines
    ]


def _failed(times: int) -> str:
    return f", failed {times} time{'s' * (times != 1)}" if times else ""


def _wrapped(signs: Text, width: int) -> list[Text]:
    """Cut after so many ranks."""
    return [signs[start : start + width] for start in range(0, len(signs), width)]


def _legend() -> Text:
    text = Text(no_wrap=True)
    for state, sign in SIGNS.items():
        text.append(f"{sign} ", STYLES.get(state, "dim"))
        text.append(f"{state}  ")
    return text
