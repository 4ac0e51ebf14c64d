"""Screens of the terminal as text, to be compared with reference files.

    python -m tests.views.screens      writes new reference files; check them with `git diff`

The text is read from the picture that Textual exports, without colours and styles.
"""

import asyncio
import html
import math
import os
import re
import tempfile
import time
from fractions import Fraction
from pathlib import Path

import numpy as np
from textual.pilot import Pilot

from insitu.analysis.board import ENDED, LOST, MEASURING, SILENT, Board, LiveRun, RunRow, make_board
from insitu.analysis.forecast import Forecast, LivePath
from insitu.analysis.progress import Agenda
from insitu.analysis.shares import Estimate
from insitu.campaign.store import open_store
from insitu.entities import TIME_EXCLUSIVE, VISITS, CallPath, Finding, Metric, RunKey, RunState
from insitu.modeling.base import (
    ChangePoint,
    Clusters,
    Model,
    ModelSet,
    Quality,
    Segment,
    SeriesModel,
)
from insitu.modeling.measurement import SeriesKey
from insitu.modeling.pmnf import Factor, Function, Term
from insitu.modeling.spread import Spread
from insitu.views.terminal.app import Watch
from insitu.workflows.boards import BoardClient

REFERENCES = Path(__file__).with_name("screens")
SIZES = ((80, 24), (150, 40))
KEYS = {  # the screens in their order, and the keys that open each
    "overview": (),
    "model": ("enter",),
    "counts": ("m",),
    "runs": ("escape", "r"),
    "notes": ("escape", "f"),
    "search": ("escape", "slash", "h", "a", "l", "o", "enter"),
    "cost": ("escape", "s"),
    "ahead": ("p", "left"),
}
CHARACTER = 12.2  # width in the picture
TEXT = re.compile(
    r'<text [^>]*?x="([\d.]+)"[^>]*?clip-path="url\(#[^"]*?-line-(\d+)\)"[^>]*>(.*?)</text>'
)
P = np.array([2.0, 4.0, 8.0, 16.0])
HOSTILE = "main->[red]évil[/]\x1b[2J\u202e->" + "very_long_name_of_a_function" * 3
HALO, SOLVE, EVIL = (CallPath.parse(text) for text in ("main->solve->halo", "main->solve", HOSTILE))
MAIN = CallPath(("main",))


def text_of(svg: str) -> str:
    """The characters of an exported screen, line by line."""
    lines: dict[int, dict[int, str]] = {}
    for x, line, text in TEXT.findall(svg):
        start = round(float(x) / CHARACTER)
        for offset, character in enumerate(html.unescape(text)):
            lines.setdefault(int(line), {})[start + offset] = character.replace("\xa0", " ")
    rows = range(max(lines, default=-1) + 1)
    return "\n".join(_line(lines.get(row, {})) for row in rows) + "\n"


def _line(cells: dict[int, str]) -> str:
    return "".join(cells.get(i, " ") for i in range(max(cells, default=-1) + 1)).rstrip()


def draw_screens(directory: str, size: tuple[int, int]) -> dict[str, str]:
    """All screens at a size, by name. An empty campaign is created in the directory.

    The last line, in which Textual lists the keys, is left out.
    """
    texts: dict[str, str] = {}

    async def run(app: Watch) -> None:
        async with app.run_test(size=size) as pilot:
            app.show(board(), MODELS, agenda())
            for name, keys in KEYS.items():
                for key in keys:
                    await pilot.press(key)
                text = await settled(app, pilot)
                texts[name] = "\n".join(text.splitlines()[: size[1] - 1]).rstrip() + "\n"

    path = os.path.join(directory, "heat.insitu")
    open_store(path, create=True).close()
    with Silent(path) as client:
        asyncio.run(run(Watch(client, "heat.insitu", wait_s=0.02)))
    return texts


class Silent(BoardClient):
    """A source without changes."""

    def newest(self, wait_s: float) -> Board | None:
        time.sleep(wait_s)
        return None

    def models(self) -> ModelSet | None:
        return None

    def agenda(self) -> Agenda | None:
        return agenda()


async def settled(app: Watch, pilot: Pilot[None]) -> str:
    """Wait until the screen no longer changes and shows the outlook at its target."""
    before = ""
    for _ in range(400):
        await pilot.pause(0.05)
        now = text_of(app.export_screenshot())
        if now == before and app.shown.ahead.at == app.shown.target:
            return now
        before = now
    raise AssertionError("the screen keeps changing")


def function(constant: float, slope: float, alpha: Fraction = Fraction(1)) -> Function:
    terms = (Term(slope, (Factor("p", alpha),)),) if slope else ()
    return Function(("p",), constant, terms)


def spread_of(law: Function) -> Spread:
    """The function with 70 %, a constant and a root with the rest."""
    exponents = np.zeros((3, 1, 1, 3))
    exponents[0, 0, 0, 0] = float(law.terms[0].factors[0].alpha) if law.terms else 0.0
    exponents[2, 0, 0, 0] = 0.5
    slope = law.terms[0].coefficient if law.terms else 0.0
    middle = float(law(np.array([[6.0]]))[0])
    coefficients = np.array([[law.constant, slope], [middle, 0.0], [middle / 4, middle / 4]])
    weights = np.array([0.7, 0.2, 0.1])
    return Spread(exponents, coefficients, np.zeros((3, 2, 2)), weights, 0.05, math.inf)


def series(
    path: CallPath, metric: Metric, laws: tuple[Function, ...], behaviour: str = "all"
) -> SeriesModel:
    """A series whose points deviate from its law by a few percent; two laws change at 8."""
    values = np.where(P < 8, laws[0](P[:, None]), laws[-1](P[:, None]))
    model = Model(
        parameters=("p",),
        segments=(Segment(-math.inf, math.inf, laws[0]),)
        if len(laws) == 1
        else (Segment(-math.inf, 4.0, laws[0]), Segment(8.0, math.inf, laws[1])),
        quality=Quality(2.5, 0.987),
        modeler="evidence",
        coordinates=P[:, None],
        values=values * np.array([1.03, 0.98, 1.02, 0.99]),
        change_points=(ChangePoint(4.0, 8.0),) if len(laws) == 2 else (),
        change_probabilities=(0.93,) if len(laws) == 2 else (),
        spreads=tuple(spread_of(law) for law in laws),
        probability=0.7,
    )
    return SeriesModel(SeriesKey(path, metric.name, behaviour), metric, model)


MODELS = ModelSet(
    ("p",),
    (
        series(MAIN, TIME_EXCLUSIVE, (function(0.25, 0.0),)),
        series(SOLVE, TIME_EXCLUSIVE, (function(0.0, 8.0, Fraction(-1)),)),
        series(HALO, TIME_EXCLUSIVE, (function(0.25, 0.125),), "corner"),
        series(HALO, TIME_EXCLUSIVE, (function(0.5, 0.0), function(0.0, 0.25)), "inner"),
        series(EVIL, TIME_EXCLUSIVE, (function(0.0, 0.03125, Fraction(3, 2)),)),
        series(HALO, VISITS, (function(100.0, 0.0),), "corner"),
        series(HALO, VISITS, (function(200.0, 0.0),), "inner"),
    ),
    tuple(
        Clusters(
            HALO,
            metric.name,
            RunKey.of({"p": p}),
            np.array([0, *[1] * (int(p) - 2), 0]),
            ("corner", "inner")[: 1 + (p > 2)],
        )
        for metric in (TIME_EXCLUSIVE, VISITS)
        for p in P.tolist()
    ),
    (
        Finding("classes-differ", "2 and 3 classes of \x1b[31mhalo", "main"),
        *(Finding("too-few-points", f"f{index}: measured at 2 coordinates") for index in range(5)),
    ),
)


def board() -> Board:
    """A run on 32 ranks in progress after five, one of them incomplete."""
    live = LiveRun(
        "live",
        RunKey.of({"p": 32}),
        RunState.MEASURING,
        30,
        0,
        32,
        (LivePath(str(HALO), 60.0, 9.0, 9.0), LivePath(str(SOLVE), 1.0, 9.5, 0.1)),
        ranks=((MEASURING, 29), (SILENT, 1), ("awaited", 2)),
    )
    foreseen = Forecast(
        {
            (str(HALO), "time_exclusive"): Estimate(6.0, 5.0, 7.0),
            (str(HALO), "visits"): Estimate(190.0, 190.0, 190.0),
            (str(HALO), "time"): Estimate(6.0, 5.0, 7.0),
            (str(SOLVE), "time_exclusive"): Estimate(0.25, 0.2, 0.3),
        }
    )
    live_board = make_board([], MODELS, [live], {"live": foreseen})
    runs = tuple(
        RunRow(f"r{p}", f"p={p:g}#0", "sealed", int(p), int(p), int(p), ranks=((ENDED, int(p)),))
        for p in P[::-1].tolist()
    )
    lost = RunRow(
        "x",
        "p=9#[b]\x1b",
        "partial",
        9,
        8,
        8,
        missing=(4,),
        ranks=((ENDED, 4), (LOST, 1), (ENDED, 4)),
    )
    return Board(
        live_board.parameters,
        (*live_board.runs, *runs, lost),
        live_board.series,
        live_board.findings,
    )


def agenda() -> Agenda:
    """Four of twelve runs; the others will take five minutes."""
    return Agenda((), 4, 8, 300.0, 0.5)


def main() -> None:
    """Write all reference files."""
    REFERENCES.mkdir(exist_ok=True)
    for size in SIZES:
        with tempfile.TemporaryDirectory() as directory:
            for name, text in draw_screens(directory, size).items():
                reference_file(name, size).write_text(text, encoding="utf-8")


def reference_file(name: str, size: tuple[int, int]) -> Path:
    """The reference file of a screen."""
    return REFERENCES / f"{name}-{size[0]}x{size[1]}.txt"


if __name__ == "__main__":
    main()
