"""The screen that looks ahead: sliders choose a scale, the table says what it will cost."""

import math
from collections.abc import Mapping
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
from insitu.analysis.summary import DOUBTFUL_FACTOR, largest_coordinate
from insitu.entities import number
from insitu.text import printable
from insitu.units import percent, quantity
from insitu.views.report.sentences import format_bounds, format_ratio
from insitu.views.terminal.view import ROOMY, SCROLLBAR, Shown, View, cut, title_of
from insitu.views.text import format_factor

NAME, VALUE = 12, 26  # columns of a slider beside its rail
FIXED = {"share": 6, "now": 6, "cost": 8, "95 % between": 19, "growth": 8}
BAR = 10


class Slider(Static, can_focus=True):
    """A parameter's value on a rail, moved by keys and by the mouse."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "move(-1)", "less"),
        Binding("right", "move(1)", "more"),
        Binding("pageup,shift+right", "move(4)", "double"),
        Binding("pagedown,shift+left", "move(-4)", "half"),
        Binding("home", "move(-1000)", "", show=False),
    ]

    class Moved(Message):
        """Another value was chosen."""

        def __init__(self, index: int, value: float) -> None:
            """Of the parameter with this place."""
            super().__init__()
            self.index, self.value = index, value

    def __init__(self, index: int) -> None:
        """For the parameter with this place."""
        super().__init__(id=f"slider{index}", classes="slider")
        self._index = index
        self._label, self._at, self._low, self._high = "", 1.0, 1.0, 1.0

    def show(self, name: str, value: float, low: float, high: float) -> None:
        """Draw a value; `low` and `high` are those that were measured."""
        self._label, self._at, self._low, self._high = name, value, low, high
        self.draw()

    def on_resize(self) -> None:
        """The rail follows the width."""
        self.draw()

    def on_focus(self) -> None:
        """Shown by the name."""
        self.draw()

    def on_blur(self) -> None:
        """Shown by the name."""
        self.draw()

    def on_click(self, event: events.Click) -> None:
        """Jump to where the mouse is."""
        if NAME <= event.x < NAME + self._rail():
            part = (event.x - NAME) / max(self._rail() - 1, 1)
            self._tell(slider_value(part, self._low, self._high))

    def on_mouse_scroll_down(self) -> None:
        """Less."""
        self.action_move(-1)

    def on_mouse_scroll_up(self) -> None:
        """More."""
        self.action_move(1)

    def action_move(self, steps: int) -> None:
        """Some steps on."""
        self._tell(step_value(self._at, steps, self._low, self._high))

    def draw(self) -> None:
        """The rail: full where it was measured, the knob where the value is."""
        rail = self._rail()
        knob = round(slider_position(self._at, self._low, self._high) * (rail - 1))
        end = round(slider_position(self._high, self._low, self._high) * (rail - 1))
        cells = ["━" if place <= end else "─" for place in range(rail)]
        cells[min(max(knob, 0), rail - 1)] = "●"
        times = self._at / self._high if self._high > 0 else 1.0
        far = (
            f"{format_ratio(times)} × the largest measured" if times > 1 else "measured up to here"
        )
        name = printable(self._label)[: NAME - 4]
        self.update(
            Text.assemble(
                (f"{'▸' if self.has_focus else ' '} {name:>{NAME - 4}}  ", "bold"),
                ("".join(cells), "bold cyan" if self.has_focus else "cyan"),
                (f"  {number(round(self._at, 6))}", "bold"),
                (f"  {far}", "dim"),
                no_wrap=True,
            )
        )

    def _rail(self) -> int:
        return max(self.size.width - NAME - VALUE - 14, 8)

    def _tell(self, value: float) -> None:
        self._at = value
        self.draw()
        self.post_message(self.Moved(self._index, value))


class Prospects(View):
    """All call paths' predicted cost and share at a place that is chosen."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,backspace", "back", "back"),
    ]

    class Chosen(Message):
        """Another place to look at."""

        def __init__(self, at: tuple[float, ...]) -> None:
            """Its coordinate."""
            super().__init__()
            self.at = at

    def __init__(self, shown: Shown) -> None:
        """Begin where `shown` looks."""
        super().__init__(shown)
        self._drawn_as: tuple[int, list[str]] = (0, [])
        self._drawn: tuple[object, int] = (None, 0)

    def compose(self) -> ComposeResult:
        """The parts of the screen."""
        yield Static(id="title")
        with Vertical(id="sliders"):
            for index in range(len(self.shown.models.parameters)):
                yield Slider(index)
        yield DataTable[Text](id="prospects", cursor_type="row", zebra_stripes=True)
        yield Static(id="trust")
        yield Footer()

    def on_mount(self) -> None:
        """Begin at the first slider."""
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
        at = self.shown.target
        names = models.parameters
        if len(at) == len(names) == len(low):
            for slider, name, value, *ends in zip(
                self.query(Slider).results(), names, at, low, high, strict=False
            ):
                slider.show(name, value, ends[0], ends[1])
        place = ", ".join(
            f"{name} = {number(value)}" for name, value in zip(names, ahead.at, strict=False)
        )
        facts = f"{ahead.metric} of a mean rank at {place}" if ahead.at else "no models yet"
        self.tell("title", title_of(self.shown, facts, self.size.width))
        farness = max((a / m for a, m in zip(at, high, strict=False) if m > 0), default=1.0)
        said = "within what was measured" if farness <= 1 else f"{farness:.3g} × what was measured"
        trust = "" if farness <= DOUBTFUL_FACTOR else ": far; the bounds say how little is known"
        rest = sum(models.rest.values())
        others = f"; {percent(rest)} now in call paths without a model" if rest >= RELEVANT else ""
        self.tell("trust", Text(f"{said}{trust}{others}", "dim"))
        drawn = ahead.prospects, self.size.width
        if drawn != self._drawn:
            self._draw_table(ahead.prospects, ahead.unit)
            self._drawn = drawn

    def _draw_table(self, prospects: tuple[Prospect, ...], unit: str) -> None:
        """Change the cells that are new; with other call paths, fill the table anew."""
        table: DataTable[Text] = self.query_one("#prospects", DataTable)
        widths = dict(FIXED)
        if table.size.width >= ROOMY:
            widths["share"] += BAR + 1
        total = max(table.size.width, 40) - SCROLLBAR
        room = max(total - sum(widths.values()) - 2 * (len(widths) + 1), 12)
        layout = (room, [one.callpath for one in prospects])
        lines = [_cells(one, unit, room, widths) for one in prospects]
        if layout == self._drawn_as:
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
        self._drawn_as = layout


def _cells(one: Prospect, unit: str, room: int, widths: Mapping[str, int]) -> list[Text]:
    """One line: a call path whose model is only a guess here has no share."""
    is_guess = math.isnan(one.share.value)
    share = "guess" if is_guess else percent(one.share.value)
    if widths["share"] > BAR and not is_guess:
        filled = round(BAR * min(max(one.share.value, 0.0), 1.0))
        share = f"{'█' * filled}{'·' * (BAR - filled)} {share:>6}"
    style = "dim" if is_guess else ""
    return [
        Text(last_frames(one.callpath, room), style or "bold"),
        Text(share, style, justify="right"),
        Text(percent(one.now), style, justify="right"),
        Text(cut(quantity(one.cost.value, unit), widths["cost"]), style, justify="right"),
        Text(cut(format_bounds(one.cost, unit), widths["95 % between"]), style),
        Text(format_factor(one.factor), style),
    ]
