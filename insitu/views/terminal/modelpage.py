"""The screen of a call path: plot, models, candidates, residuals, classes of the ranks."""

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import Footer, Static

from insitu.analysis.board import SeriesRow
from insitu.analysis.callpaths import last_frames
from insitu.analysis.summary import largest_coordinate
from insitu.text import printable
from insitu.units import percent
from insitu.views.terminal.portrait import Subject, facts, formulas, make_subject, picture, strip
from insitu.views.terminal.view import (
    SCROLLBAR,
    WIDE,
    ScreenState,
    View,
    deviation_text,
    make_title,
)

FACTS_WIDTH = 64  # columns beside the plot
OTHER_LINES = 6  # lines of title, keys and margins
MIN_PLOT, MAX_PLOT = 10, 24  # lines of the plot


class ModelPage(View):
    """The screen of one metric of a call path."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,backspace,enter", "back", "back"),
        Binding("m", "metric(1)", "metric"),
        Binding("M", "metric(-1)", "metric before", show=False),
        Binding("x", "axis", "axis"),
    ]

    def __init__(self, shown: ScreenState, callpath: str, metric: str) -> None:
        """Draw the data in `shown` about a metric of a call path."""
        super().__init__(shown)
        self._callpath = callpath
        self._metric = metric
        self._axis = ""
        self._drawn: tuple[object, ...] = ()

    def compose(self) -> ComposeResult:
        """The widgets of the screen."""
        yield Static(id="title")
        with VerticalScroll(id="left"):
            yield Static(id="picture")
        with VerticalScroll(id="right"):
            yield Static(id="facts")
        yield Footer()

    def on_mount(self) -> None:
        """Focus the scrollable part."""
        self.query_one("#right").focus()
        self.draw()

    def action_metric(self, steps: int) -> None:
        """Show another metric of the call path."""
        names = self._metrics()
        if self._metric in names:
            self._metric = names[(names.index(self._metric) + steps) % len(names)]
            self.draw()

    def action_axis(self) -> None:
        """Draw along the next parameter."""
        names = list(self.shown.models.parameters)
        if len(names) > 1:
            index = names.index(self._axis) if self._axis in names else 0
            self._axis = names[(index + 1) % len(names)]
            self.draw()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Enable the choice of an axis if there are several parameters."""
        return action != "axis" or len(self.shown.models.parameters) > 1

    def draw(self) -> None:
        """Draw everything."""
        if not self.is_up:
            return
        self.set_text("title", self._title())
        subject = self._subject()
        drawn = id(self.shown.models), subject.metric, subject.axis, subject.now, self.size
        if drawn != self._drawn:
            self._draw_subject(subject)
            self._drawn = drawn

    def _draw_subject(self, subject: Subject) -> None:
        is_wide = self.size.width >= WIDE
        width = self.size.width - 2 - SCROLLBAR - (FACTS_WIDTH + 2 if is_wide else 0)
        names = [item.key.behaviour for item in subject.series]
        ranks = [] if subject.ranks is None else strip(subject.ranks, names, width)
        room = self.size.height // 2
        if is_wide:
            room = self.size.height - OTHER_LINES - len(names) - len(ranks)

        height = max(min(room, MAX_PLOT), MIN_PLOT)
        left = [*picture(subject, width, height), Text(""), *formulas(subject)]
        right = facts(subject, FACTS_WIDTH - 2 if is_wide else width)
        if is_wide:
            left += [Text(""), *ranks]
        else:
            right += ranks

        self.set_text("picture", Text("\n").join(left))
        self.set_text("facts", Text("\n").join([*self._now(), *right]))

    def _metrics(self) -> list[str]:
        rows = self.shown.board.series
        return list(dict.fromkeys(row.metric for row in rows if row.callpath == self._callpath))

    def _subject(self) -> Subject:
        """The data of the page; includes the run in progress if its other parameters are drawn."""
        run = self.shown.run_now()
        live = next((row.live for row in self._rows() if row.live is not None), None)
        now = None
        models = self.shown.models
        names = models.parameters
        if run is not None and live is not None and names:
            axis = self._axis or names[0]
            at = dict(run.parameters)
            drawn = dict(zip(names, largest_coordinate(models), strict=False))
            is_drawn = all(at.get(name) == drawn.get(name) for name in names if name != axis)
            now = (at[axis], live) if is_drawn and axis in at else None

        return make_subject(
            self.shown.models, self._callpath, self._metric, axis=self._axis, now=now
        )

    def _rows(self) -> list[SeriesRow]:
        return [
            row
            for row in self.shown.board.series
            if row.callpath == self._callpath and row.metric == self._metric
        ]

    def _title(self) -> Text:
        share = next((row.share for row in self._rows()), 0.0)
        names = self._metrics()
        number = f" ({names.index(self._metric) + 1} of {len(names)})" if len(names) > 1 else ""
        facts_text = f"{printable(self._metric)}{number} · {percent(share)} of the cost"
        title = make_title(self.shown, facts_text, self.size.width)
        room = max(self.size.width - 2, 20)
        return Text("\n").join([title, Text(last_frames(self._callpath, room), "bold")])

    def _now(self) -> list[Text]:
        row = next((row for row in self._rows() if row.live is not None), None)
        return [] if row is None else [deviation_text(row), Text("")]
