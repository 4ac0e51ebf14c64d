"""A campaign in a terminal, redrawn as it grows."""

import gc
import threading
from typing import ClassVar

from textual import on, work
from textual.app import App
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.worker import get_current_worker

from insitu.analysis.board import Board
from insitu.analysis.outlook import Outlook, make_outlook, outlook_target
from insitu.analysis.progress import Agenda
from insitu.errors import InsituError
from insitu.modeling.base import ModelSet
from insitu.views.source import BoardSource
from insitu.views.terminal.linespage import FindingsPage, RunsPage
from insitu.views.terminal.modelpage import ModelPage
from insitu.views.terminal.overview import Overview
from insitu.views.terminal.prospects import Prospects
from insitu.views.terminal.view import WIDE, Shown, View

BEAT_S = 1.0
PAGES: dict[str, type[View]] = {"ahead": Prospects, "runs": RunsPage, "findings": FindingsPage}

CSS = """
Screen { layout: vertical; }
#title { height: auto; padding: 0 1; background: $primary 30%; }
#runs { height: auto; max-height: 6; padding: 0 1; border-bottom: solid $primary 40%; }
#side { height: auto; }
#main { height: 1fr; }
#asked { height: 1; padding: 0 1; color: $text-muted; }
#search { display: none; height: 1; border: none; padding: 0 1; }
.-searching #search { display: block; }
#series, #prospects { height: 1fr; overflow-x: hidden; scrollbar-size-vertical: 1; }
#detail { height: auto; max-height: 8; padding: 0 1; border-top: solid $primary 40%; }
#findings { height: auto; padding: 0 1; display: none; overflow-y: auto; }
#left, #right { height: auto; padding: 0 1; scrollbar-size-vertical: 1; }
#right { height: 1fr; border-top: solid $primary 40%; }
#all { height: 1fr; padding: 0 1; scrollbar-size-vertical: 1; }
#sliders { height: auto; padding: 1 0; border-bottom: solid $primary 40%; }
.slider { height: 1; }
#trust { height: 1; padding: 0 1; }
Screen.-low #detail { max-height: 4; border: none; background: $primary 15%; }
Screen.-low #runs { border: none; background: $primary 10%; }
Overview.-wide { layout: grid; grid-size: 2; grid-columns: 46 1fr; grid-rows: 1 1fr 6; }
Overview.-wide #title { column-span: 2; }
Overview.-wide #side { height: 100%; border-right: solid $primary 40%; }
Overview.-wide #runs { border-bottom: none; max-height: 50%; }
Overview.-wide #detail { column-span: 2; height: 6; }
Overview.-wide #findings { display: block; height: 1fr; max-height: 100%; }
ModelPage.-wide { layout: grid; grid-size: 2; grid-columns: 1fr 66; grid-rows: 2 1fr; }
ModelPage.-wide #title { column-span: 2; }
ModelPage.-wide #left, ModelPage.-wide #right { height: 100%; border: none; }
ModelPage.-wide #right { border-left: solid $primary 40%; }
"""


class Watch(App[None]):
    """The screens of a campaign, and what they show."""

    CSS = CSS
    ENABLE_COMMAND_PALETTE = False
    VERTICAL_BREAKPOINTS = [(0, "-low"), (30, "-high")]  # noqa: RUF012
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (WIDE, "-wide")]  # noqa: RUF012
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("p", "ahead", "ahead"),
        Binding("r", "runs", "runs"),
        Binding("f", "findings", "notes"),
        Binding("q", "quit", "quit"),
    ]

    def __init__(self, client: BoardSource, campaign: str, *, beat_s: float = BEAT_S) -> None:
        """Show what `client` reads of `campaign`; whoever made the client closes it."""
        super().__init__()
        self.trouble: InsituError | None = None
        self.shown = Shown(campaign)
        self._client = client
        self._beat_s = beat_s
        self._asked: tuple[ModelSet, tuple[float, ...]] | None = None  # to look ahead at
        self._wish = threading.Event()

    def get_default_screen(self) -> Screen[None]:
        """The first one."""
        return Overview(self.shown)

    def on_mount(self) -> None:
        """Begin to listen."""
        self._listen()
        self._look_ahead()

    @work(thread=True, exclusive=True, group="listen")
    def _listen(self) -> None:
        """Read boards until the end; a thread of its own, for reading waits."""
        worker = get_current_worker()
        while not worker.is_cancelled:
            try:
                board = self._client.newest(self._beat_s)
                models = self._client.models()
                agenda = self._client.agenda()
            except InsituError as error:
                self.trouble = error
                self.call_from_thread(self.exit)
                return
            if models is not None:
                gc.collect()
                gc.freeze()  # they are many and stay: not to be looked through with each board
            is_new = board is not None or models is not None or agenda != self.shown.agenda
            if is_new and not worker.is_cancelled:
                self.call_from_thread(self.show, board, models, agenda)

    @work(thread=True, exclusive=True, group="ahead")
    def _look_ahead(self) -> None:
        """Ask the models of the place that is wanted last; many take a moment."""
        worker = get_current_worker()
        while not worker.is_cancelled:
            if not self._wish.wait(self._beat_s):
                continue
            self._wish.clear()
            asked = self._asked
            if asked is not None:
                found = make_outlook(*asked)
                if not worker.is_cancelled:
                    self.call_from_thread(self._seen_ahead, found)

    def show(
        self, board: Board | None, models: ModelSet | None = None, agenda: Agenda | None = None
    ) -> None:
        """Draw a board; where models are given, these are new, too."""
        shown = self.shown
        shown.is_live, shown.agenda = self._client.is_live, agenda
        if board is not None:
            shown.board = board
        if models is not None:
            knows = models.parameters == shown.models.parameters and bool(shown.target)
            shown.models = models
            self._want(shown.target if knows else outlook_target(models))
        self._draw()

    @on(Overview.Opened)
    def _open(self, event: Overview.Opened) -> None:
        self.push_screen(ModelPage(self.shown, event.row.callpath, event.row.metric))

    @on(Prospects.Chosen)
    def _choose(self, event: Prospects.Chosen) -> None:
        self._want(event.at)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """No screen leads to itself."""
        page = PAGES.get(action)
        return page is None or not isinstance(self.screen, page)

    def action_ahead(self) -> None:
        """Show what the models predict."""
        if self.shown.models.models:
            self.push_screen(Prospects(self.shown))

    def action_runs(self) -> None:
        """Show all runs with their ranks."""
        self.push_screen(RunsPage(self.shown))

    def action_findings(self) -> None:
        """Show all findings in full."""
        self.push_screen(FindingsPage(self.shown))

    def _want(self, at: tuple[float, ...]) -> None:
        """Look ahead at another place as soon as there is time."""
        self.shown.target = at
        self._asked = (self.shown.models, at)
        self._wish.set()

    def _seen_ahead(self, found: Outlook) -> None:
        self.shown.ahead = found
        self._draw()

    def _draw(self) -> None:
        if isinstance(self.screen, View):
            self.screen.draw()
