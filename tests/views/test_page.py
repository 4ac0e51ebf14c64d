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
from insitu.campaign.store import open_store
from insitu.entities import TIME, VISITS, CallPath, RunKey, RunRecord, RunState
from insitu.modeling.measurement import RunTable
from insitu.modeling.pipeline import remodel
from tests.support.campaigns import heat_campaign
from tests.support.page_server import ROOT, Page, child_of, page_at, served

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
        begun = time.perf_counter()
        while time.perf_counter() - begun < 0.003:
            pass

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


@pytest.fixture
def tab(browser: "playwright.Browser") -> Iterator["playwright.Page"]:
    """A tab that must have nothing to complain about."""
    context = browser.new_context(viewport={"width": 1280, "height": 800}, color_scheme="light")
    opened = context.new_page()
    opened.set_default_timeout(WAIT_MS)
    said: list[str] = []
    opened.on("console", lambda message: said.append(message.text))
    opened.on("pageerror", lambda error: said.append(str(error)))
    opened.on("dialog", lambda dialog: said.append(dialog.message))
    yield opened
    context.close()
    unexpected = [text for text in said if "net::ERR_" not in text]  # servers that were killed
    assert unexpected == []


@pytest.fixture(scope="module")
def heat(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    path = os.path.join(tmp_path_factory.mktemp("heat"), "heat.insitu")
    with heat_campaign(path, 1, (4, 8, 16, 32, 64)) as store:
        store.put_models(remodel(load_experiment(store)))
    with served(path) as page:
        yield page


def campaign_of(path: Path, runs: dict[RunKey, dict[str, tuple[float, float]]]) -> str:
    """A campaign of runs with one rank; visits and seconds by call path."""
    with open_store(str(path), create=True) as store:
        for key, values in runs.items():
            made = np.array(list(values.values()))
            table = RunTable(
                callpaths=tuple(CallPath.parse(name) for name in values),
                metrics=(VISITS, TIME),
                values={"visits": made[:, :1], "time": made[:, 1:]},
            )
            store.add_run(RunRecord(str(key), key, RunState.COMPLETE, exit_status=(0,)), table)
        store.put_models(remodel(load_experiment(store)))
    return str(path)


def changed(tab: "playwright.Page", selector: str, was: str | None) -> None:
    """Wait until something says something else."""
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
            let many = 0;
            for (let i = 0; i < data.length; i += 4) {
                if (want.every((part, k) => Math.abs(part - data[i + k]) < 3)) many++;
            }
            return many;
        }""",
        [plot, colour],
    )


def test_a_word_filters_the_call_paths_and_keys_choose_among_them(heat: Page, tab):
    tab.goto(heat.address)
    tab.wait_for_selector("#rows tr:nth-child(5)")

    tab.keyboard.press("/")
    tab.keyboard.type("allreduce")
    tab.wait_for_function("() => document.querySelectorAll('#rows tr').length === 4")
    tab.keyboard.press("Escape")
    tab.wait_for_function("() => document.querySelectorAll('#rows tr').length > 4")
    before = tab.text_content("#chosen")
    tab.keyboard.press("ArrowUp")
    changed(tab, "#chosen", before)

    assert tab.locator("#rows tr.chosen").count() == 1


def test_a_plot_shows_its_classes_on_axes_of_either_kind_light_and_dark(heat: Page, tab):
    tab.goto(f"{heat.address}#paths?metric=time_exclusive&path=main->solve->exchange->MPI_Sendrecv")
    tab.wait_for_selector("#plot canvas")
    assert tab.locator("#legend li").count() == 2
    linear = [painted(tab, "#plot", name) for name in ("--c0", "--c1")]
    tab.keyboard.press("y")
    tab.wait_for_function("() => location.hash.includes('y=log')")
    tab.keyboard.press("t")
    tab.keyboard.press("t")
    tab.wait_for_function("() => document.documentElement.dataset.theme === 'dark'")

    assert min(linear) > 100
    assert min(painted(tab, "#plot", name) for name in ("--c0", "--c1")) > 100


def test_a_model_has_a_page_with_all_that_is_known_of_it(heat: Page, tab):
    tab.goto(f"{heat.address}#model?path=main->solve&metric=time_exclusive&rivals=yes")
    tab.wait_for_selector("#m-plot canvas")

    assert "p^(-1)" in (tab.text_content("#m-segments") or "")
    assert tab.locator("#m-candidates tr").count() >= 1
    assert tab.locator("#m-points tr").count() == 5
    assert painted(tab, "#m-residuals", "--c0") > 50


def test_several_call_paths_share_a_plot(heat: Page, tab):
    tab.goto(f"{heat.address}#compare?metric=time_exclusive&pins=main&pins=main->solve")
    tab.wait_for_selector("#c-plot canvas")

    assert tab.locator("#c-legend li").count() == 2
    assert min(painted(tab, "#c-plot", name) for name in ("--c0", "--c1")) > 100


def test_a_slider_says_what_dominates_there(heat: Page, tab):
    tab.goto(f"{heat.address}#outlook?at=p%3D4")
    tab.wait_for_selector("#shares .target", state="attached")
    near = tab.text_content("#headline")
    tab.locator("#sliders input[type=range]").press("End")
    changed(tab, "#headline", near)

    assert "At p = 4 main → solve takes" in (near or "")
    assert "MPI_Allreduce takes" in (tab.text_content("#headline") or "")
    assert re.search(r"at=p%3D26", tab.url)


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """Two parameters, and names that are not friendly."""
    runs = {
        RunKey.of({"p": 1, "m": m, "n": n}): dict.fromkeys(("main", *EVIL), (1.0, 0.001 * m * n))
        for m in (1, 2, 4, 8)
        for n in (10, 20, 40, 80)
    }
    with served(campaign_of(tmp_path_factory.mktemp("odd") / "odd.insitu", runs)) as page:
        yield page


def test_two_parameters_are_a_heat_map_with_contours(odd: Page, tab):
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
def test_an_answer_that_comes_late_is_not_drawn_over_what_is_looked_at_now(
    heat: Page, odd: Page, tab, host: str, first: str, then: str, late: str
):
    question, word = late.split()
    held: list[playwright.Route] = []
    tab.route(
        lambda url: f"/{question}?" in url and word in url, lambda one: held.append(one)
    )  # a method of a list it does not take
    tab.goto((odd if host == "surface" else heat).address + first)
    while not held:
        tab.wait_for_timeout(10)
    tab.evaluate("(hash) => { location.hash = hash; }", then)
    tab.wait_for_selector(f"#{host}:not(.waiting)", state="attached")
    before = tab.inner_html("main")

    for one in held:
        with tab.expect_response(one.request.url) as answer:
            one.continue_()
        answer.value.finished()
    tab.wait_for_timeout(100)  # to be drawn, if it were

    assert tab.inner_html("main") == before


def test_a_question_that_nobody_answered_is_asked_again(heat: Page, tab):
    tab.route("**/series?*", lambda one: one.abort(), times=1)

    tab.goto(f"{heat.address}#model?{SOLVE}=visits")
    tab.wait_for_selector("#m-empty:has-text('asked again')")
    tab.wait_for_selector("#m-plot canvas")

    assert tab.is_hidden("#m-empty")


def test_a_tab_that_nobody_sees_leaves_its_connection_to_others(heat: Page, tab):
    tab.goto(heat.address)
    tab.wait_for_selector("#rows tr")
    seen = """(is) => {
        Object.defineProperty(document, "hidden", { value: !is, configurable: true });
        document.dispatchEvent(new Event("visibilitychange"));
    }"""
    with tab.expect_event("requestfailed", lambda one: one.url.endswith("/events")):
        tab.evaluate(seen, False)

    with tab.expect_request("**/events"):
        tab.evaluate(seen, True)


def test_hostile_names_stay_text(odd: Page, tab):
    for view in ("model", "compare", "outlook", "paths"):
        tab.goto(f"{odd.address}#{view}?path={EVIL[1]}&metric=time")
        tab.wait_for_function("() => document.querySelector('#count-runs').textContent !== ''")
        tab.wait_for_timeout(100)
        assert tab.locator("main img, main script, [onmouseover], [onerror]").count() == 0
    tab.wait_for_function(f"() => document.querySelectorAll('#rows tr').length >= {len(EVIL)}")
    shown = tab.inner_text("#rows")

    assert tab.title() == "odd.insitu – insitu"
    assert "a\\u{202e}gnp.exe" in shown
    assert not set("\u202e\u2028\x1b") & set(shown)


def test_a_link_brings_another_browser_to_the_same_place(heat: Page, tab, browser):
    tab.goto(f"{heat.address}#model?path=main->solve&metric=visits")
    tab.wait_for_selector("#m-plot canvas")
    assert "token" not in tab.url
    tab.keyboard.press("l")
    tab.wait_for_selector("#share-box:not([hidden])")
    link = tab.input_value("#link")

    with browser.new_context() as other:
        again = other.new_page()
        asked: list[str] = []
        again.on("request", lambda one: asked.append(one.url))
        again.goto(link)
        again.wait_for_selector("#m-plot canvas")
        assert again.text_content("#m-path") == "main → solve"
        assert again.input_value("#m-metric") == "visits"
    assert not [url for url in asked if "metric=&" in url]  # before it is known what there is


def test_who_has_no_token_or_another_name_for_this_machine_sees_nothing(heat: Page, browser):
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


def test_what_would_be_injected_does_not_run_and_reaches_nobody(heat: Page, browser):
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(heat.address)
        page.evaluate(
            """() => {
                const made = document.createElement("script");
                made.textContent = "window.isBad = true";
                document.body.append(made);
            }"""
        )
        reached = page.evaluate("fetch('http://127.0.0.1:9/').then(() => true, (e) => String(e))")

        assert page.evaluate("window.isBad") is None
        assert "TypeError" in reached


@contextmanager
def started(words: list[str], folder: Path, stop: signal.Signals) -> Iterator[subprocess.Popen]:
    """A process that gets a signal at the end, if it still runs."""
    tables = str(folder / "tables")
    environment = os.environ | {"PYTHONPATH": str(ROOT), "INSITU_TABLES": tables}
    command = [sys.executable, "-m", *words]
    with (
        open(folder / "said", "a") as said,
        subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=said, text=True
        ) as process,
    ):
        try:
            yield process
        finally:
            process.send_signal(stop)


def test_a_run_is_seen_while_it_goes_on_and_the_page_survives_its_server(tmp_path: Path, tab):
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
        tab.wait_for_selector("#rows tr.chosen.slower")  # 3 ms a visit, 1 ms was known
        tab.evaluate("window.isSame = true")
        os.kill(page.pid, signal.SIGKILL)
        tab.wait_for_selector("#state.lost")
        again = stack.enter_context(served(campaign, *secret, "--port", str(page.port)))
        tab.wait_for_selector("#state.live")
        stop.touch()
        tab.wait_for_selector("#runs .sealed >> nth=4")

        assert again.token == page.token
        assert "the page was killed by signal 9; runs are" in (tmp_path / "said").read_text()
        assert running.wait(WAIT_MS / 1000) == 0
        assert tab.evaluate("window.isSame")  # the page was not loaded again
