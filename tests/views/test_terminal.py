"""The live view, driven as a person would, without a terminal."""

import asyncio
import os
import sqlite3
import time
from collections.abc import Awaitable, Callable, Iterator

import pytest
from textual.pilot import Pilot
from textual.widgets import DataTable, Static

from insitu.analysis.board import Board, LiveRun, make_board
from insitu.analysis.diagnosis.lines import headline
from insitu.analysis.forecast import LivePath
from insitu.campaign.load import load_experiment
from insitu.campaign.store import SqliteStore
from insitu.entities import Finding, RunKey, RunState
from insitu.errors import CampaignError
from insitu.modeling.base import ModelSet
from insitu.modeling.pipeline import remodel
from insitu.views.terminal.app import Watch
from insitu.views.terminal.linespage import DiagnosisPage, FindingsPage, HelpPage, RunsPage
from insitu.views.terminal.modelpage import ModelPage
from insitu.views.terminal.overview import Overview
from insitu.views.terminal.prospects import Prospects, Slider
from insitu.workflows.boards import BoardClient
from insitu.workflows.diagnosis import diagnose
from tests.support.campaigns import modelled_campaign
from tests.support.page_server import WAIT_S

SMALL, WIDE = (80, 24), (160, 45)


@pytest.fixture
def store(tmp_path: os.PathLike[str]) -> Iterator[SqliteStore]:
    with modelled_campaign(os.path.join(tmp_path, "heat.insitu"), 1, (4, 8, 16, 32, 64)) as opened:
        yield opened


def watch(
    store: SqliteStore,
    size: tuple[int, int],
    look: Callable[[Watch, Pilot[None]], Awaitable[None]],
) -> Watch:
    """Run the application at a size, wait for its first board, let `look` drive it."""

    async def run(app: Watch) -> None:
        async with app.run_test(size=size) as pilot:
            for _ in range(1200):  # a minute, on a machine that is busy
                await pilot.pause(0.05)
                if app.trouble is not None or table_of(app).row_count:
                    break
            assert table_of(app).row_count or app.trouble is not None
            await look(app, pilot)

    with BoardClient(store.path) as client:
        app = Watch(client, "heat.insitu", wait_s=0.05)
        asyncio.run(run(app))
    return app


async def until(pilot: Pilot[None], claim: Callable[[], bool]) -> None:
    """Wait for what is drawn a moment later."""
    end = time.monotonic() + WAIT_S
    while not claim():
        assert time.monotonic() < end, "it did not come"
        await pilot.pause(0.025)


def table_of(app: Watch) -> "DataTable[object]":
    return app.screen.query_one("#series", DataTable)


def text_of(app: Watch, name: str) -> str:
    return str(app.screen.query_one(f"#{name}", Static).render())


def rows_of(app: Watch) -> list[list[str]]:
    table = table_of(app)
    return [[str(cell) for cell in table.get_row_at(i)] for i in range(table.row_count)]


def test_sorted_by_cost_the_most_expensive_call_path_is_first(
    store: SqliteStore,
):
    async def look(app: Watch, pilot: Pilot[None]) -> None:
        await pilot.press("s")
        await until(pilot, lambda: "by cost" in text_of(app, "selection"))
        rows = rows_of(app)
        assert rows[0][2].endswith("MPI_Sendrecv")
        assert rows[0][-1] == "▁▅▇██"  # the mean over all ranks, before its classes
        solve = next(row for row in rows if row[2] == "main->solve")
        assert "p^(-1)" in solve[4]
        assert "time_exclusive (m) over p · by cost (s)" in text_of(app, "selection")
        assert "p=64#0 complete" in text_of(app, "runs")

    watch(store, SMALL, look)


def test_columns_fill_80_characters_and_no_more(store: SqliteStore):
    async def look(app: Watch, pilot: Pilot[None]) -> None:
        for _ in range(2):
            table = table_of(app)
            assert table.virtual_size.width <= 80
            await pilot.press("m")

    watch(store, SMALL, look)


@pytest.mark.full
def test_m_shows_the_next_metric_and_at_last_all_of_them(store: SqliteStore):
    async def look(app: Watch, pilot: Pilot[None]) -> None:
        seen = []
        for _ in range(5):
            seen.append(text_of(app, "selection").split(" · ")[0])
            await pilot.press("m")
        assert [name.split(" (m)")[0] for name in seen] == [
            "time_exclusive",
            "time",
            "visits",
            "bytes_sent",
            "all metrics",
        ]

    watch(store, SMALL, look)


def test_arrows_choose_the_call_path_that_is_told_in_full(store: SqliteStore):
    async def look(app: Watch, pilot: Pilot[None]) -> None:
        await pilot.press("s")
        await until(pilot, lambda: "by cost" in text_of(app, "selection"))
        await pilot.press(*["up"] * table_of(app).row_count)
        await until(pilot, lambda: "MPI_Sendrecv" in text_of(app, "detail"))
        first = text_of(app, "detail")
        await pilot.press("down", "down", "down")
        await pilot.pause()
        assert "main->solve->exchange->MPI_Sendrecv" in first
        assert "main->solve->residual->MPI_Allreduce" in text_of(app, "detail")
        assert "p = 4: 1" in text_of(app, "detail")

    watch(store, SMALL, look)


@pytest.mark.full
def test_the_chosen_row_stays_chosen_when_the_board_grows(store: SqliteStore):
    async def look(app: Watch, pilot: Pilot[None]) -> None:
        await pilot.press("down", "down")
        await pilot.pause()
        before = text_of(app, "detail")
        fewer = remodel(load_experiment(store)).models[:-1]
        app.show(make_board(store.runs(), ModelSet(("p",), fewer)))
        await pilot.pause()
        assert text_of(app, "detail").splitlines()[0] == before.splitlines()[0]

    watch(store, SMALL, look)


def test_findings_are_shown_on_demand_and_always_where_there_is_room(store: SqliteStore):
    found = tuple(Finding("classes-differ", f"2 and {number}") for number in range(3, 7))

    async def small(app: Watch, pilot: Pilot[None]) -> None:
        app.show(make_board([], ModelSet(findings=found)))
        assert not app.screen.query_one("#findings").display
        await pilot.press("f")
        await until(pilot, lambda: isinstance(app.screen, FindingsPage))
        await until(pilot, lambda: "classes-differ (4)\n  • 2 and 3\n" in text_of(app, "lines"))
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, Overview))
        assert app.screen.query_one("#series").has_focus

    async def wide(app: Watch, pilot: Pilot[None]) -> None:
        app.show(make_board([], ModelSet(findings=found)))
        await pilot.pause()
        assert app.screen.query_one("#findings").display
        assert "classes-differ: 2 and 3" in text_of(app, "findings")
        assert "… and 2 more of these" in text_of(app, "findings")

    watch(store, SMALL, small)
    watch(store, WIDE, wide)


@pytest.mark.full
def test_a_question_mark_lists_the_keys(store: SqliteStore):
    async def look(app: Watch, pilot: Pilot[None]) -> None:
        await pilot.press("question_mark")
        await until(pilot, lambda: isinstance(app.screen, HelpPage))
        await until(pilot, lambda: "sort by the next column" in text_of(app, "lines"))
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, Overview))

    watch(store, SMALL, look)


def test_d_shows_the_diagnosis(store: SqliteStore):
    expected = headline(diagnose(store.path))

    async def look(app: Watch, pilot: Pilot[None]) -> None:
        await pilot.press("d")
        await until(pilot, lambda: isinstance(app.screen, DiagnosisPage))
        await until(pilot, lambda: expected in " ".join(text_of(app, "lines").split()))

    watch(store, SMALL, look)


def test_the_diagnosis_is_the_first_screen_of_a_campaign_with_runs(store: SqliteStore):
    async def run(app: Watch) -> None:
        async with app.run_test(size=SMALL) as pilot:
            await until(pilot, lambda: isinstance(app.screen, DiagnosisPage))
            await pilot.press("escape")
            await until(pilot, lambda: isinstance(app.screen, Overview))
            await until(pilot, lambda: "p=64#0 complete" in text_of(app, "runs"))

    with BoardClient(store.path) as client:
        asyncio.run(run(Watch(client, "heat.insitu", wait_s=0.05, opens_diagnosis=True)))


def test_a_live_run_shows_its_ranks_and_what_they_spend(store: SqliteStore):
    live = LiveRun(
        "x", RunKey.of({"p": 8}), RunState.MEASURING, 6, 2, 8, (LivePath("main->[b]new", 1, 0.5),)
    )

    async def look(app: Watch, pilot: Pilot[None]) -> None:
        app.show(make_board([], ModelSet(findings=(Finding("a", "[red]\x1b[2J"),)), [live]))
        await pilot.pause()
        assert "p=8#0 measuring  █▒▒▒·· 6 of 8 heard, 2 ended" in text_of(app, "runs")
        assert rows_of(app)[0][2] == "main->[b]new"
        assert "now 500 ms" in rows_of(app)[0]
        assert "[red]\\x1b[2J" in text_of(app, "findings")

    watch(store, SMALL, look)


def test_call_paths_without_models_say_what_models_need(store: SqliteStore):
    """The second screen after the first run was an empty table."""
    text = "models need 3 values of p, 1 measured so far"

    async def look(app: Watch, pilot: Pilot[None]) -> None:
        app.show(make_board([], ModelSet(findings=(Finding("too-few-points", text),))))
        await pilot.pause()
        assert text in text_of(app, "selection")

    watch(store, SMALL, look)


@pytest.mark.full
def test_an_empty_board_is_shown_too(store: SqliteStore):
    async def look(app: Watch, pilot: Pilot[None]) -> None:
        app.show(Board())
        await pilot.pause()
        assert "no run yet" in text_of(app, "runs")
        for key in ("m", "c", "s", "down", "enter", "p", "f", "escape", "r", "escape"):
            await pilot.press(key)
            await pilot.pause()

    watch(store, SMALL, look)


def test_a_campaign_that_cannot_be_read_any_more_ends_the_view(store: SqliteStore):
    with sqlite3.connect(os.path.join(store.path, "campaign.db")) as connection:
        connection.execute("DROP TABLE run")

    async def look(app: Watch, pilot: Pilot[None]) -> None:
        await pilot.pause()

    assert isinstance(watch(store, SMALL, look).trouble, CampaignError)


def test_a_text_is_searched_while_it_is_typed_and_escape_shows_all_again(store: SqliteStore):
    async def look(app: Watch, pilot: Pilot[None]) -> None:
        everything = len(rows_of(app))
        await pilot.press("slash", *"Allreduce")
        await until(pilot, lambda: len(rows_of(app)) == 1)
        assert "matching Allreduce" in text_of(app, "selection")
        await pilot.press("enter", "escape")
        await until(pilot, lambda: len(rows_of(app)) == everything)

    watch(store, SMALL, look)


@pytest.mark.full
def test_s_changes_the_order_and_c_the_class(store: SqliteStore):
    async def look(app: Watch, pilot: Pilot[None]) -> None:
        assert "by tree" in text_of(app, "selection")
        assert [row[2] for row in rows_of(app)][:2] == ["main", "  solve"]
        while "class end" not in text_of(app, "selection"):
            await pilot.press("c")
            await pilot.pause()
        assert {row[3] for row in rows_of(app)} == {"end"}

    watch(store, SMALL, look)


@pytest.mark.full
def test_the_mouse_sorts_by_a_column_and_opens_a_row(store: SqliteStore):
    async def look(app: Watch, pilot: Pilot[None]) -> None:
        table = table_of(app)
        await until(pilot, lambda: table.row_count > 2 and table.virtual_size.height > 2)
        await pilot.pause()
        await pilot.click(table, offset=(16, 0))
        await until(pilot, lambda: "by name" in text_of(app, "selection"))
        await pilot.click(table, offset=(16, 2))
        await pilot.click(table, offset=(16, 2))
        await until(pilot, lambda: isinstance(app.screen, ModelPage))
        assert "main->solve" in text_of(app, "title")

    watch(store, SMALL, look)


def test_a_page_shows_candidates_and_residuals_of_each_metric(store: SqliteStore):
    async def look(app: Watch, pilot: Pilot[None]) -> None:
        await until(pilot, lambda: bool(app.shown.models.models))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, ModelPage))
        await until(pilot, lambda: "candidates" in text_of(app, "facts"))
        assert "64 ranks at p=64" in text_of(app, "picture")
        assert "●" in text_of(app, "picture")
        first = text_of(app, "title")
        await pilot.press("m")
        await until(pilot, lambda: text_of(app, "title") != first)
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, Overview))

    watch(store, WIDE, look)


@pytest.mark.full
def test_keys_and_mouse_move_the_scale_at_which_costs_are_predicted(store: SqliteStore):
    async def look(app: Watch, pilot: Pilot[None]) -> None:
        await until(pilot, lambda: app.shown.ahead.at == (4096.0,))
        await pilot.press("p")
        await until(pilot, lambda: isinstance(app.screen, Prospects))
        await pilot.press("pageup")
        await until(pilot, lambda: app.shown.ahead.at == (8192.0,))
        assert "p = 8192" in text_of(app, "title")
        table = app.screen.query_one("#prospects", DataTable)
        await until(pilot, lambda: str(table.get_row_at(0)[0]).endswith("MPI_Sendrecv"))
        await pilot.click(Slider, offset=(12, 0))
        await until(pilot, lambda: app.shown.ahead.at == (4.0,))
        assert "within the measured range" in str(app.screen.query_one(Slider).render())

    watch(store, SMALL, look)


@pytest.mark.parametrize("key", ["", "enter", "p", "d", "r"])
def test_the_keys_of_help_and_quit_are_on_the_screen_everywhere(store: SqliteStore, key: str):
    async def look(app: Watch, pilot: Pilot[None]) -> None:
        overview = app.screen
        if key:
            await pilot.press(key)
            await until(pilot, lambda: app.screen is not overview)

        def shown() -> set[str]:
            keys = app.screen.query("Footer FooterKey")
            return {each.description for each in keys if each.region.right <= SMALL[0]}

        await until(pilot, lambda: "quit" in shown())
        assert {"help", "quit"} <= shown()

    watch(store, SMALL, look)


@pytest.mark.full
def test_every_rank_has_its_sign(store: SqliteStore):
    ranks = (("ended", 3), ("lost", 1), ("silent", 1), ("measuring", 3))
    live = LiveRun("x", RunKey.of({"p": 8}), RunState.MEASURING, 7, 3, 8, ranks=ranks)

    async def look(app: Watch, pilot: Pilot[None]) -> None:
        app.show(make_board([], ModelSet(), [live]))
        await pilot.press("r")
        await until(pilot, lambda: isinstance(app.screen, RunsPage))
        assert "███×?▒▒▒" in text_of(app, "lines")

    watch(store, SMALL, look)


def test_runs_whose_aggregator_was_killed_are_named(store: SqliteStore):
    live = LiveRun("x", RunKey.of({"p": 8}), RunState.MEASURING, 8, 0, 8, ())

    async def look(app: Watch, pilot: Pilot[None]) -> None:
        app.show(make_board([], ModelSet(), [live]))
        await pilot.pause()
        app.show(Board())
        await pilot.pause()
        assert "p=8#0 is not seen any more, since the aggregator ended" in text_of(app, "runs")
        app.show(make_board([], ModelSet(), [live]))
        await pilot.pause()
        assert "not seen any more" not in text_of(app, "runs")

    watch(store, SMALL, look)


def test_a_campaign_that_is_still_being_read_is_not_said_to_be_empty(store: SqliteStore):
    async def run(app: Watch) -> None:
        async with app.run_test(size=SMALL) as pilot:
            app.shown.is_read = False
            app.shown.board = Board()
            app.screen.draw()
            await pilot.pause()
            assert "reading the campaign" in text_of(app, "runs")
            assert "0 runs" not in text_of(app, "title")

    with BoardClient(store.path) as client:
        app = Watch(client, "heat.insitu", wait_s=0.05)
        app._listen = lambda: None
        asyncio.run(run(app))


def test_control_c_ends_the_view(store: SqliteStore):
    async def look(app: Watch, pilot: Pilot[None]) -> None:
        await pilot.press("ctrl+c")
        await pilot.pause()
        assert not app.is_running

    watch(store, SMALL, look)
