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
from insitu.modeling.search import TOO_FEW_POINTS
from insitu.text import printable
from insitu.views.terminal.listing import (
    CROWDED,
    cell_inputs,
    column_widths,
    findings_text,
    make_cells,
    make_detail,
    run_line,
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
    find_branches,
    series_id,
)
from insitu.views.terminal.view import ROOMY, WIDE, ScreenState, View, make_title
from insitu.views.text import describe_agenda, describe_first_run, describe_lost_runs

SIDE_WIDTH = 46  # columns of runs and findings beside the call paths
ORDER_BY_COLUMN = {
    "": DEVIATION,
    "share": COST,
    "ahead": TARGET,
    "call path": NAME,
    "growth": GROWTH,
}
MAX_RUN_NAME = 18
FINDINGS_PER_CODE = 2  # beside the call paths
COST_METRIC = None  # stands for the metric of the first row, which measures the cost


class Overview(View):
    """Runs, call paths as a tree, one of them in detail, findings."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "model", priority=True),
        Binding("slash", "search", "search"),
        # The line above the table names these keys beside what they change.
        Binding("s", "order", "sort", show=False),
        Binding("m", "metric", "metric", show=False),
        Binding("c", "behaviour", "class", show=False),
        Binding("escape", "everything", "all", show=False),
    ]

    class Opened(Message):
        """The user opens the page of a call path."""

        def __init__(self, row: SeriesRow) -> None:
            """`row` belongs to the call path."""
            super().__init__()
            self.row = row

    def __init__(self, shown: ScreenState) -> None:
        """Start with all rows, the most expensive first."""
        super().__init__(shown)
        self._selection = Selection(order=TREE)
        self._metric: str | None = COST_METRIC
        self._layout: tuple[dict[str, int], list[str]] = ({}, [])  # columns and keys as drawn
        self._lines: list[list[Text]] = []
        self._cache: dict[str, tuple[object, list[Text]]] = {}  # by key: inputs and cells
        self._rows: dict[str, SeriesRow] = {}

    def compose(self) -> ComposeResult:
        """The widgets of the screen."""
        yield Static(id="title")
        with Vertical(id="side"):
            yield Static(id="runs")
            yield Static(id="findings")
        with Vertical(id="main"):
            yield Static(id="selection")
            yield Input(placeholder="text in a call path, or a pattern with * and ?", id="search")
            yield DataTable[Text](id="series", cursor_type="row", zebra_stripes=True)
        yield Static(id="detail")
        yield Footer()

    def on_mount(self) -> None:
        """Focus the table."""
        self.query_one("#series").focus()
        self.draw()

    @on(DataTable.RowHighlighted)
    def _on_highlight(self) -> None:
        if self.is_up:
            self._draw_detail()

    @on(DataTable.RowSelected)
    def _on_select(self) -> None:
        self.action_open()

    @on(DataTable.HeaderSelected)
    def _sort_by(self, event: DataTable.HeaderSelected) -> None:
        order = ORDER_BY_COLUMN.get(str(event.label).strip())
        if order is not None:
            self._select(replace(self._selection, order=order))

    @on(Input.Changed)
    def _on_search(self, event: Input.Changed) -> None:
        self._select(replace(self._selection, text=event.value))

    @on(Input.Submitted)
    def _on_search_end(self) -> None:
        self.query_one("#series").focus()

    def action_open(self) -> None:
        """Open the page of the selected call path; while searching, move to the table."""
        if self.query_one("#search").has_focus:
            self.query_one("#series").focus()
            return
        row = self._rows.get(_selected_key(self.query_one("#series", DataTable)))
        if row is not None:
            self.post_message(self.Opened(row))

    def action_search(self) -> None:
        """Search call paths by text."""
        self.add_class("-searching")
        self.set_focus(self.query_one("#search"))  # `focus` waits, and loses what is typed

    def action_everything(self) -> None:
        """Show all call paths and classes; metric and order stay."""
        self.remove_class("-searching")
        self.query_one("#search", Input).value = ""
        self.set_focus(self.query_one("#series"))
        self._select(replace(self._selection, text="", behaviour=""))

    def action_order(self) -> None:
        """Sort by the next criterion."""
        index = ORDERS.index(self._selection.order)
        self._select(replace(self._selection, order=ORDERS[(index + 1) % len(ORDERS)]))

    def action_metric(self) -> None:
        """Show the next metric; after the last one all metrics."""
        names = [*dict.fromkeys(row.metric for row in self.shown.board.series), ""]
        self._metric = _next(names, self._shown_metric())
        self._select(replace(self._selection, behaviour=""))

    def action_behaviour(self) -> None:
        """Show the next class only; after the last one all classes."""
        metric = self._shown_metric()
        rows = [row for row in self.shown.board.series if metric in ("", row.metric)]
        names = ["", *dict.fromkeys(row.behaviour for row in rows)]
        self._select(replace(self._selection, behaviour=_next(names, self._selection.behaviour)))

    def draw(self) -> None:
        """Draw everything."""
        if not self.is_up:
            return
        board = self.shown.board
        count, runs = len(board.findings), len(board.runs)
        facts = [f"{runs} run{'s' * (runs != 1)}"] if self.shown.is_read else []
        facts += describe_agenda(self.shown.agenda)
        facts += [f"{count} finding{'s' * (count != 1)}"] if count else []
        self.set_text("title", make_title(self.shown, " · ".join(facts), self.size.width))
        self._draw_runs()
        self.set_text("findings", findings_text(board.findings, most=FINDINGS_PER_CODE))
        self._draw_series()
        self._draw_detail()

    def _select(self, selection: Selection) -> None:
        self._selection = selection
        self.draw()

    def _shown_metric(self) -> str:
        names = dict.fromkeys(row.metric for row in self.shown.board.series)
        if self._metric is COST_METRIC or (self._metric and self._metric not in names):
            return next(iter(names), "")
        return self._metric

    def _draw_runs(self) -> None:
        """Draw the newest runs, as many as fit."""
        runs, is_wide = self.shown.board.runs, self.size.width >= WIDE
        width = SIDE_WIDTH - 4 if is_wide else self.size.width - 2
        room = max(1, self.size.height // 2 if is_wide else min(4, self.size.height // 5))
        names = min(max((len(run.name) for run in runs[:room]), default=0), MAX_RUN_NAME)
        lines = [run_line(run, names, width) for run in runs[:room]]
        if len(runs) > room:
            lines[-1] = Text(f"… and {len(runs) - room + 1} earlier runs; r shows all", "dim")
        if self.shown.lost_runs:
            lines.insert(0, Text(describe_lost_runs(self.shown.lost_runs), "bold"))
        nothing = "reading the campaign …"
        if self.shown.is_read:
            nothing = printable(describe_first_run(self.shown.campaign, self.shown.agenda))
        self.set_text("runs", Text("\n").join(lines or [Text(nothing, style="dim")]))

    def _draw_selection(self, count: int) -> None:
        """Draw the line that says what is shown, in which order."""
        names = ", ".join(self.shown.board.parameters) or "–"
        metric, selection = self._shown_metric() or "all metrics", self._selection
        words = [
            f"{metric} (m) over {names}",
            f"by {selection.order} (s)",
            f"{count} rows",
        ]
        if selection.behaviour:
            words.append(f"class {selection.behaviour} (c)")
        if any(row.text.startswith(CROWDED) for row in self._rows.values()):
            words.append("dim: crowded")
        if selection.text:
            words.append(f"matching {selection.text}")
        marked = {row.callpath for row in self.shown.board.series if row.verdict}
        if marked:
            words.append(f"▲▼ {len(marked)} differ from their prediction")
        if not self.shown.board.series:
            reasons = [
                finding.text
                for finding in self.shown.board.findings
                if finding.code == TOO_FEW_POINTS and not finding.where
            ]
            words = [f"{reason}; d shows the diagnosis" for reason in reasons] or words
        self.set_text("selection", Text(printable(" · ".join(words)), no_wrap=True))

    def _draw_series(self) -> None:
        """Update the cells that changed; refill the table if rows or columns changed."""
        metric = self._shown_metric()
        selection = replace(self._selection, metric=metric)
        rows = selection.apply(self.shown.board.series, self.shown.ahead)
        table: DataTable[Text] = self.query_one("#series", DataTable)
        width = max(table.size.width, 40)
        widths = column_widths(width, has_metric=not metric, is_wide=self.size.width >= ROOMY)
        self._rows = {"\0".join(series_id(row)): row for row in rows}
        self._draw_selection(len(rows))

        ahead = self.shown.ahead
        branches = find_branches(rows) if selection.order == TREE else {}
        cache: dict[str, tuple[object, list[Text]]] = {}
        previous_path = ""
        for key, row in self._rows.items():
            is_new = row.callpath != previous_path
            branch = branches.get(row.callpath)
            inputs = cell_inputs(row, ahead, widths, is_new=is_new, branch=branch)
            entry = self._cache.get(key)
            if entry is None or entry[0] != inputs:
                entry = inputs, make_cells(row, widths, ahead, is_new=is_new, branch=branch)
            cache[key] = entry
            previous_path = row.callpath

        self._cache = cache

        lines = [cells for _, cells in cache.values()]
        layout = (widths, list(self._rows))
        if layout == self._layout:
            for i, (old, new) in enumerate(zip(self._lines, lines, strict=True)):
                for j in range(len(new)) if old is not new else ():
                    if old[j] != new[j]:
                        table.update_cell_at(Coordinate(i, j), new[j])
        else:
            self._fill(table, widths, lines)

        self._layout, self._lines = layout, lines

    def _fill(
        self, table: "DataTable[Text]", widths: dict[str, int], lines: list[list[Text]]
    ) -> None:
        """Fill the table; the selected row stays selected."""
        selected, top = _selected_key(table), table.scroll_y
        table.clear(columns=True)
        for name, width in widths.items():
            table.add_column(name, width=width)
        for key, line in zip(self._rows, lines, strict=True):
            table.add_row(*line, key=key)
        if selected in self._rows:
            table.move_cursor(row=table.get_row_index(selected), scroll=False)
            table.scroll_to(y=top, animate=False)

    def _draw_detail(self) -> None:
        row = self._rows.get(_selected_key(self.query_one("#series", DataTable)))
        parameters = self.shown.board.parameters
        self.set_text("detail", Text("") if row is None else make_detail(row, parameters))


def _next(names: list[str], name: str) -> str:
    return names[(names.index(name) + 1) % len(names)] if name in names else names[0]


def _selected_key(table: "DataTable[Text]") -> str:
    if not table.row_count:
        return ""
    key = table.coordinate_to_cell_key(Coordinate(table.cursor_row, 0)).row_key
    return key.value or ""
