"""The base class of all screens, and the data that they draw."""

import os
from dataclasses import dataclass, field

from rich.cells import cell_len
from rich.text import Text
from textual.screen import Screen
from textual.widgets import Static

from insitu.analysis.board import Board, RunRow, SeriesRow
from insitu.analysis.diagnosis.diagnose import Diagnosis
from insitu.analysis.forecast import FASTER, LESS, MORE, SLOWER
from insitu.analysis.outlook import Outlook
from insitu.analysis.progress import Agenda
from insitu.modeling.base import ModelSet
from insitu.text import printable
from insitu.units import quantity

WIDE = 140  # columns from which screens have two panes side by side
ROOMY = 110  # columns from which tables have additional columns
SCROLLBAR = 1  # width in columns
IN_PROGRESS = ("measuring", "closing")
UP, DOWN = ("▲", "bold red"), ("▼", "bold cyan")  # the signs are sufficient without colours
VERDICTS = {SLOWER: UP, MORE: UP, FASTER: DOWN, LESS: DOWN}


@dataclass(slots=True)
class ScreenState:
    """The data on display. The application changes it, screens draw it."""

    campaign: str
    board: Board = field(default_factory=Board)
    models: ModelSet = field(default_factory=ModelSet)
    ahead: Outlook = field(default_factory=Outlook)
    target: tuple[float, ...] = ()  # coordinate of the outlook; `ahead` follows when it is computed
    agenda: Agenda | None = None
    is_live: bool = False
    activity: str = ""  # the run that `insitu campaign run` makes now, as p=4,n=64
    diagnosis: Diagnosis | None = None  # None without a complete run
    is_diagnosing: bool = False
    is_read: bool = False  # whether the campaign was read at all
    lost_runs: tuple[str, ...] = ()  # in progress when their aggregator ended; not stored yet

    def run_now(self) -> RunRow | None:
        """The newest run in progress."""
        return next((run for run in self.board.runs if run.state in IN_PROGRESS), None)


class View(Screen[None]):
    """A screen that redraws itself when its data change."""

    def __init__(self, shown: ScreenState) -> None:
        """Draw the data in `shown`."""
        super().__init__()
        self.shown = shown
        self._texts: dict[str, Text] = {}  # what each widget shows

    @property
    def is_up(self) -> bool:
        """Whether the screen can be drawn; events still arrive while it closes."""
        return self.is_mounted and self.is_running

    def on_resize(self) -> None:
        """Redraw for the new size."""
        self.call_after_refresh(self.draw)

    def on_screen_resume(self) -> None:
        """Redraw: the data may have changed while another screen covered this one."""
        self.call_after_refresh(self.draw)

    def action_back(self) -> None:
        """Return to the previous screen."""
        self.app.pop_screen()

    def draw(self) -> None:
        """Draw everything that may have changed."""
        raise NotImplementedError

    def set_text(self, name: str, text: Text) -> None:
        """Change the text of a widget, if it differs.

        A new layout is only computed if the number of lines changes: boards arrive every second
        and change little.
        """
        before = self._texts.get(name)
        if before is not None and before == text:
            return

        widget = self.query_one(f"#{name}", Static)
        width = widget.content_size.width
        has_height = before is not None and _height(before, width) == _height(text, width) > 0
        widget.update(text, layout=not has_height)
        self._texts[name] = text


def _height(text: Text, width: int) -> int:
    """The number of lines; 0 if a line must be wrapped."""
    lines = text.plain.split("\n")
    return len(lines) if max(map(cell_len, lines)) <= width else 0


def make_title(shown: ScreenState, facts: str, width: int) -> Text:
    """The first line of a screen: campaign, state, facts."""
    if shown.is_live:
        state = Text("● live", style="bold green")
    elif shown.activity:
        state = Text(f"● making {printable(shown.activity)}", style="bold green")
    else:
        state = Text("○ idle")
    name = os.path.basename(os.path.abspath(shown.campaign))
    title = Text.assemble((printable(name), "bold"), "  ", state, no_wrap=True)
    title.append(f"  {printable(facts)}")
    title.truncate(max(width - 2, 1), overflow="ellipsis")
    return title


def cut(text: str, width: int) -> str:
    """Printable text in at most `width` columns."""
    text = printable(text)
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"


def deviation_mark(row: SeriesRow) -> Text:
    """The sign of a deviation: ▲ above the prediction, ▼ below."""
    sign, style = VERDICTS.get(row.verdict, (" ", ""))
    return Text(sign, style)


def deviation_text(row: SeriesRow) -> Text:
    """The value of the run in progress beside its prediction."""
    if row.live is None:
        return Text("")
    text = Text(f"now {quantity(row.live, row.unit)}")
    if row.expected is not None:
        style = VERDICTS.get(row.verdict, ("", ""))[1]
        words = f" {row.verdict} than predicted" if row.verdict else ", as predicted"
        text.append(f" {deviation_mark(row)}" if row.verdict else "", style)
        text.append(words, style)
        low, _, high = row.expected
        text.append(f" ({quantity(low, row.unit)} … {quantity(high, row.unit)} by now)")
    return text
