"""The terminal application: shows a campaign and follows it while it grows."""

import gc
import threading
from collections.abc import Mapping
from typing import ClassVar

from textual import on, work
from textual.app import App
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.worker import get_current_worker

from insitu.analysis.board import Board
from insitu.analysis.diagnosis.diagnose import Diagnosis
from insitu.analysis.outlook import Outlook, make_outlook, outlook_target
from insitu.analysis.progress import Agenda
from insitu.errors import InsituError
from insitu.modeling.base import ModelSet
from insitu.views.source import BoardSource
from insitu.views.terminal.linespage import DiagnosisPage, FindingsPage, HelpPage, RunsPage
from insitu.views.terminal.modelpage import ModelPage
from insitu.views.terminal.overview import Overview
from insitu.views.terminal.prospects import Prospects
from insitu.views.terminal.view import IN_PROGRESS, WIDE, ScreenState, View

NO_TARGET: Mapping[str, float] = {}
WAIT_S = 1.0  # how long the reading thread waits for a board
PAGES: dict[str, type[View]] = {
    "ahead": Prospects,
    "diagnosis": DiagnosisPage,
    "findings": FindingsPage,
    "help": HelpPage,
    "runs": RunsPage,
}

CSS = """
Screen { layout: vertical; }
#title { height: auto; padding: 0 1; background: $primary 30%; }
#runs { height: auto; max-height: 6; padding: 0 1; border-bottom: solid $primary 40%; }
#side { height: auto; }
#main { height: 1fr; }
#selection { height: 1; padding: 0 1; color: $text-muted; }
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
    """The application. Holds the data that its screens draw, and reads it in a thread."""

    CSS = CSS
    ENABLE_COMMAND_PALETTE = False
    VERTICAL_BREAKPOINTS = [(0, "-low"), (30, "-high")]  # noqa: RUF012
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (WIDE, "-wide")]  # noqa: RUF012
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "diagnosis", "diagnosis"),
        Binding("p", "ahead", "ahead"),
        Binding("r", "runs", "runs"),
        Binding("f", "findings", "findings"),
        Binding("question_mark", "help", "help"),
        Binding("q", "quit", "quit"),
        Binding("ctrl+c", "quit", "quit", show=False, priority=True),
    ]

    def __init__(
        self,
        source: BoardSource,
        campaign: str,
        *,
        wait_s: float = WAIT_S,
        opens_diagnosis: bool = False,
    ) -> None:
        """Show `campaign`, read from `source`. The caller closes the source.

        With `opens_diagnosis`, the diagnosis is the first screen, unless there is no run yet.
        """
        super().__init__()
        self.trouble: InsituError | None = None
        self.shown = ScreenState(campaign)
        self._source = source
        self._wait_s = wait_s
        self._opens_diagnosis = opens_diagnosis
        self._outlook_request: tuple[ModelSet, tuple[float, ...]] | None = None
        self._has_request = threading.Event()

    def get_default_screen(self) -> Screen[None]:
        """The first screen."""
        return Overview(self.shown)

    def on_mount(self) -> None:
        """Start the reading threads."""
        self._listen()
        self._compute_outlooks()

    @work(thread=True, exclusive=True, group="listen")
    def _listen(self) -> None:
        """Read boards until the application ends. Runs in a thread, because reading blocks."""
        worker = get_current_worker()
        while not worker.is_cancelled:
            try:
                board = self._source.newest(self._wait_s)
                models = self._source.models()
                agenda, target = self._source.agenda(), self._source.target()
                activity = self._source.activity()
            except InsituError as error:
                self.trouble = error
                self.call_from_thread(self.exit)
                return

            if models is not None:
                gc.collect()
                gc.freeze()  # models are many and long-lived: keep them out of every collection

            is_new = board is not None or models is not None or agenda != self.shown.agenda
            is_new |= not self.shown.is_read
            if activity != self.shown.activity:
                self.shown.activity, is_new = activity, True
            if is_new and not worker.is_cancelled:
                self.call_from_thread(self.show, board, models, agenda, target)

    @work(thread=True, exclusive=True, group="diagnosis")
    def _diagnose(self) -> None:
        """Diagnose the campaign. Reads all runs, which may take seconds."""
        worker = get_current_worker()
        try:
            diagnosis = self._source.diagnosis()
        except InsituError as error:
            self.trouble = error
            self.call_from_thread(self.exit)
            return
        if not worker.is_cancelled:
            self.call_from_thread(self._show_diagnosis, diagnosis)

    @work(thread=True, exclusive=True, group="ahead")
    def _compute_outlooks(self) -> None:
        """Compute the outlook that was requested last. Many models take a moment."""
        worker = get_current_worker()
        while not worker.is_cancelled:
            if not self._has_request.wait(self._wait_s):
                continue
            self._has_request.clear()
            request = self._outlook_request
            if request is not None:
                outlook = make_outlook(*request)
                if not worker.is_cancelled:
                    self.call_from_thread(self._show_outlook, outlook)

    def show(
        self,
        board: Board | None,
        models: ModelSet | None = None,
        agenda: Agenda | None = None,
        target: Mapping[str, float] = NO_TARGET,
    ) -> None:
        """Draw what has changed: the board, the models, the agenda.

        `target` has the values of parameters that campaign.toml names as the target.
        """
        shown = self.shown
        shown.is_live, shown.agenda = self._source.is_live, agenda
        shown.is_read = True
        if board is not None:
            in_progress = [run.name for run in shown.board.runs if run.state in IN_PROGRESS]
            present = {run.name for run in board.runs}
            lost = [name for name in (*shown.lost_runs, *in_progress) if name not in present]
            shown.lost_runs = () if shown.is_live else tuple(dict.fromkeys(lost))
            shown.board = board
        if models is not None:
            keeps_target = models.parameters == shown.models.parameters and bool(shown.target)
            shown.models = models
            self._request_outlook(shown.target if keeps_target else outlook_target(models, target))
            if isinstance(self.screen, DiagnosisPage):
                self._diagnose()

        if self._opens_diagnosis and shown.board.runs:
            self._opens_diagnosis = False
            self.action_diagnosis()

        self._draw()

    @on(Overview.Opened)
    def _open(self, event: Overview.Opened) -> None:
        self.push_screen(ModelPage(self.shown, event.row.callpath, event.row.metric))

    @on(Prospects.Chosen)
    def _choose(self, event: Prospects.Chosen) -> None:
        self._request_outlook(event.at)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable the key of the screen that is open."""
        page = PAGES.get(action)
        return page is None or not isinstance(self.screen, page)

    def action_ahead(self) -> None:
        """Open the screen of predictions."""
        if self.shown.models.models:
            self.push_screen(Prospects(self.shown))

    def action_diagnosis(self) -> None:
        """Open the screen of the diagnosis."""
        self.shown.is_diagnosing = True
        self._diagnose()
        self.push_screen(DiagnosisPage(self.shown))

    def action_help(self) -> None:
        """Open the screen of keys."""
        self.push_screen(HelpPage(self.shown))

    def action_runs(self) -> None:
        """Open the screen of runs and their ranks."""
        self.push_screen(RunsPage(self.shown))

    def action_findings(self) -> None:
        """Open the screen of findings."""
        self.push_screen(FindingsPage(self.shown))

    def _request_outlook(self, at: tuple[float, ...]) -> None:
        """Compute the outlook at another coordinate as soon as the thread is free."""
        self.shown.target = at
        self._outlook_request = (self.shown.models, at)
        self._has_request.set()

    def _show_diagnosis(self, diagnosis: Diagnosis | None) -> None:
        self.shown.diagnosis, self.shown.is_diagnosing = diagnosis, False
        self._draw()

    def _show_outlook(self, outlook: Outlook) -> None:
        self.shown.ahead = outlook
        self._draw()

    def _draw(self) -> None:
        if isinstance(self.screen, View):
            self.screen.draw()
