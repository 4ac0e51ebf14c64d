"""The screen of predictions: sliders choose a scale, the table shows the cost there."""

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar

from rich.text import Text
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.coordinate import Coordinate
from textual.message import Message
from textual.widgets import DataTable, Footer, Static

from insitu.analysis.callpaths import last_frames
from insitu.analysis.outlook import (
    Prospect,
    slider_position,
    slider_value,
    smallest_coordinate,
    step_value,
)
from insitu.analysis.shares import RELEVANT
from insitu.analysis.summary import DOUBTFUL_FACTOR, coordinate_text, largest_coordinate
from insitu.entities import number
from insitu.text import printable
from insitu.units import percent, quantity
from insitu.views.report.sentences import format_bounds, format_ratio
from insitu.views.terminal.view import ROOMY, SCROLLBAR, ScreenState, View, cut, make_title
from insitu.views.text import BY_MEAN, BY_MEAN_NOTE, format_factor

NAME_WIDTH, VALUE_WIDTH = 12, 26  # columns of a slider beside its rail
FIXED_WIDTHS = {"share": 6, "now": 6, "cost": 8, "95 % between": 19, "growth": 8}
BAR_WIDTH = 10


STEPS = Binding.Group("less, more", compact=True)  # else help and quit leave 80 columns


class Slider(Static, can_focus=True):
    """A slider for the value of a parameter, moved by keys and by the mouse."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "move(-1)", "less", group=STEPS),
        Binding("right", "move(1)", "more", group=STEPS),
        Binding("pageup,shift+right", "move(4)", "double", show=False),
        Binding("pagedown,shift+left", "move(-4)", "half", show=False),
        Binding("home", "move(-1000)", "", show=False),
    ]

    class Moved(Message):
        """The user chose another value."""

        def __init__(self, index: int, value: float) -> None:
            """`index` is that of the parameter."""
            super().__init__()
            self.index, self.value = index, value

    def __init__(self, index: int) -> None:
        """`index` is that of the parameter."""
        super().__init__(id=f"slider{index}", classes="slider")
        self._index = index
        self._label, self._at, self._low, self._high = "", 1.0, 1.0, 1.0

    def show(self, name: str, value: float, low: float, high: float) -> None:
        """Draw a value; `low` and `high` are the smallest and largest measured values."""
        self._label, self._at, self._low, self._high = name, value, low, high
        self.draw()

    def on_resize(self) -> None:
        """Redraw for the new width."""
        self.draw()

    def on_focus(self) -> None:
        """Redraw the mark at the name."""
        self.draw()

    def on_blur(self) -> None:
        """Redraw the mark at the name."""
        self.draw()

    def on_click(self, event: events.Click) -> None:
        """Move to the clicked value."""
        if NAME_WIDTH <= event.x < NAME_WIDTH + self._rail_width():
            fraction = (event.x - NAME_WIDTH) / max(self._rail_width() - 1, 1)
            self._set_value(slider_value(fraction, self._low, self._high))

    def on_mouse_scroll_down(self) -> None:
        """Decrease the value."""
        self.action_move(-1)

    def on_mouse_scroll_up(self) -> None:
        """Increase the value."""
        self.action_move(1)

    def action_move(self, steps: int) -> None:
        """Move by a number of steps."""
        self._set_value(step_value(self._at, steps, self._low, self._high))

    def draw(self) -> None:
        """Draw the rail, thick over the measured range, with a knob at the value."""
        rail = self._rail_width()
        knob = round(slider_position(self._at, self._low, self._high) * (rail - 1))
        end = round(slider_position(self._high, self._low, self._high) * (rail - 1))
        cells = ["━" if column <= end else "─" for column in range(rail)]
        cells[min(max(knob, 0), rail - 1)] = "●"

        ratio = self._at / self._high if self._high > 0 else 1.0
        distance = "within the measured range"
        if ratio > 1:
            distance = f"{format_ratio(ratio)} × the largest measured"

        name = printable(self._label)[: NAME_WIDTH - 4]
        self.update(
            Text.assemble(
                (f"{'▸' if self.has_focus else ' '} {name:>{NAME_WIDTH - 4}}  ", "bold"),
                ("".join(cells), "bold cyan" if self.has_focus else "cyan"),
                (f"  {number(round(self._at, 6))}", "bold"),
                (f"  {distance}", "dim"),
                no_wrap=True,
            )
        )

    def _rail_width(self) -> int:
        return max(self.size.width - NAME_WIDTH - VALUE_WIDTH - 14, 8)

    def _set_value(self, value: float) -> None:
        self._at = value
        self.draw()
        self.post_message(self.Moved(self._index, value))


class Prospects(View):
    """The predicted cost and share of all call paths at the chosen coordinate."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,backspace", "back", "back"),
    ]

    class Chosen(Message):
        """The user chose another coordinate."""

        def __init__(self, at: tuple[float, ...]) -> None:
            """`at` is the coordinate."""
            super().__init__()
            self.at = at

    def __init__(self, shown: ScreenState) -> None:
        """Start at the target of `shown`."""
        super().__init__(shown)
        self._layout: tuple[int, list[str]] = (0, [])
        self._drawn: tuple[object, int] = (None, 0)

    def compose(self) -> ComposeResult:
        """The widgets of the screen."""
        yield Static(id="title")
        with Vertical(id="sliders"):
            for index in range(len(self.shown.models.parameters)):
                yield Slider(index)
        yield DataTable[Text](id="prospects", cursor_type="row", zebra_stripes=True)
        yield Static(id="trust")
        yield Footer()

    def on_mount(self) -> None:
        """Focus the first slider."""
        for slider in self.query(Slider).results():
            slider.focus()
            break
        self.draw()

    @on(Slider.Moved)
    def _moved(self, event: Slider.Moved) -> None:
        at = list(self.shown.target)
        if event.index < len(at):
            at[event.index] = event.value
            self.post_message(self.Chosen(tuple(at)))

    def draw(self) -> None:
        """Draw everything."""
        if not self.is_up:
            return
        models, ahead = self.shown.models, self.shown.ahead
        low, high = smallest_coordinate(models), largest_coordinate(models)
        at, names = self.shown.target, models.parameters
        if len(at) == len(names) == len(low):
            for slider, name, value, *ends in zip(
                self.query(Slider).results(), names, at, low, high, strict=False
            ):
                slider.show(name, value, ends[0], ends[1])

        facts = "no models yet"
        if ahead.at:
            target = coordinate_text(names, ahead.at)
            facts = f"{ahead.metric} per rank (mean) at {target}"
        self.set_text("title", make_title(self.shown, facts, self.size.width))
        self.set_text("trust", Text(self._trust_text(at, high), "dim"))

        drawn = ahead.prospects, self.size.width
        if drawn != self._drawn:
            self._draw_table(ahead.prospects, ahead.unit)
            self._drawn = drawn

    def _trust_text(self, at: Sequence[float], largest: Sequence[float]) -> str:
        """How far the target is from the measured range, and what the shares leave out."""
        ratios = [value / limit for value, limit in zip(at, largest, strict=False) if limit > 0]
        factor = max(ratios, default=1.0)
        text = "within the measured range"
        if factor > 1:
            text = f"{format_ratio(factor)} × the measured range"
        if factor > DOUBTFUL_FACTOR:
            text += ": far; the intervals show how uncertain this is"

        crowding = next((item.crowding for item in self.shown.models.models if item.crowding), "")
        if crowding:
            text += f"; crowded: {crowding}, times contain waiting for a core"

        if any(prospect.share.is_by_mean for prospect in self.shown.ahead.prospects):
            text += f"; {BY_MEAN} {BY_MEAN_NOTE}"

        rest = sum(self.shown.models.rest.values())
        if rest >= RELEVANT:
            text += f"; {percent(rest)} now in call paths without a model"
        return text

    def _draw_table(self, prospects: tuple[Prospect, ...], unit: str) -> None:
        """Update the cells that changed; refill the table if the call paths changed."""
        table: DataTable[Text] = self.query_one("#prospects", DataTable)
        widths = dict(FIXED_WIDTHS)
        if table.size.width >= ROOMY:
            widths["share"] += BAR_WIDTH + 1

        total = max(table.size.width, 40) - SCROLLBAR
        room = max(total - sum(widths.values()) - 2 * (len(widths) + 1), 12)
        layout = (room, [prospect.callpath for prospect in prospects])
        lines = [_make_cells(prospect, unit, room, widths) for prospect in prospects]

        if layout == self._layout:
            for i, line in enumerate(lines):
                for j, cell in enumerate(line):
                    if table.get_cell_at(Coordinate(i, j)) != cell:
                        table.update_cell_at(Coordinate(i, j), cell)
            return

        table.clear(columns=True)
        for name, width in (("call path", room), *widths.items()):
            table.add_column(name, width=width)

        for line in lines:
            table.add_row(*line)

        self._layout = layout


def _make_cells(prospect: Prospect, unit: str, room: int, widths: Mapping[str, int]) -> list[Text]:
    """The cells of a row; a call path whose model is only a guess has no share."""
    is_guess = math.isnan(prospect.share.value)
    share = "guess" if is_guess else percent(prospect.share.value)
    if prospect.is_share_unclear and not is_guess:
        is_guess, share = True, "–"
    if prospect.share.is_by_mean and not is_guess:
        share = f"{BY_MEAN}{share}"
    if widths["share"] > BAR_WIDTH and not is_guess:
        filled = round(BAR_WIDTH * min(max(prospect.share.value, 0.0), 1.0))
        share = f"{'█' * filled}{'·' * (BAR_WIDTH - filled)} {share:>6}"

    style = "dim" if is_guess or prospect.unclear else ""
    cost = "unclear" if prospect.unclear else quantity(prospect.cost.value, unit)
    return [
        Text(last_frames(prospect.callpath, room), style or "bold"),
        Text(share, style, justify="right"),
        Text(percent(prospect.now), style, justify="right"),
        Text(cut(cost, widths["cost"]), style, justify="right"),
        Text(cut(format_bounds(prospect.cost, unit), widths["95 % between"]), style),
        Text(format_factor(prospect.factor), style),
    ]
