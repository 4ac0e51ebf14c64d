"""The page in a real browser, with a real server, aggregator and run behind it."""

import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest

from insitu.campaign.load import load_experiment
from insitu.campaign.lock import RunsLock
from insitu.campaign.store import open_store
from insitu.entities import (
    TIME,
    TIME_EXCLUSIVE,
    VISITS,
    CallPath,
    Configuration,
    Finding,
    RunKey,
    RunRecord,
    RunState,
)
from insitu.modeling.measurement import RunTable
from insitu.modeling.pipeline import remodel
from insitu.workflows.diagnosis import diagnose
from tests.support.campaigns import heat_campaign, modelled_campaign
from tests.support.page_server import ROOT, Page, child_of, page_at, served
from tests.support.parameters import plain_and_full

pytest.importorskip("starlette", reason="the page needs Starlette: pip install 'insitu[web]'")
pytest.importorskip("uvicorn", reason="the page needs uvicorn: pip install 'insitu[web]'")
playwright = pytest.importorskip(
    "playwright.sync_api", reason="a browser is driven by Playwright: pip install playwright"
)

CHROMIUM = "/usr/bin/chromium"
WAIT_MS = 20_000
EVIL = (
    "<script>document.title='bad'</script>",
    '"><img src=x onerror="document.title=\'bad\'">',
    "' onmouseover='document.title=1",
    "a\u202egnp.exe",
    "tab\tline\nend\u2028sep\x1b[31m",
    "{{7*7}}${7*7}",
    "x" * 3000,
)
APP = """
    import os, sys, time

    LAST = time.perf_counter() + 60

    def kernel():
        time.sleep(0.003)

    def main():
        while not os.path.exists(sys.argv[1]) and time.perf_counter() < LAST:
            kernel()

    main()
"""


@pytest.fixture(scope="module")
def browser() -> Iterator["playwright.Browser"]:
    if not os.path.exists(CHROMIUM):
        pytest.skip(f"{CHROMIUM} is missing: apt-get install chromium")
    rules = "--host-resolver-rules=MAP evil.example 127.0.0.1"
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu", rules]
        )
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def shared_tab(browser: "playwright.Browser") -> Iterator["playwright.Page"]:
    """One tab for all tests: Chromium takes a second of a processor to open another one."""
    with browser.new_context(color_scheme="light") as context:
        opened = context.new_page()
        opened.set_default_timeout(WAIT_MS)
        yield opened


@pytest.fixture
def tab(shared_tab: "playwright.Page") -> Iterator["playwright.Page"]:
    """A tab without traces of earlier tests, in which no error or dialog may appear."""
    messages: list[str] = []
    listeners = {
        "console": lambda message: messages.append(message.text),
        "pageerror": lambda error: messages.append(str(error)),
        "dialog": lambda dialog: messages.append(dialog.message),
    }
    for event, listener in listeners.items():
        shared_tab.on(event, listener)
    shared_tab.set_viewport_size({"width": 1280, "height": 800})
    yield shared_tab

    shared_tab.unroute_all()
    shared_tab.evaluate("location.protocol === 'about:' || localStorage.clear()")
    shared_tab.goto("about:blank")
    shared_tab.context.clear_cookies()
    for event, listener in listeners.items():
        shared_tab.remove_listener(event, listener)
    # Chromium tells of servers that were killed, and of answers that say that the server failed.
    unexpected = [text for text in messages if "Failed to load resource" not in text]
    assert unexpected == []


@pytest.fixture(scope="module")
def heat(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    path = os.path.join(tmp_path_factory.mktemp("heat"), "heat.insitu")
    modelled_campaign(path, 1, (4, 8, 16, 32, 64)).close()
    with served(path) as page:
        yield page


def campaign_of(path: Path, runs: dict[RunKey, dict[str, tuple[float, float]]]) -> str:
    """A campaign of runs with one rank; visits and seconds by call path."""
    with open_store(str(path), create=True) as store:
        for key, values in runs.items():
            columns = np.array(list(values.values()))
            table = RunTable(
                callpaths=tuple(CallPath.parse(name) for name in values),
                metrics=(VISITS, TIME),
                values={"visits": columns[:, :1], "time": columns[:, 1:]},
            )
            store.add_run(RunRecord(str(key), key, RunState.COMPLETE, exit_status=(0,)), table)
        store.put_models(remodel(load_experiment(store)))
    return str(path)


def changed(tab: "playwright.Page", selector: str, was: str | None) -> None:
    """Wait until the text of an element changes."""
    tab.wait_for_function(
        "([it, was]) => (document.querySelector(it)?.textContent ?? was) !== was",
        arg=[selector, was],
    )


def painted(tab: "playwright.Page", plot: str, colour: str) -> int:
    """How many pixels of a plot have a colour of the style sheet."""
    return tab.evaluate(
        """([plot, name]) => {
            const hex = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
            const want = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
            const canvas = document.querySelector(`${plot} canvas`);
            const { width, height } = canvas;
            const copy = new OffscreenCanvas(width, height).getContext("2d");
            copy.drawImage(canvas, 0, 0);
            const { data } = copy.getImageData(0, 0, width, height);
            let count = 0;
            for (let i = 0; i < data.length; i += 4) {
                if (want.every((channel, k) => Math.abs(channel - data[i + k]) < 3)) count++;
            }
            return count;
        }""",
        [plot, colour],
    )


def test_a_word_filters_the_call_paths_and_keys_move_the_selection(heat: Page, tab):
    tab.goto(f"{heat.address}#paths")
    tab.wait_for_selector("#rows tr:nth-child(5)")

    tab.keyboard.press("/")
    tab.keyboard.type("allreduce")
    tab.wait_for_function("() => document.querySelectorAll('#rows tr').length === 3")
    tab.keyboard.press("Enter")
    tab.wait_for_selector("#rows tr.chosen:has-text('MPI_Allreduce')")
    tab.keyboard.press("Enter")
    tab.wait_for_selector("#view-model h2:has-text('MPI_Allreduce')")
    tab.keyboard.press("Escape")
    tab.keyboard.press("/")
    tab.keyboard.press("Escape")
    tab.wait_for_function("() => document.querySelectorAll('#rows tr').length > 4")
    before = tab.text_content("#chosen")
    tab.keyboard.press("ArrowUp")
    changed(tab, "#chosen", before)

    assert tab.locator("#rows tr.chosen").count() == 1


def test_a_plot_shows_its_classes_on_linear_and_logarithmic_axes_in_both_themes(heat: Page, tab):
    tab.goto(f"{heat.address}#paths?metric=time_exclusive&path=main->solve->exchange->MPI_Sendrecv")
    tab.wait_for_selector("#plot canvas")
    assert tab.locator("#legend li").count() == 3  # the mean of all ranks and two classes
    linear = [painted(tab, "#plot", name) for name in ("--c1", "--c2")]
    tab.keyboard.press("y")
    tab.wait_for_function("() => location.hash.includes('y=log')")
    tab.keyboard.press("t")
    tab.keyboard.press("t")
    tab.wait_for_function("() => document.documentElement.dataset.theme === 'dark'")

    assert min(linear) > 100
    assert min(painted(tab, "#plot", name) for name in ("--c1", "--c2")) > 100


def test_the_page_of_a_model_shows_segments_candidates_points_and_residuals(heat: Page, tab):
    tab.goto(f"{heat.address}#model?path=main->solve&metric=time_exclusive&rivals=yes")
    tab.wait_for_selector("#m-plot canvas")

    assert "p^(-1)" in (tab.text_content("#m-segments") or "")
    assert tab.locator("#m-candidates tr").count() >= 1
    assert tab.locator("#m-points tr").count() == 5
    assert painted(tab, "#m-residuals", "--c0") > 50


@pytest.mark.full
def test_several_call_paths_share_a_plot(heat: Page, tab):
    tab.goto(f"{heat.address}#compare?metric=time_exclusive&pins=main&pins=main->solve")
    tab.wait_for_selector("#c-plot canvas")

    assert tab.locator("#c-legend li").count() == 2
    assert min(painted(tab, "#c-plot", name) for name in ("--c0", "--c1")) > 100


def test_a_slider_selects_the_coordinate_of_the_outlook(heat: Page, tab):
    tab.goto(f"{heat.address}#outlook?at=p%3D4")
    tab.wait_for_selector("#shares .target", state="attached")
    near = tab.text_content("#headline")
    tab.locator("#sliders input[type=range]").press("End")
    changed(tab, "#headline", near)

    assert "At p = 4 main → solve takes" in (near or "")
    assert "MPI_Sendrecv, 46 % now, is unclear beyond p=512" in (
        tab.text_content("#headline") or ""
    )
    assert "unclear beyond p=512" in (tab.text_content("#shares") or "")
    assert tab.text_content("#shares-at") == "at p = 512"
    assert re.search(r"at=p%3D104", tab.url)


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """A campaign with two parameters and hostile names."""
    runs = {
        RunKey.of({"p": 1, "m": m, "n": n}): dict.fromkeys(("main", *EVIL), (1.0, 0.001 * m * n))
        for m in (1, 2, 4, 8)
        for n in (10, 20, 40, 80)
    }
    with served(campaign_of(tmp_path_factory.mktemp("odd") / "odd.insitu", runs)) as page:
        yield page


def test_two_parameters_are_drawn_as_a_heat_map_with_contours(odd: Page, tab):
    tab.goto(f"{odd.address}#model?path=main&metric=time")
    tab.wait_for_selector("#surface svg .contour", state="attached")

    assert tab.locator("#surface svg .dot").count() == 16
    assert tab.locator("#surface svg path.contour").count() >= 3


SOLVE = "path=main->solve&metric"


@pytest.mark.parametrize(
    ("host", "first", "then", "late"),
    [
        ("detail", f"#paths?{SOLVE}=visits", f"#paths?{SOLVE}=time_exclusive", "series metric=v"),
        ("m-all", f"#model?{SOLVE}=visits", f"#model?{SOLVE}=time_exclusive", "series metric=v"),
        ("c-plot", "#compare?metric=visits", "#compare?metric=time_exclusive", "series metric=v"),
        ("o-all", "#outlook?at=p%3D4", "#outlook?at=p%3D512", "outlook p%3D4"),
        ("surface", "#model?metric=time&across=n", "#model?metric=time", "surface x=n"),
    ],
    ids=("paths", "model", "compare", "outlook", "surface"),
)
def test_a_late_answer_does_not_replace_a_newer_one(
    heat: Page, odd: Page, tab, host: str, first: str, then: str, late: str
):
    query, word = late.split()
    held: list[playwright.Route] = []
    tab.route(
        lambda url: f"/{query}?" in url and word in url, lambda route: held.append(route)
    )  # Playwright does not accept the bound method of a list
    tab.goto((odd if host == "surface" else heat).address + first)
    while not held:
        tab.wait_for_timeout(10)
    tab.evaluate("(hash) => { location.hash = hash; }", then)
    tab.wait_for_selector(f"#{host}:not([aria-busy])", state="attached")
    tab.wait_for_function("() => !document.querySelector('main [aria-busy]')")
    before = tab.inner_html("main")

    for route in held:
        with tab.expect_response(route.request.url) as answer:
            route.continue_()
        answer.value.finished()
    tab.wait_for_timeout(100)  # time in which a late answer would be drawn

    assert tab.inner_html("main") == before


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (lambda route: route.abort(), "the server does not answer"),
        (lambda route: route.fulfill(status=500), "the server failed: error 500"),
        (
            lambda route: route.fulfill(status=503, json={"trouble": "a.insitu: it is gone"}),
            "the server failed: a.insitu: it is gone",
        ),
    ],
)
def test_a_query_without_an_answer_is_sent_again(heat: Page, tab, answer, reason: str):
    tab.route("**/series?*", answer, times=1)

    tab.goto(f"{heat.address}#model?{SOLVE}=visits")
    tab.wait_for_selector(f"#m-empty:has-text('{reason}')")
    tab.wait_for_selector("#m-plot canvas")

    assert tab.is_hidden("#m-empty")


def test_the_classes_are_shown_in_a_run_that_has_them(heat: Page, tab):
    """The largest run may be one where all ranks behave alike."""

    def unify(route) -> None:
        answer = route.fetch()
        series = answer.json()
        largest = series["ranks"][0]
        largest |= {"names": ["all"], "counts": [largest["size"]], "labels": [0] * largest["size"]}
        route.fulfill(response=answer, json=series)

    tab.route("**/series?*", unify)

    tab.goto(f"{heat.address}#paths?metric=time_exclusive&path=main->solve->exchange->MPI_Sendrecv")
    tab.wait_for_selector("#ranks .names li", state="attached")

    assert tab.text_content("#ranks h3") == "ranks of p=32#0 by class"


def test_a_hidden_tab_closes_its_connection(heat: Page, tab):
    tab.goto(f"{heat.address}#paths")
    tab.wait_for_selector("#rows tr")
    set_visible = """(is) => {
        Object.defineProperty(document, "hidden", { value: !is, configurable: true });
        document.dispatchEvent(new Event("visibilitychange"));
    }"""
    with tab.expect_event("requestfailed", lambda request: request.url.endswith("/events")):
        tab.evaluate(set_visible, False)

    with tab.expect_request("**/events"):
        tab.evaluate(set_visible, True)


def test_hostile_names_stay_text(odd: Page, tab):
    for view in ("model", "compare", "outlook", "paths"):
        tab.goto(f"{odd.address}#{view}?path={EVIL[1]}&metric=time")
        tab.wait_for_function("() => document.querySelector('#count-runs').textContent !== ''")
        tab.wait_for_timeout(100)
        assert tab.locator("main img, main script, [onmouseover], [onerror]").count() == 0
    tab.wait_for_function(f"() => document.querySelectorAll('#rows tr').length >= {len(EVIL)}")
    shown = tab.text_content("#rows")

    assert tab.title() == "odd.insitu – insitu"
    assert "a\\u{202e}gnp.exe" in shown
    assert not set("\u202e\u2028\x1b") & set(shown)


def test_a_campaign_of_one_run_says_what_models_need(tab, tmp_path):
    campaign = str(tmp_path / "one.insitu")
    with open_store(campaign, create=True) as store:
        table = RunTable((CallPath(("main",)),), (TIME,), {"time": np.ones((1, 2))})
        store.add_run(RunRecord("a", RunKey.of({"p": 2}), RunState.COMPLETE, 1.0, 1.5), table)

    with served(campaign) as page:
        tab.goto(f"{page.address}#paths")
        tab.wait_for_selector("#nothing:has-text('a model needs runs at three scales')")
        tab.goto(f"{page.address}#runs")
        tab.wait_for_selector("text=500 ms")


def test_a_caller_without_values_of_the_metric_is_not_said_to_need_runs(tab, tmp_path):
    campaign = str(tmp_path / "leaves.insitu")
    solve = CallPath(("main", "step", "solve_the_equations_of_the_pressure"))
    with open_store(campaign, create=True) as store:
        for p in (1, 2, 4, 8):
            values = {"time_exclusive": np.full((1, p), 1.0 * p)}
            table = RunTable((solve,), (TIME_EXCLUSIVE,), values)
            store.add_run(RunRecord(str(p), RunKey.of({"p": p}), RunState.COMPLETE, 1, 2), table)
        store.put_models(remodel(load_experiment(store)))

    with served(campaign) as page:
        tab.goto(f"{page.address}#model?path=main->step&metric=time_exclusive")
        tab.wait_for_selector("#m-empty:has-text('has no values of time_exclusive')")
        assert "main → step" in tab.text_content("#m-empty")
        tab.goto(f"{page.address}#paths?metric=time_exclusive")
        tab.wait_for_selector("#rows tr")
        assert tab.locator("#rows .front").all_text_contents() == ["main → step → "]  # one line
        tab.set_viewport_size({"width": 390, "height": 844})
        tab.goto(f"{page.address}#outlook")
        cell = tab.wait_for_selector("#o-rows tr td:nth-child(3)")
        assert cell.bounding_box()["width"] > 150


@pytest.mark.full
def test_names_and_bounds_are_as_short_as_those_of_the_commands(heat: Page, tab):
    """As `last_frames` and `useful_bounds` in Python."""
    tab.goto(f"{heat.address}#paths")
    path = "app->fem::driver<fem::Box<int>, long>->fem::solve<fem::Matrix<double> >->MPI_Allreduce"
    shorten = "path => import('/names.js').then(({ shortPath }) => shortPath(path, 56))"
    bound = "([low, high]) => import('/text.js').then((text) => text.formatBounds(low, high, 's'))"

    assert tab.evaluate(shorten, path) == "app → fem::driver<…> → fem::solve<…> → MPI_Allreduce"
    assert tab.evaluate(shorten, "run.<locals>.<listcomp>") == "run.<locals>.<listcomp>"
    assert tab.evaluate(bound, [1, 1000]) == "1 s … 1000 s"
    assert tab.evaluate(bound, [1, 1001]) == "–"
    assert tab.evaluate(bound, [0, 2e304]) == "–"


def test_a_link_shows_the_same_view_in_another_browser(heat: Page, tab, browser):
    tab.goto(f"{heat.address}#model?path=main->solve&metric=visits")
    tab.wait_for_selector("#m-plot canvas")
    assert "token" not in tab.url
    tab.keyboard.press("l")
    tab.wait_for_selector("#share-box:not([hidden])")
    link = tab.input_value("#link")

    with browser.new_context() as other:
        again = other.new_page()
        urls: list[str] = []
        again.on("request", lambda request: urls.append(request.url))
        again.goto(link)
        again.wait_for_selector("#m-plot canvas")
        assert again.text_content("#m-path") == "main → solve"
        assert again.input_value("#m-metric") == "visits"
    assert not [
        url for url in urls if "metric=&" in url
    ]  # queries sent before the metrics are known


def test_a_browser_without_the_token_or_with_another_host_name_sees_nothing(heat: Page, browser):
    addresses = [
        f"http://127.0.0.1:{heat.port}/",
        f"http://127.0.0.1:{heat.port}/?token=guessed",
        f"http://evil.example:{heat.port}/?token={heat.token}",
    ]

    with browser.new_context() as context:
        stranger = context.new_page()
        answers = [stranger.goto(address) for address in addresses]
        body = stranger.inner_text("body")

    assert [answer and answer.status for answer in answers] == [403, 403, 403]
    assert "heat" not in body


def test_injected_scripts_neither_run_nor_connect(heat: Page, browser):
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(heat.address)
        page.evaluate(
            """() => {
                const script = document.createElement("script");
                script.textContent = "window.isBad = true";
                document.body.append(script);
            }"""
        )
        reached = page.evaluate("fetch('http://127.0.0.1:9/').then(() => true, (e) => String(e))")

        assert page.evaluate("window.isBad") is None
        assert "TypeError" in reached


@contextmanager
def started(words: list[str], folder: Path, stop: signal.Signals) -> Iterator[subprocess.Popen]:
    """A process that gets a signal at the end if it is still running."""
    tables = str(folder / "tables")
    environment = os.environ | {"PYTHONPATH": str(ROOT), "INSITU_TABLES": tables}
    command = [sys.executable, "-m", *words]
    with (
        open(folder / "stderr", "a") as errors,
        subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process,
    ):
        try:
            yield process
        finally:
            process.send_signal(stop)


def test_a_run_is_shown_while_it_is_measured_and_the_page_survives_its_server(tmp_path: Path, tab):
    kernel, stop = "app.py->main->kernel", tmp_path / "stop"
    runs = {RunKey.of({"p": 1, "n": n}): {kernel: (1000.0 * n, float(n))} for n in (1, 2, 4, 8)}
    campaign = campaign_of(tmp_path / "live.insitu", runs)
    (tmp_path / "tables").mkdir()
    (tmp_path / "app.py").write_text(textwrap.dedent(APP))
    program = ["--param", "n=16", "--", sys.executable, "app.py", str(stop)]
    run = ["insitu.run", "--campaign", campaign, *program]
    cell = "#rows tr.chosen .now"
    with ExitStack() as stack:
        stack.callback(stop.touch)
        secret = ("--token-file", str(tmp_path / "secret"))
        serve = ["insitu", "serve", campaign, "--beat", "0.2", "--web", *secret]
        serving = stack.enter_context(started(serve, tmp_path, signal.SIGTERM))
        page = page_at(serving.stdout.readline(), campaign, child_of(serving.pid))
        tab.goto(f"{page.address}#paths?metric=time&path={kernel}")
        tab.wait_for_selector("#state.live")
        running = stack.enter_context(started(run, tmp_path, signal.SIGCONT))
        changed(tab, cell, "")
        changed(tab, cell, tab.text_content(cell))
        tab.wait_for_selector("#rows tr.chosen.slower")  # 3 ms a visit instead of 1 ms
        tab.click("#tab-runs")
        lines = "#r-course svg[aria-label='ranks over time'] path.line"
        tab.wait_for_selector(lines, state="attached")  # a horizontal line has no visible height
        tab.click("#tab-paths")
        tab.evaluate("window.isSame = true")
        os.kill(page.pid, signal.SIGKILL)
        tab.wait_for_selector("#state.lost")
        again = stack.enter_context(served(campaign, *secret, "--port", str(page.port)))
        tab.wait_for_selector("#state.live")
        stop.touch()
        tab.wait_for_selector("#runs .sealed >> nth=4")

        assert again.token == page.token
        assert "the page was killed by signal 9; runs are" in (tmp_path / "stderr").read_text()
        assert running.wait(WAIT_MS / 1000) == 0
        assert tab.evaluate("window.isSame")  # the page was not loaded again


def names_in_order(tab: "playwright.Page") -> list[str]:
    return tab.locator("#rows .leaf").all_text_contents()


@pytest.mark.full
def test_functions_without_time_of_their_own_do_not_grow(heat: Page, tab):
    tab.goto(heat.address)

    module = "import('/text.js')"
    growths = f"{module}.then((text) => [text.growthOf(0, 0), text.growthOf(6, 3)])"

    assert tab.evaluate(growths) == [None, 2]


def test_a_click_on_a_title_sorts_by_its_column(heat: Page, tab):
    tab.goto(f"{heat.address}#paths?metric=time_exclusive&at=p%3D128")
    tab.wait_for_selector("#rows .growth:has-text('×')")

    tab.click("th.growth button")
    tab.wait_for_selector("th.growth[aria-sort=descending]")
    growing = names_in_order(tab)
    first = tab.inner_text("#rows .growth >> nth=0")
    tab.click("th.growth button")
    tab.wait_for_selector("th.growth[aria-sort=ascending]")

    assert "×" in first  # what is unclear comes last
    assert names_in_order(tab) == growing[::-1]
    for column in ("share", "then", "path", "class", "model", "error"):
        tab.click(f"th.{column} button")
        tab.wait_for_selector(f"th.{column}[aria-sort=descending]")


@pytest.mark.full
def test_the_list_of_call_paths_is_one_tab_stop(heat: Page, tab):
    tab.goto(f"{heat.address}#paths")
    tab.wait_for_selector("#rows tr:nth-child(5)")

    stops = tab.evaluate(
        """() => [...document.querySelectorAll("button, input, select, [tabindex]")]
            .filter((each) => each.tabIndex >= 0 && each.checkVisibility()).length"""
    )

    assert tab.evaluate("document.querySelector('#tree').querySelectorAll('input').length") > 4
    assert stops <= 20


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """Long call paths of C++ functions with argument lists."""
    names = (
        "main->apply(double*, int)->void ns::sweep<3>(std::vector<double> const&, int) const",
        "main->apply(double*, int)->exchange(int)",
        "main->apply(double*, int)->exchange(double)",
        "main->" + "->".join(f"level{i}" for i in range(12)) + "->end_of_a_deep_path",
    )
    runs = {RunKey.of({"p": p}): dict.fromkeys(names, (1.0, 0.001 * p)) for p in (1, 2, 4, 8, 16)}
    with served(campaign_of(tmp_path_factory.mktemp("cpp") / "cpp.insitu", runs)) as page:
        yield page


@plain_and_full("width", [1280, 390])
def test_call_paths_keep_their_leaf(compiled: Page, tab, width: int):
    tab.set_viewport_size({"width": width, "height": 844})
    tab.goto(f"{compiled.address}#paths?metric=time&order=name")
    tab.wait_for_selector("#rows tr:nth-child(4)")

    leaves = set(names_in_order(tab))
    clipped = tab.evaluate(
        """() => [...document.querySelectorAll("#rows .leaf")]
            .filter((each) => each.scrollWidth > each.clientWidth + 1).length"""
    )

    ends_cut = tab.evaluate(
        """() => {
            const right = (each) => each.getBoundingClientRect().right;
            const tails = [...document.querySelectorAll("#rows .tail")];
            return tails.filter((each) => right(each) > right(each.closest("td")) + 1).length;
        }"""
    )

    assert ends_cut == 0
    expected = {"void ns::sweep<…>", "exchange(int)", "exchange(double)"}
    assert leaves == expected | {"end_of_a_deep_path"}
    assert clipped == 0


def test_the_mouse_shows_measured_value_model_and_bounds(heat: Page, tab):
    tab.goto(f"{heat.address}#model?path=main->solve&metric=time_exclusive")
    tab.wait_for_selector("#m-plot canvas")
    over = tab.locator("#m-plot .u-over")
    box = over.bounding_box()

    tab.mouse.move(box["x"] + 1, box["y"] + 20)
    tab.wait_for_selector("#m-legend output:has-text('measured')", state="attached")

    text = tab.text_content("#m-legend output")
    assert re.search(r"at 4: measured [\d.]+ m?s, model [\d.]+ m?s, 95 % .* … ", text)
    assert "[s]" in tab.text_content("#m-segments")


def hover_at_the_left(tab: "playwright.Page", prefix: str) -> str:
    """What the legend shows for the first point, once the values of repetitions are there."""
    text = ""
    for attempt in range(WAIT_MS // 100):
        box = tab.locator(f"#{prefix}plot .u-over").bounding_box()
        if box is None:  # the plot is drawn anew
            tab.wait_for_timeout(100)
            continue
        tab.mouse.move(box["x"] + 1, box["y"] + 20 + attempt % 2)
        text = tab.text_content(f"#{prefix}legend output") or ""
        if "repetitions" in text:
            return text
        tab.wait_for_timeout(100)
    return text


@pytest.mark.full
def test_the_mouse_shows_the_value_of_every_repetition(tmp_path: Path, tab):
    path = str(tmp_path / "heat.insitu")
    modelled_campaign(path, 3, (4, 8, 16)).close()

    texts = []
    with served(path) as page:
        for view, prefix in (("model", "m-"), ("paths", ""), ("compare", "c-")):
            pins = "&pins=main->solve" if view == "compare" else ""
            tab.goto(f"{page.address}#{view}?path=main->solve&metric=time_exclusive{pins}")
            tab.wait_for_selector(f"#{prefix}plot canvas")
            texts.append(hover_at_the_left(tab, prefix))

    for text in texts:
        values = re.search(r"at 4: measured (.*) \(3 repetitions\), model [\d.]+ m?s, 95 % ", text)
        assert values, text
        assert len(values[1].split(", ")) == 3


@pytest.mark.full
def test_a_class_has_one_colour_in_all_views(heat: Page, tab):
    tab.goto(f"{heat.address}#paths?metric=time_exclusive&path=main->solve->exchange->MPI_Sendrecv")
    tab.wait_for_selector("#legend li")
    halo = {
        item.split()[0]: colour
        for item, colour in tab.evaluate(
            """() => [...document.querySelectorAll("#legend li")].map((item) => [
                item.querySelector("b").textContent, item.querySelector(".key").classList[1]])"""
        )
    }
    tab.evaluate("location.hash = '#model?path=main->solve->exchange->MPI_Sendrecv&metric=visits'")
    tab.wait_for_selector("#m-ranks .names li", state="attached")
    strip = dict(
        tab.evaluate(
            """() => [...document.querySelectorAll("#m-ranks .names li")].map((item) => [
                item.textContent.split(":")[0], item.querySelector(".key").classList[1]])"""
        )
    )

    assert set(halo) == {"all", "end", "inner"}
    del halo["all"]  # the mean of all ranks is no class of the strip
    assert halo == {name: strip[name] for name in halo}


@pytest.mark.full
def test_names_of_call_paths_have_no_gap_and_stand_on_one_line_with_their_boxes(
    tmp_path: Path, tab
):
    names = ["main", *(f"main->{'M' * length}" for length in (4, 14, 15, 16, 17))]
    runs = {RunKey.of({"p": p}): dict.fromkeys(names, (1.0, float(p))) for p in (1, 2, 4)}

    with served(campaign_of(tmp_path / "names.insitu", runs)) as page:
        tab.goto(f"{page.address}#paths?metric=time")
        tab.wait_for_selector("#tree .leaf >> nth=5")
        rows = tab.evaluate(
            """() => [...document.querySelectorAll("#tree .leaf")].map((leaf) => {
                const range = document.createRange();
                range.selectNodeContents(leaf.firstChild);
                const head = range.getBoundingClientRect();
                const tail = leaf.lastChild.getBoundingClientRect();
                const box = leaf.parentNode.querySelector("input").getBoundingClientRect();
                const gap = leaf.firstChild.textContent ? tail.left - head.right : 0;
                return [leaf.textContent, gap, tail.bottom - box.bottom];
            })"""
        )

    assert {text for text, _, _ in rows} >= {"M" * 14, "M" * 15, "M" * 17}
    assert [text for text, gap, _ in rows if abs(gap) > 1] == []
    heights = [height for _, _, height in rows]
    assert max(heights) - min(heights) <= 1


def test_a_narrow_name_keeps_the_end_that_differs_from_the_others(tmp_path: Path, tab):
    ends = [f"main->{name}_with_a_rather_long_name" for name in ("fn1", "fn2", "fn3")]
    heads = [f"main->a_rather_long_name_with_{name}" for name in ("pack", "send", "wait")]
    runs = {RunKey.of({"p": p}): dict.fromkeys([*ends, *heads], (1.0, float(p))) for p in (1, 2, 4)}

    with served(campaign_of(tmp_path / "names.insitu", runs)) as page:
        tab.set_viewport_size({"width": 390, "height": 844})
        tab.goto(f"{page.address}#paths?metric=time")
        tab.wait_for_selector("#tree .leaf >> nth=6")
        rows = tab.evaluate(
            """() => [...document.querySelectorAll("#tree .leaf")].map((leaf) =>
                [leaf.textContent, leaf.lastChild.textContent])"""
        )

    kept = dict(rows)
    assert {kept[path.removeprefix("main->")] for path in ends} == {""}  # the end is cut off
    assert [kept[path.removeprefix("main->")][-4:] for path in heads] == ["pack", "send", "wait"]


@pytest.mark.full
def test_classes_without_a_model_have_different_colours(heat: Page, tab):
    tab.goto(heat.address)
    tab.wait_for_selector("#d-verdict")

    script = tab.get_attribute("script[src*='page.js']", "src")
    shades = tab.evaluate(
        """(script) => import(new URL(script.replace("page.js", "names.js"), document.baseURI))
            .then(({ classShade }) => ["corner", "edge", "corner", "all"].map(classShade))""",
        script,
    )

    corner, edge, again, everything = shades
    assert len({corner, edge, everything}) == 3
    assert again == corner


@pytest.mark.full
def test_no_shares_ahead_are_drawn_of_crowded_runs(tmp_path: Path, tab):
    path = str(tmp_path / "heat.insitu")
    with heat_campaign(path, 1, (1, 2, 4, 8), cores=2) as store:
        store.put_models(remodel(load_experiment(store)))

    with served(path) as page:
        tab.goto(f"{page.address}#outlook")
        tab.wait_for_selector("#shares:has-text('not drawn: ranks lacked cores')")
        tab.wait_for_selector("#headline:has-text('ranks lacked cores')")
        assert tab.locator("#shares svg").count() == 0
        assert tab.locator("#shares-at").is_hidden()


def test_a_phone_shows_formulas_in_lines_and_nothing_beyond_its_width(heat: Page, tab):
    tab.set_viewport_size({"width": 390, "height": 844})
    tab.goto(f"{heat.address}#model?path=main->solve->exchange->MPI_Sendrecv&metric=time")
    tab.wait_for_selector("#m-candidates tr")

    heights = tab.evaluate(
        """() => [...document.querySelectorAll("#m-candidates td, #m-segments td")]
            .map((cell) => cell.clientHeight)"""
    )

    assert max(heights) < 90  # four lines
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    tab.goto(f"{heat.address}#outlook")
    tab.wait_for_selector(".slider")
    rights = tab.evaluate(
        """() => [...document.querySelectorAll(".slider *")]
            .map((shown) => shown.getBoundingClientRect().right)"""
    )
    assert max(rights) <= 390


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """A campaign with a run that a signal ended."""
    path = str(tmp_path_factory.mktemp("failed") / "failed.insitu")
    configuration = Configuration.of({"host": "node7", "command": "./heat <b>256</b>"})
    with open_store(path, create=True) as store:
        table = RunTable(
            callpaths=(CallPath(("main",)),),
            metrics=(VISITS, TIME),
            values={"visits": np.ones((1, 4)), "time": np.ones((1, 4))},
        )
        record = RunRecord(
            "r1",
            RunKey.of({"p": 4}),
            RunState.INCOMPLETE,
            started_at=1.7e9,
            ended_at=1.7e9 + 60,
            configuration=configuration,
            exit_status=(0, -11, 3, -1000),
            missing=(3,),
            findings=(
                Finding("rank-lost", "3 of 4 ranks are complete; missing: 3", "r1"),
                *(Finding("heap-truncated", "no room", f"rank {rank}") for rank in range(4)),
                Finding("heap-truncated", "no table", "rank 1"),
            ),
        )
        store.add_run(record, table)
    with served(path) as page:
        yield page


def test_a_failed_run_names_ranks_signals_host_and_command(failed: Page, tab):
    tab.goto(f"{failed.address}#runs")
    tab.wait_for_selector("#r-rows .facts")

    text = tab.inner_text("#r-rows")
    assert "incomplete" in text
    assert "on node7 · ./heat <b>256</b>" in text
    assert "rank 1: signal 11 (SIGSEGV), rank 2: exit code 3, rank 3: killed, no exit code" in text
    assert "3 of 4 ranks are complete" in text

    tab.locator("#r-rows button.link").first.click()
    tab.wait_for_selector("#i-run option:checked:has-text('incomplete')", state="attached")
    tab.wait_for_selector("#i-line:has-text('main: 1 s')")


@pytest.mark.full
def test_a_finding_of_many_ranks_is_shown_once(failed: Page, tab):
    tab.goto(f"{failed.address}#findings")
    tab.wait_for_selector("#f-all li")

    for place in ("#f-all", "#findings"):
        text = tab.locator(place).text_content()
        assert text.count("no room") == 1
        assert "rank 0, rank 1, rank 2 and 1 more" in text
    assert "(1 more of this kind)" in (tab.locator("#findings").text_content() or "")


@pytest.mark.full
def test_the_state_names_the_run_that_the_campaign_makes(heat: Page, tab):
    tab.goto(f"{heat.address}#paths")
    tab.wait_for_selector("#state:has-text('idle')")

    with RunsLock(heat.campaign) as lock:
        lock.describe("p=128")
        tab.wait_for_selector("#state:has-text('campaign running: p=128')")

    tab.wait_for_selector("#state:has-text('idle')")


def test_the_page_opens_on_the_diagnosis(heat: Page, tab):
    expected = diagnose(heat.campaign)

    tab.goto(heat.address)
    tab.wait_for_function("() => document.querySelector('#d-measured').textContent !== ''")

    assert tab.text_content("#d-verdict") == expected.verdict
    shown = tab.locator("#d-statements > li")
    assert shown.count() == len(expected.statements[:7]) + len(expected.profile) > 0
    first = [*expected.statements, *expected.profile][0]
    assert first.text in shown.nth(0).inner_text()
    tables = tab.locator("#d-efficiencies table")
    assert tables.count() == len(expected.efficiencies) > 0
    assert "load balance" in tables.nth(0).inner_text()
    tab.locator("#d-statements button").first.click()
    tab.wait_for_selector("#tab-diagnosis:not([aria-current])")


@pytest.mark.full
def test_the_diagnosis_of_a_campaign_without_complete_runs_says_so(failed: Page, tab):
    tab.goto(failed.address)

    tab.wait_for_selector("#d-verdict:has-text('no complete run yet')")


def test_the_icicle_shows_a_run_with_its_lines_and_keys_move_in_it(tmp_path: Path, tab):
    site = ("/home/user/solver.py", 21)
    paths = tuple(map(CallPath.parse, ("app", "app->main", "app->main->solve")))
    start_up = CallPath.parse("app->(import)")
    with open_store(str(tmp_path / "c.insitu"), create=True) as store:
        for name, factor, state in (
            ("r1", 1.0, RunState.COMPLETE),
            ("r2", 3.0, RunState.INCOMPLETE),
        ):
            seconds = np.array([[0.1] * 2, [0.2] * 2, [2.0 * factor, 4.0 * factor], [9.0] * 2])
            table = RunTable(
                (*paths, start_up), (TIME_EXCLUSIVE,), {"time_exclusive": seconds}, {paths[2]: site}
            )
            key = RunKey.of({"p": 2}, int(factor > 1))
            configuration = Configuration.of({})
            store.add_run(RunRecord(name, key, state, configuration=configuration), table)

    with served(str(tmp_path / "c.insitu")) as page:
        tab.goto(f"{page.address}#icicle")
        tab.wait_for_selector("#i-plot g.bar")
        assert tab.locator("#i-plot g.bar").all_inner_texts() != []
        names = [text.split(":")[0] for text in tab.locator("#i-plot title").all_text_contents()]
        assert names == ["app", "app → main", "app → main → solve"]
        assert "without start-up (imports, MPI_Init, MPI_Finalize: 9 s)" in tab.inner_text(
            "#i-note"
        )

        tab.focus("#i-plot")
        for _ in range(3):
            tab.keyboard.press("ArrowDown")
        tab.wait_for_selector("#i-line:has-text('app → main → solve: 3 s (91 %)')")
        assert "on the ranks 2 s … 4 s · solver.py:21" in tab.inner_text("#i-line")

        tab.select_option("#i-against", "r2")
        tab.wait_for_selector("#i-rows tr")
        assert "p=2#1 (incomplete)" in tab.inner_text("#i-title")
        assert tab.locator("#i-rows tr").first.inner_text().split("\t")[1:] == [
            "9 s",
            "3 s",
            "-6 s",
            "× 0.333",
        ]


@pytest.mark.full
def test_the_icicle_shows_a_prediction(heat: Page, tab):
    tab.goto(f"{heat.address}#icicle?run=prediction")

    tab.wait_for_selector("#i-plot g.bar")

    assert "prediction at p = " in tab.locator("#i-run option:checked").inner_text()
