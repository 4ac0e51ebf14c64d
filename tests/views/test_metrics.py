"""What Prometheus gets of a campaign, and that the dashboard asks for nothing else."""

import json
import os
import re
import subprocess
import sys
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from insitu.analysis.board import Board, RunRow, SeriesRow
from insitu.entities import Finding
from insitu.formats import openmetrics
from insitu.views.web import metrics
from tests.support.campaigns import modelled_campaign

ROOT = Path(__file__).resolve().parents[2]
WAIT_S = 90
RANKS = (("ended", 1), ("measuring", 3))
BOARD = Board(
    ("p",),
    (
        RunRow(
            "b", "p=4#0", "measuring", 4, 3, 1, ranks=(("ended", 1), ("measuring", 3)), part=0.5
        ),
        RunRow("a", "p=2#0", "sealed", 2, 2, 2),
    ),
    (
        SeriesRow(
            'main->"a\\b"',
            "time",
            "s",
            "all",
            0.75,
            points=(((1.0,), 3.0), ((2.0,), 4.0)),
            live=5.0,
            expected=(1.0, 2.0, 3.0),
            verdict="slower",
        ),
    ),
    (Finding("preview", "x"), Finding("preview", "y")),
)


def test_a_board_tells_runs_ranks_and_what_leaves_its_bounds():
    lines = list(metrics.board_lines(BOARD, is_live=True))

    path = 'callpath="main->\\"a\\\\b\\""'
    row = f'{path},metric="time",unit="s",class="all"'
    assert [line for line in lines if not line.startswith("#")] == [
        'insitu_runs{state="measuring"} 1',
        'insitu_runs{state="sealed"} 1',
        'insitu_findings{code="preview"} 2',
        "insitu_live 1",
        'insitu_run_ranks{run="p=4#0",state="ended"} 1',
        'insitu_run_ranks{run="p=4#0",state="measuring"} 3',
        'insitu_run_progress_ratio{run="p=4#0"} 0.5',
        f"insitu_share_ratio{{{path}}} 0.75",
        f"insitu_value{{{row}}} 4.0",
        f"insitu_live_value{{{row}}} 5.0",
        f'insitu_live_expected{{{row},bound="low"}} 1.0',
        f'insitu_live_expected{{{row},bound="value"}} 2.0',
        f'insitu_live_expected{{{row},bound="high"}} 3.0',
        f"insitu_live_slower{{{row}}} 1",
    ]


def test_who_knows_the_secret_gets_metrics_and_nobody_else(tmp_path):
    pytest.importorskip("starlette", reason="the page needs Starlette: pip install 'insitu[web]'")
    pytest.importorskip("uvicorn", reason="the page needs uvicorn: pip install 'insitu[web]'")
    path = os.path.join(tmp_path, "heat.insitu")
    modelled_campaign(path, 1, (4, 8, 16)).close()
    (tmp_path / "secret").write_text("0123456789abcdef-_\n")
    (tmp_path / "secret").chmod(0o600)
    command = [sys.executable, "-m", "insitu", "watch", "--web", path]
    command += ["--token-file", str(tmp_path / "secret")]

    with subprocess.Popen(command, cwd=ROOT, text=True, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        address = urlsplit(process.stdout.readline().strip())
        answers = []
        for token in ("", "wrong", "0123456789abcdef-_"):
            asked = HTTPConnection("127.0.0.1", address.port, timeout=WAIT_S)
            asked.request("GET", "/metrics", headers={"Authorization": f"Bearer {token}"})
            answer = asked.getresponse()
            answers.append((answer.status, answer.getheader("content-type"), answer.read()))
            asked.close()
        process.terminate()

    assert address.query == "token=0123456789abcdef-_"
    assert [status for status, _, _ in answers] == [403, 403, 200]
    _, kind, text = answers[-1]
    assert kind == metrics.CONTENT_TYPE
    assert text.endswith(b"# EOF\n")
    assert b'insitu_runs{state="sealed"} 3' in text and b"insitu_prediction{" in text


@pytest.mark.parametrize(
    ("content", "mode", "said"),
    [
        ("short", 0o600, "does not contain a secret"),
        ("0123456789abcdef", 0o644, "other users have access"),
    ],
)
def test_a_file_that_is_no_secret_is_refused(tmp_path, content, mode, said):
    pytest.importorskip("uvicorn", reason="the page needs uvicorn: pip install 'insitu[web]'")
    from insitu.errors import UsageError
    from insitu.workflows.page import load_token

    file = tmp_path / "secret"
    file.write_text(content)
    file.chmod(mode)

    with pytest.raises(UsageError, match=said):
        load_token(str(file))


def test_the_dashboard_asks_for_what_there_is():
    told = {*metrics.FAMILIES, *openmetrics.FAMILIES}

    board = json.loads((ROOT / "examples" / "grafana.json").read_text(encoding="utf-8"))

    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    assert {name for text in asked for name in re.findall(r"\binsitu_\w+", text)} == told
    variables = {variable["name"] for variable in board["templating"]["list"]}
    assert set(re.findall(r"\$\{?(\w+)", json.dumps(board))) == variables
