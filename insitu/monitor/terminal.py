"""The board of a campaign in a terminal, redrawn as it grows."""

from typing import ClassVar

from rich.text import Text
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.coordinate import Coordinate
from textual.widgets import DataTable, Footer, Static
from textual.worker import get_current_worker

from insitu.errors import InsituError
from insitu.monitor.board import Board, RunRow, SeriesRow
from insitu.monitor.client import BoardClient
from insitu.monitor.names import last_frames, printable
from insitu.monitor.trend import bar, points_of, ranks_of, spark
from insitu.units import percent, quantity

BEAT_S = 1.0
WIDE = 120  # columns from which runs and findings stand beside the call paths
SIDE = 46
SPARK = 8
FIXED = {"share": 6, "metric": 14, "class": 5, "points": SPARK}
COLUMNS = ("share", "call path", "metric", "class", "model", "points")
SCROLLBAR = 1
NAME = 18  # of a run
STATES = {"sealed": "green", "partial": "red", "measuring": "cyan", "closing": "cyan"}
ALL_METRICS = ""
DEAREST = None  # the metric of the first row, which is the one that costs are counted in

CSS = """
Screen { layout: vertical; }
#title { height: 1; padding: 0 1; background: $primary 30%; }
#runs { height: auto; max-height: 6; padding: 0 1; border-bottom: solid $primary 40%; }
#series { height: 1fr; overflow-x: hidden; scrollbar-size-vertical: 1; }
#detail { height: auto; max-height: 7; padding: 0 1; border-top: solid $primary 40%; }
#findings { height: auto; max-height: 60%; padding: 0 1; display: none; overflow-y: auto; }
.-told #findings { display: block; }
#side { height: auto; }
Screen.-low #detail { max-height: 4; }
Screen.-wide { layout: grid; grid-size: 2; grid-columns: 46 1fr; grid-rows: 1 1fr 5; }
.-wide #title { column-span: 2; }
.-wide #side { height: 100%; border-right: solid $primary 40%; }
.-wide #runs { border-bottom: none; max-height: 22; }
.-wide #detail { column-span: 2; height: 5; }
.-wide #findings { display: block; height: 1fr; max-height: 100%; }
"""


class Watch(App[None]):
    """Runs, call paths by cost, one of them in detail, findings."""

    CSS = CSS
    ENABLE_COMMAND_PALETTE = False
    VERTICAL_BREAKPOINTS = [(0, "-low"), (20, "-high")]  # noqa: RUF012
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (WIDE, "-wide")]  # noqa: RUF012
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("m", "metric", "metric"),
        Binding("f", "findings", "findings"),
        Binding("q", "quit", "quit"),
    ]

    def __init__(self, client: BoardClient, campaign: str, *, beat_s: float = BEAT_S) -> None:
        """Show what `client` reads of `campaign`; whoever made the client closes it."""
        super().__init__()
        self.trouble: InsituError | None = None
        self._client = client
        self._beat_s = beat_s
        self._campaign = campaign
        self._board = Board()
        self._metric: str | None = DEAREST
        self._layout: tuple[dict[str, int], list[str]] = ({}, [])  # of the table as it is drawn
        self._lines: list[list[Text]] = []
        self._rows: dict[str, SeriesRow] = {}

    def compose(self) -> ComposeResult:
        """The parts of the screen."""
        yield Static(id="title")
        with Vertical(id="side"):
            yield Static(id="runs")
            yield Static(id="findings")
        yield DataTable[Text](id="series", cursor_type="row", zebra_stripes=True)
        yield Static(id="detail")
        yield Footer()

    def on_mount(self) -> None:
        """Begin to listen."""
        self.query_one("#series").focus()
        self.show(self._board)
        self._listen()

    @work(thread=True, exclusive=True)
    def _listen(self) -> None:
        """Read boards until the end; a thread of its own, for reading waits."""
        worker = get_current_worker()
        while not worker.is_cancelled:
            try:
                board = self._client.newest(self._beat_s)
            except InsituError as error:
                self.trouble = error
                self.call_from_thread(self.exit)
                return
            if board is not None and not worker.is_cancelled:
                self.call_from_thread(self.show, board)

    def show(self, board: Board) -> None:
        """Draw a board."""
        self._board = board
        self._draw()

    @property
    def _is_up(self) -> bool:
        """Whether there is something to draw on; at the end events still come in."""
        return bool(self.query("#series")) and bool(self.query("#detail"))

    def on_resize(self) -> None:
        """Columns follow the width."""
        self.call_after_refresh(self._draw)

    def on_data_table_row_highlighted(self) -> None:
        """Another call path was chosen."""
        if self._is_up:
            self._draw_detail()

    def action_metric(self) -> None:
        """Show the next metric; after the last one all of them."""
        names = [*dict.fromkeys(row.metric for row in self._board.series), ALL_METRICS]
        self._metric = names[(names.index(self._shown_metric()) + 1) % len(names)]
        self._draw()

    def _shown_metric(self) -> str:
        names = dict.fromkeys(row.metric for row in self._board.series)
        if self._metric is DEAREST or (self._metric and self._metric not in names):
            return next(iter(names), ALL_METRICS)
        return self._metric

    def action_findings(self) -> None:
        """Show or hide the findings."""
        self.screen.toggle_class("-told")

    def _draw(self) -> None:
        if not self._is_up:
            return
        self.query_one("#title", Static).update(self._title())
        width = SIDE - 4 if self.size.width >= WIDE else self.size.width - 2
        shown = 20 if self.size.width >= WIDE else max(1, min(5, self.size.height // 4 - 1))
        names = min(max((len(run.name) for run in self._board.runs[:shown]), default=0), NAME)
        runs = [_run_line(run, names, width) for run in self._board.runs[:shown]]
        more = len(self._board.runs) - shown
        if more > 0:
            runs[-1] = Text(f"… and {more + 1} runs before", style="dim")
        nothing = Text("no run yet", style="dim")
        self.query_one("#runs", Static).update(Text("\n").join(runs or [nothing]))
        self.query_one("#findings", Static).update(self._findings())
        self._draw_series()
        self._draw_detail()

    def _title(self) -> Text:
        board = self._board
        state = Text("● live", style="bold green") if self._client.is_live else Text("○ at rest")
        names = ", ".join(board.parameters) or "–"
        count = len(board.findings)
        notes = f" · {count} finding{'s' * (count != 1)}" if count else ""
        metric = self._shown_metric() or "all metrics"
        facts = f"  {len(board.runs)} runs · {metric} over {names}{notes}"
        return Text.assemble((printable(self._campaign), "bold"), "  ", state, printable(facts))

    def _findings(self) -> Text:
        lines = [
            Text.assemble((f"{finding.code}: ", "yellow"), printable(finding.text))
            for finding in self._board.findings
        ]
        return Text("\n").join(lines or [Text("no findings", style="dim")])

    def _draw_series(self) -> None:
        """Change the cells that are new; where rows came or went, fill the table anew."""
        metric = self._shown_metric()
        rows = [row for row in self._board.series if metric in (ALL_METRICS, row.metric)]
        table: DataTable[Text] = self.query_one("#series", DataTable)
        widths = _widths(max(table.size.width, 40), has_metric=metric == ALL_METRICS)
        before = [""] + [row.callpath for row in rows]
        lines = [
            _cells(row, widths, is_new=row.callpath != before[i]) for i, row in enumerate(rows)
        ]
        self._rows = {"\0".join((row.callpath, row.metric, row.behaviour)): row for row in rows}
        layout = (widths, list(self._rows))
        if layout == self._layout:
            for i, (old, new) in enumerate(zip(self._lines, lines, strict=True)):
                for j in range(len(new)):
                    if old[j] != new[j]:
                        table.update_cell_at(Coordinate(i, j), new[j])
        else:
            self._fill(table, widths, lines)
        self._layout, self._lines = layout, lines

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
        detail = Text("") if row is None else _detail(row, self._board.parameters)
        self.query_one("#detail", Static).update(detail)


def _chosen(table: "DataTable[Text]") -> str:
    if not table.row_count:
        return ""
    key = table.coordinate_to_cell_key(Coordinate(table.cursor_row, 0)).row_key
    return key.value or ""


def _widths(total: int, *, has_metric: bool) -> dict[str, int]:
    """Columns that fill the width; each takes two more for its margins."""
    fixed = {name: FIXED[name] for name in FIXED if has_metric or name != "metric"}
    room = total - sum(fixed.values()) - 2 * (len(fixed) + 2) - SCROLLBAR
    path = max(min(room * 9 // 20, 48), 14)
    flexible = {"call path": path, "model": max(room - path, 12)}
    return {name: (fixed | flexible)[name] for name in COLUMNS if name in fixed | flexible}


def _cells(row: SeriesRow, widths: dict[str, int], *, is_new: bool) -> list[Text]:
    """One line of the table; the call path stands only in its first one."""
    if row.text:
        model = Text(_cut(row.text, widths["model"]))
    elif row.live is not None:
        model = Text(f"now {quantity(row.live, row.unit)}", style="cyan")
    else:
        model = Text("")
    cells = {
        "share": Text(percent(row.share) if is_new else "", justify="right"),
        "call path": Text(last_frames(row.callpath, widths["call path"]) if is_new else "", "bold"),
        "metric": Text(_cut(row.metric, FIXED["metric"])),
        "class": Text(_cut(row.behaviour, FIXED["class"])),
        "model": model,
        "points": Text(spark(points_of(row), SPARK), style="green"),
    }
    return [cells[name] for name in widths]


def _cut(text: str, width: int) -> str:
    text = printable(text)
    return text if len(text) <= width else text[: width - 1] + "…"


def _run_line(run: RunRow, name: int, width: int) -> Text:
    style = STATES.get(run.state, "")
    parts = [
        (f"{_cut(run.name, name):<{name}} ", ""),
        (f"{run.state:<10}", style),
        (bar(run, 6), style),
    ]
    line = Text.assemble(*parts, f" {ranks_of(run)}", no_wrap=True)
    line.truncate(width, overflow="ellipsis")
    return line


def _detail(row: SeriesRow, parameters: tuple[str, ...]) -> Text:
    """Everything about the chosen series."""
    error = "" if row.smape is None else f"   error {percent(row.smape / 100)}"
    live = "" if row.live is None else f"   now {quantity(row.live, row.unit)}"
    lines = [
        Text(printable(row.callpath), style="bold"),
        Text(printable(f"{row.metric}, class {row.behaviour}: {row.text or 'no model yet'}")),
    ]
    names = ",".join(parameters)
    points = [
        f"{','.join(f'{value:g}' for value in at)}: {quantity(value, row.unit)}"
        for at, value in row.points[-12:]
    ]
    if points:
        lines.append(Text(printable(f"{names} = {'   '.join(points)}{error}{live}"), style="dim"))
    return Text("\n").join(lines)
