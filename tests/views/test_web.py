"""The page that a real server shows of real files."""

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from urllib.parse import quote

import pytest

from insitu.campaign.store import SqliteStore
from insitu.views.web.limits import MAX_CONNECTIONS
from tests.support.campaigns import HALO, REDUCE, SOLVE, heat_campaign, heat_run, modelled_campaign
from tests.support.page_server import ROOT, WAIT_S, Page, page_at, served

pytest.importorskip("starlette", reason="the page needs Starlette: pip install 'insitu[web]'")
pytest.importorskip("uvicorn", reason="the page needs uvicorn: pip install 'insitu[web]'")

from insitu.views.web.app import TYPES
from tests.support.parameters import plain_and_full


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """The page of a campaign that does not change."""
    path = os.path.join(tmp_path_factory.mktemp("unchanged"), "heat.insitu")
    modelled_campaign(path, 1, (4, 8, 16, 32, 64)).close()
    with served(path) as server:
        yield server


@pytest.fixture
def store(tmp_path: os.PathLike[str]) -> Iterator[SqliteStore]:
    with heat_campaign(os.path.join(tmp_path, "heat.insitu"), 1, (2, 4)) as opened:
        yield opened


@pytest.mark.parametrize(
    "path", ["/", "/page.js", "/uPlot.min.css", "/events", "/series", "/link", "/nothing"]
)
@pytest.mark.parametrize("query", ["", "?token=", "?token=wrong", "?token=%FF%00", "?Token={}"])
def test_requests_without_the_token_are_refused(page: Page, path: str, query: str):
    status, _, text = page.get(path + query.format(page.token))

    assert status == 403
    assert page.campaign not in text


def test_a_request_with_the_token_sets_a_cookie_for_later_requests(page: Page):
    _, headers, _ = page.ask("/")
    cookie, *marks = headers["set-cookie"].split("; ")

    assert page.get("/page.js", Cookie=f"theme=x; {cookie}")[0] == 200
    assert page.get("/page.js", Cookie=f"{cookie}x")[0] == 403
    assert {"HttpOnly", "SameSite=Strict"} <= set(marks)


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{}", "127.0.0.1.evil.example", ""])
def test_requests_for_another_host_name_are_refused(page: Page, host: str):
    status, headers, _ = page.get(f"/?token={page.token}", Host=host.format(page.port))

    assert status == 403
    assert "set-cookie" not in headers


@pytest.mark.parametrize("host", ["localhost", "localhost:1", "127.0.0.1:1"])
def test_a_tunnel_may_use_another_port(page: Page, host: str):
    assert page.get(f"/?token={page.token}", Host=host)[0] == 200


@pytest.mark.parametrize("path", ["/", "/page.js", "/series", "/nothing"])
def test_every_answer_has_a_strict_security_policy(page: Page, path: str):
    for _, headers, _ in (page.get(path), page.ask(path)):
        assert "default-src 'self'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"


def test_the_page_loads_nothing_from_elsewhere_and_sets_no_markup(page: Page):
    texts = [page.ask(f"/{name}")[2] for name in TYPES]

    addresses = {match for text in texts for match in re.findall(r"\w+://[^\s\"'`/?]+", text)}
    assert addresses == {
        "http://www.w3.org",
        "https://github.com",
    }  # names of formats, never loaded
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert word not in "".join(texts)


def test_the_board_is_sent_first_and_whenever_it_changes(store: SqliteStore):
    with served(store.path) as page, page.events() as events:
        (_, first), (_, now) = next(events), next(events)
        store.add_run(*heat_run(8))
        (kind, second) = next(events)

    assert [run["name"] for run in first["board"]["runs"]] == ["p=4#0", "p=2#0"]
    assert (now["live"], now["runs"], now["rows"]) == (False, [], [])
    assert kind == "board"
    assert len(second["board"]["runs"]) == 3


def test_the_board_has_the_progress_of_the_campaign_before_its_first_run(tmp_path):
    path = tmp_path / "heat.insitu"
    path.mkdir()
    plan = '[levels]\np = [2, 4, 8]\n[run]\ncommand = "x"\nrepetitions = 1\n'
    (path / "campaign.toml").write_text(plan)

    with served(str(path)) as page, page.events() as events:
        first = next(events)[1]
        heat_campaign(str(path), 1, (2, 4)).close()
        boards = (content for kind, content in events if kind == "board")
        agenda = next(content["agenda"] for content in boards if len(content["board"]["runs"]) == 2)

    assert (first["agenda"]["done"], first["agenda"]["left"]) == (0, 3)
    assert f"insitu campaign run {path} makes the 3 runs" in first["first_run"]
    assert (agenda["done"], agenda["left"]) == (2, 1)
    assert [line["at"] for line in agenda["lines"]] == ["p=2", "p=4", "p=8"]


def test_the_server_ends_when_the_aggregator_that_started_it_is_killed(store: SqliteStore):
    command = [sys.executable, "-m", "insitu", "serve", store.path, "--web", "--beat", "0.1"]
    store.close()
    with subprocess.Popen(command, cwd=ROOT, text=True, stdout=subprocess.PIPE) as serving:
        page = page_at(serving.stdout.readline(), store.path, 0)
        assert page.ask("/")[0] == 200
        serving.kill()

        assert serving.stdout.read() == ""  # both processes had the pipe open


def test_the_server_ends_while_a_page_is_open(store: SqliteStore):
    with ExitStack() as stack:
        with served(store.path) as page:
            events = stack.enter_context(page.events())
            next(events)

        assert all(kind == "now" for kind, _ in events)


def test_a_call_path_has_points_and_a_curve_within_its_bounds(page: Page):
    _, _, text = page.ask(f"/series?callpath={quote(str(SOLVE))}&metric=time")

    answer = json.loads(text)
    inner = next(each for each in answer["classes"] if each["name"] == "inner")
    assert answer["axis"] == "p"
    assert [at for at, _ in inner["points"]] == [4, 8, 16, 32, 64]
    assert (answer["at"][0], answer["at"][-1]) == (4, 128)
    low, high = inner["bounds"]
    triples = list(zip(low, inner["values"], high, strict=True))
    assert all(a <= value <= b for a, value, b in triples)


def test_the_ranks_of_the_largest_runs_have_classes(page: Page):
    _, _, text = page.ask(f"/series?callpath={quote(str(HALO))}&metric=bytes_sent")

    ranks, *smaller = json.loads(text)["ranks"]
    assert ranks["run"] == "p=64#0"
    assert dict(zip(ranks["names"], ranks["counts"], strict=True)) == {"end": 2, "inner": 62}
    assert len(ranks["labels"]) == 64
    assert [run["run"] for run in smaller] == ["p=32#0", "p=16#0", "p=8#0", "p=4#0"]


def test_a_call_path_without_models_has_no_curve(page: Page):
    _, _, text = page.ask("/series?callpath=nobody&metric=time&axis=q")

    answer = json.loads(text)
    assert (answer["classes"], answer["ranks"]) == ([], [])


def test_shares_and_costs_are_predicted_at_a_coordinate(page: Page):
    shares = json.loads(page.ask("/shares?axis=p&to=65536")[2])
    outlook = json.loads(page.ask("/outlook?at=p=512")[2])

    whole = [sum(parts) for parts in zip(*shares["parts"], strict=True)]
    assert whole == pytest.approx([1.0] * len(whole))
    # The curves end where nothing is known of a call path that takes a tenth of the time.
    assert (shares["at"][0], shares["at"][-1], shares["last"]) == pytest.approx((4, 512, 64))
    assert (shares["farthest"], str(REDUCE) in shares["names"]) == (65536, True)
    assert outlook["rows"][0]["callpath"] == str(REDUCE)
    low, value, high = (outlook["rows"][0]["cost"][i] for i in (1, 0, 2))
    assert low < 0.05 * 10 < high and low < value < high


@pytest.mark.parametrize(
    "path",
    ["/shares?axis=p&to=far", "/shares?axis=p&to=inf", "/outlook?at=p", "/series?at=p=x"],
)
def test_an_invalid_query_is_refused(page: Page, path: str):
    status, _, text = page.ask(path)

    assert status == 400
    assert "is not" in json.loads(text)["trouble"]


def test_names_that_look_like_markup_stay_names(tmp_path: os.PathLike[str]):
    name, campaign = "<img src=x onerror=alert(1)>\u2028\ndata: {}", f"{tmp_path}/odd.insitu"
    lines = [{"callpath": name, "params": {"p": p}, "value": 1.0 * p} for p in (1, 2, 4, 8)]
    command = [sys.executable, "-m", "insitu", "import", campaign, "-"]
    rows = "\n".join(map(json.dumps, lines))
    subprocess.run(command, cwd=ROOT, input=rows, text=True, check=True, capture_output=True)

    with served(campaign) as page, page.events() as events:
        (row,) = next(events)[1]["board"]["series"]
        _, headers, text = page.ask(f"/series?callpath={quote(name)}&metric={row['metric']}")

    assert row["callpath"] == name
    assert headers["content-type"] == "application/json"
    assert len(json.loads(text)["classes"]) == 1


def test_a_missing_campaign_is_refused_before_anything_is_served(
    tmp_path: os.PathLike[str],
):
    command = [sys.executable, "-m", "insitu", "watch", "--web", f"{tmp_path}/none.insitu"]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=WAIT_S)

    assert done.returncode == 3
    assert done.stdout == ""


@plain_and_full(
    "options",
    [("--web", "--once"), ("--web", "--json"), ("--port", "8000"), ("--web", "--port", "x")],
)
def test_conflicting_options_are_refused(page: Page, options: tuple[str, ...]):
    command = [sys.executable, "-m", "insitu", "watch", page.campaign, *options]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=WAIT_S)

    assert done.returncode == 2


def test_a_port_in_use_is_named(page: Page):
    command = [sys.executable, "-m", "insitu", "watch", page.campaign, "--web"]
    command += ["--port", str(page.port)]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=WAIT_S)

    assert done.returncode == 2
    assert f"port {page.port} cannot be used" in done.stderr


def test_connections_without_a_request_neither_block_the_page_nor_stay(page: Page):
    half_open = []
    for _ in range(2 * MAX_CONNECTIONS):
        connection = socket.create_connection(("127.0.0.1", page.port), timeout=WAIT_S)
        connection.sendall(b"GET / HTTP/1.1\r\nHost: 127.0")
        half_open.append(connection)

    status, _, _ = page.ask("/series")
    ends = [_read_end(connection) for connection in half_open]

    assert status == 200
    assert ends == [b""] * len(half_open)  # closed by the page, without an answer


def _read_end(connection: socket.socket) -> bytes:
    with connection:
        try:
            return connection.recv(100)
        except ConnectionResetError:
            return b""
