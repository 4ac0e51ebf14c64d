"""What every screen of the terminal shows: the newest board, the models, a look ahead."""

import os
from dataclasses import dataclass, field

from rich.cells import cell_len
from rich.text import Text
from textual.screen import Screen
from textual.widgets import Static

from insitu.analysis.board import Board, RunRow, SeriesRow
from insitu.analysis.forecast import FASTER, FEWER, MORE, SLOWER
from insitu.analysis.outlook import Outlook
from insitu.analysis.progress import Agenda
from insitu.modeling.base import ModelSet
from insitu.text import printable
from insitu.units import quantity

WIDE = 140  # columns from which screens have two parts beside each other
ROOMY = 110  # columns from which tables have more of their own
SCROLLBAR = 1  # column
UP, DOWN = ("▲", "bold red"), ("▼", "bold cyan")  # signs need no colour
VERDICTS = {SLOWER: UP, MORE: UP, FASTER: DOWN, FEWER: DOWN}


@dataclass(slots=True)
class Shown:
    """What there is to see by now; the application changes it, screens draw it."""

    campaign: str
    board: Board = field(default_factory=Board)
    models: ModelSet = field(default_factory=ModelSet)
    ahead: Outlook = field(default_factory=Outlook)
    target: tuple[float, ...] = ()  # where to look ahead; `ahead` follows as soon as it is known
    agenda: Agenda | None = None
    is_live: bool = False

    def run_now(self) -> RunRow | None:
        """The newest run in progress."""
        return next((run for run in self.board.runs if run.state in ("measuring", "closing")), None)


class View(Screen[None]):
    """A screen that is drawn anew when there is something new."""

    def __init__(self, shown: Shown) -> None:
        """Draw what is in `shown`."""
        super().__init__()
        self.shown = shown
        self._told: dict[str, Text] = {}

    @property
    def is_up(self) -> bool:
        """Whether there is something to draw on; at the end events still come in."""
        return self.is_mounted and self.is_running

    def on_resize(self) -> None:
        """What is drawn follows the size."""
        self.call_after_refresh(self.draw)

    def action_back(self) -> None:
        """To the screen before."""
        self.app.pop_screen()

    def draw(self) -> None:
        """Draw everything that may have changed."""
        raise NotImplementedError

    def tell(self, name: str, text: Text) -> None:
        """Let a part of the screen say something; the screen is laid out anew only for more lines.

        What is there already costs nothing: boards come each second and change little.
        """
        before = self._told.get(name)
        if before is not None and before == text:
            return
        part = self.query_one(f"#{name}", Static)
        width = part.content_size.width
        is_flat = before is not None and _height(before, width) == _height(text, width) > 0
        part.update(text, layout=not is_flat)
        self._told[name] = text


def _height(text: Text, width: int) -> int:
    """How many lines it takes; 0 where some must be wrapped."""
    lines = text.plain.split("\n")
    return len(lines) if max(map(cell_len, lines)) <= width else 0


def title_of(shown: Shown, facts: str, width: int) -> Text:
    """The first line of a screen."""
    state = Text("● live", style="bold green") if shown.is_live else Text("○ at rest")
    name = os.path.basename(os.path.abspath(shown.campaign))
    title = Text.assemble((printable(name), "bold"), "  ", state, no_wrap=True)
    title.append(f"  {printable(facts)}")
    title.truncate(max(width - 2, 1), overflow="ellipsis")
    return title


def cut(text: str, width: int) -> str:
    """A text from a program in so many columns."""
    text = printable(text)
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"


def mark_of_row(row: SeriesRow) -> Text:
    """The sign of a deviation: ▲ above what was predicted, ▼ below."""
    sign, style = VERDICTS.get(row.verdict, (" ", ""))
    return Text(sign, style)


def deviation_text(row: SeriesRow) -> Text:
    """The value so far beside what the models predict."""
    if row.live is None:
        return Text("")
    text = Text(f"now {quantity(row.live, row.unit)}")
    if row.expected is not None:
        style = VERDICTS.get(row.verdict, ("", ""))[1]
        words = f" {row.verdict} than predicted" if row.verdict else ", as predicted"
        text.append(f" {mark_of_row(row)}" if row.verdict else "", style)
        text.append(words, style)
        low, _, high = row.expected
        text.append(f" ({quantity(low, row.unit)} … {quantity(high, row.unit)} by now)")
    return text
