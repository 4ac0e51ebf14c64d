"""The first screen of the terminal: runs, call paths by cost with their models, findings."""

from dataclasses import replace
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.coordinate import Coordinate
from textual.message import Message
from textual.widgets import DataTable, Footer, Input, Static

from insitu.analysis.board import SeriesRow
from insitu.text import printable
from insitu.views.terminal.listing import (
    cells,
    column_widths,
    detail,
    findings_text,
    run_line,
    sources,
)
from insitu.views.terminal.selection import (
    COST,
    DEVIATION,
    GROWTH,
    NAME,
    ORDERS,
    TARGET,
    TREE,
    Selection,
    key_of,
)
from insitu.views.terminal.view import ROOMY, WIDE, Shown, View, title_of
from insitu.views.text import describe_agenda, describe_first_run

SIDE = 46  # columns of runs and findings beside the call paths
ORDER_OF = {
    "": DEVIATION,
    "share": COST,
    "ahead": TARGET,
    "call path": NAME,
    "growth": GROWTH,
}
RUN_NAME = 18
ALIKE = 2  # findings of a kind beside the call paths
DEAREST = None  # the metric of the first row, which is the one that costs are counted in


class Overview(View):
    """Runs, call paths by cost, one of them in detail, findings."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "model", priority=True),
        Binding("slash", "search", "search"),
        Binding("s", "order", "sort"),
        Binding("m", "metric", "metric"),
        Binding("c", "behaviour", "class"),
        Binding("escape", "everything", "all", show=False),
    ]

    class Opened(Message):
        """A person wants to see a call path as a whole."""

        def __init__(self, row: SeriesRow) -> None:
            """Of this row."""
            super().__init__()
            self.row = row

    def __init__(self, shown: Shown) -> None:
        """Begin with everything, the dearest first."""
        super().__init__(shown)
        self._asked = Selection()
        self._metric: str | None = DEAREST
        self._drawn_as: tuple[dict[str, int], list[str]] = ({}, [])  # of the table as it is drawn
        self._lines: list[list[Text]] = []
        self._made: dict[str, tuple[object, list[Text]]] = {}  # lines, of what they were made
        self._rows: dict[str, SeriesRow] = {}

    def compose(self) -> ComposeResult:
        """The parts of the screen."""
        yield Static(id="title")
        with Vertical(id="side"):
            yield Static(id="runs")
            yield Static(id="findings")
        with Vertical(id="main"):
            yield Static(id="asked")
            yield Input(placeholder="part of a call path, or a pattern with * and ?", id="search")
            yield DataTable[Text](id="series", cursor_type="row", zebra_stripes=True)
        yield Static(id="detail")
        yield Footer()

    def on_mount(self) -> None:
        """Begin at the table."""
        self.query_one("#series").focus()
        self.draw()

    @on(DataTable.RowHighlighted)
    def _chosen_another(self) -> None:
        if self.is_up:
            self._draw_detail()

    @on(DataTable.RowSelected)
    def _selected(self) -> None:
        self.action_open()

    @on(DataTable.HeaderSelected)
    def _sort_by(self, event: DataTable.HeaderSelected) -> None:
        order = ORDER_OF.get(str(event.label).strip())
        if order is not None:
            self._ask(replace(self._asked, order=order))

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        self._ask(replace(self._asked, text=event.value))

    @on(Input.Submitted)
    def _typed_all(self) -> None:
        self.query_one("#series").focus()

    def action_open(self) -> None:
        """Show the chosen call path as a whole; while searching, go to what was found."""
        if self.query_one("#search").has_focus:
            self.query_one("#series").focus()
            return
        row = self._rows.get(_chosen(self.query_one("#series", DataTable)))
        if row is not None:
            self.post_message(self.Opened(row))

    def action_search(self) -> None:
        """Show only call paths that hold a text."""
        self.add_class("-searching")
        self.query_one("#search").focus()

    def action_everything(self) -> None:
        """No search, all classes; the metric and the order stay."""
        self.remove_class("-searching")
        self.query_one("#search", Input).value = ""
        self.query_one("#series").focus()
        self._ask(replace(self._asked, text="", behaviour=""))

    def action_order(self) -> None:
        """Sort by the next thing."""
        place = ORDERS.index(self._asked.order)
        self._ask(replace(self._asked, order=ORDERS[(place + 1) % len(ORDERS)]))

    def action_metric(self) -> None:
        """Show the next metric; after the last one all of them."""
        names = [*dict.fromkeys(row.metric for row in self.shown.board.series), ""]
        self._metric = _next(names, self._shown_metric())
        self._ask(replace(self._asked, behaviour=""))

    def action_behaviour(self) -> None:
        """Show the next class only; after the last one all of them."""
        metric = self._shown_metric()
        rows = [row for row in self.shown.board.series if metric in ("", row.metric)]
        names = ["", *dict.fromkeys(row.behaviour for row in rows)]
        self._ask(replace(self._asked, behaviour=_next(names, self._asked.behaviour)))

    def draw(self) -> None:
        """Draw everything."""
        if not self.is_up:
            return
        board = self.shown.board
        count, runs = len(board.findings), len(board.runs)
        facts = [f"{runs} run{'s' * (runs != 1)}", *describe_agenda(self.shown.agenda)]
        facts += [f"{count} finding{'s' * (count != 1)}"] if count else []
        self.tell("title", title_of(self.shown, " · ".join(facts), self.size.width))
        self._draw_runs()
        self.tell("findings", findings_text(board.findings, most=ALIKE))
        self._draw_series()
        self._draw_detail()

    def _ask(self, selection: Selection) -> None:
        self._asked = selection
        self.draw()

    def _shown_metric(self) -> str:
        names = dict.fromkeys(row.metric for row in self.shown.board.series)
        if self._metric is DEAREST or (self._metric and self._metric not in names):
            return next(iter(names), "")
        return self._metric

    def _draw_runs(self) -> None:
        """As many of the newest runs as there is room for."""
        runs, is_wide = self.shown.board.runs, self.size.width >= WIDE
        width = SIDE - 4 if is_wide else self.size.width - 2
        room = max(1, self.size.height // 2 if is_wide else min(4, self.size.height // 5))
        names = min(max((len(run.name) for run in runs[:room]), default=0), RUN_NAME)
        lines = [run_line(run, names, width) for run in runs[:room]]
        if len(runs) > room:
            lines[-1] = Text(f"… and {len(runs) - room + 1} runs before; r shows all", "dim")
        nothing = printable(describe_first_run(self.shown.campaign, self.shown.agenda))
        self.tell("runs", Text("\n").join(lines or [Text(nothing, style="dim")]))

    def _draw_asked(self, count: int) -> None:
        """What is shown, in which order."""
        names = ", ".join(self.shown.board.parameters) or "–"
        metric, asked = self._shown_metric() or "all metrics", self._asked
        parts = [f"{metric} over {names}", f"by {asked.order}", f"{count} rows"]
        parts += [f"class {asked.behaviour}"] if asked.behaviour else []
        parts += [f"holding {asked.text}"] if asked.text else []
        marked = {row.callpath for row in self.shown.board.series if row.verdict}
        parts += [f"▲▼ {len(marked)} off their prediction"] if marked else []
        self.tell("asked", Text(printable(" · ".join(parts)), no_wrap=True))

    def _draw_series(self) -> None:
        """Change the cells that are new; where rows came or went, fill the table anew."""
        metric = self._shown_metric()
        asked = replace(self._asked, metric=metric)
        rows = asked.of(self.shown.board.series, self.shown.ahead)
        self._draw_asked(len(rows))
        table: DataTable[Text] = self.query_one("#series", DataTable)
        width = max(table.size.width, 40)
        widths = column_widths(width, has_metric=not metric, is_wide=self.size.width >= ROOMY)
        self._rows = {"\0".join(key_of(row)): row for row in rows}
        self._made, made, before = {}, self._made, ""
        for key, row in self._rows.items():
            facts = sources(row, self.shown.ahead, widths, row.callpath != before, asked.order)
            known = made.get(key)
            if known is None or known[0] != facts:
                line = cells(
                    row,
                    widths,
                    self.shown.ahead,
                    is_new=row.callpath != before,
                    is_tree=asked.order == TREE,
                )
                known = facts, line
            self._made[key] = known
            before = row.callpath
        lines = [line for _, line in self._made.values()]
        layout = (widths, list(self._rows))
        if layout == self._drawn_as:
            for i, (old, new) in enumerate(zip(self._lines, lines, strict=True)):
                for j in range(len(new)) if old is not new else ():
                    if old[j] != new[j]:
                        table.update_cell_at(Coordinate(i, j), new[j])
        else:
            self._fill(table, widths, lines)
        self._drawn_as, self._lines = layout, lines

    def _fill(
        self, table: "DataTable[Text]", widths: dict[str, int], lines: list[list[Text]]
    ) -> None:
        """All rows anew; the chosen one stays chosen."""
        chosen, top = _chosen(table), table.scroll_y
        table.clear(columns=True)
        for name, width in widths.items():
            table.add_column(name, width=width)
        for key, line in zip(self._rows, lines, strict=True):
            table.add_row(*line, key=key)
        if chosen in self._rows:
            table.move_cursor(row=table.get_row_index(chosen), scroll=False)
            table.scroll_to(y=top, animate=False)

    def _draw_detail(self) -> None:
        row = self._rows.get(_chosen(self.query_one("#series", DataTable)))
        parameters = self.shown.board.parameters
        self.tell("detail", Text("") if row is None else detail(row, parameters))


def _next(names: list[str], name: str) -> str:
    return names[(names.index(name) + 1) % len(names)] if name in names else names[0]


def _chosen(table: "DataTable[Text]") -> str:
    if not table.row_count:
        return ""
    key = table.coordinate_to_cell_key(Coordinate(table.cursor_row, 0)).row_key
    return key.value or ""
