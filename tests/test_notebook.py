"""A campaign in Python: frames, predictions, and objects that show themselves."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import insitu
from insitu.errors import CampaignError, UsageError
from insitu.notebook import Campaign
from insitu.workflows.import_ import import_measurements
from tests.support.campaigns import REDUCE, modelled_campaign

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[-+]?\d+)?")  # its last digit may differ between machines


@pytest.fixture(scope="module")
def heat(tmp_path_factory) -> Campaign:
    path = str(tmp_path_factory.mktemp("kept") / "heat.insitu")
    modelled_campaign(path, 2, (4, 8, 16, 32, 64)).close()
    return insitu.open_campaign(path)


def test_a_campaign_tells_what_it_holds(heat: Campaign):
    assert (heat.name, heat.parameters, len(heat.runs)) == ("heat", ("p",), 10)
    assert repr(heat) == "<heat: 10 runs, 26 models over p>"
    assert "main-&gt;solve-&gt;residual-&gt;MPI_Allreduce" in heat._repr_html_()
    assert repr(heat.runs[0]).startswith("<run p=4#0: complete")


def test_a_series_predicts_and_shows_itself(heat: Campaign):
    (series,) = heat.find("MPI_Allreduce", "time_exclusive")

    low, high = series.interval(p=128)
    assert low < series.predict(p=128) < high
    assert series.predict(p=128) == pytest.approx(0.05 * 8, rel=0.05)
    assert series._repr_latex_().startswith("$0.05")
    assert "<svg" in series._repr_html_()
    with pytest.raises(UsageError, match="p=…"):
        series.predict(n=3)
    with pytest.raises(UsageError, match="pass one number; call once per point"):
        series.predict(p=[8, 16])
    for none in (0, -1, float("nan")):
        with pytest.raises(UsageError, match="the value must be at least 1"):
            series.predict(p=none)


def test_a_series_has_no_value_where_parameters_part_that_changed_together(tmp_path):
    rows = []
    for p in (1, 2, 4, 8, 16):
        row = {"callpath": "main", "params": {"p": p, "n": 10 * p}, "value": float(p)}
        rows.append(json.dumps(row))
    file = tmp_path / "rows.jsonl"
    file.write_text("\n".join(rows))
    campaign = str(tmp_path / "together.insitu")
    import_measurements(campaign, str(file))

    series, *_ = insitu.open_campaign(campaign).find("main")

    assert series.predict(p=32, n=320) == pytest.approx(32, rel=0.01)
    assert series.predict(p=32) == series.predict(n=320) == series.predict(p=32, n=320)
    with pytest.raises(UsageError, match=r"changed together in all runs.* predict p=32 with n=320"):
        series.predict(p=32, n=10)
    with pytest.raises(UsageError, match="changed together"):
        series.interval(p=32, n=10)


def test_a_series_is_an_expression_that_can_be_solved(heat: Campaign):
    sympy = pytest.importorskip("sympy", reason="SymPy is not installed")
    (series,) = heat.find("MPI_Allreduce", "time_exclusive")

    expression = series.sympy()

    (p,) = expression.free_symbols
    function = series.data.model.segments[-1].function
    assert float(expression.subs(p, 128)) == pytest.approx(function(np.array([[128.0]]))[0])
    assert sympy.limit(expression / p, p, sympy.oo) == 0


def test_a_frame_has_every_rank(heat: Campaign):
    pytest.importorskip("pandas", reason="pandas is not installed")

    frame = heat.frame("time")
    points = heat.points()

    assert list(frame.columns) == ["p", "repetition", "callpath", "metric", "unit", "rank", "value"]
    assert len(frame) == 4 * 2 * (4 + 8 + 16 + 32 + 64)
    measured = points[(points.callpath == str(REDUCE)) & (points.metric == "time")]
    assert measured.p.tolist() == [4, 8, 16, 32, 64]
    np.testing.assert_allclose(measured.value, measured.model_value, rtol=0.05)


def test_pictures_are_drawn_with_matplotlib(heat: Campaign):
    matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    matplotlib.use("Agg")

    axes = heat.draw("MPI_Sendrecv")

    assert [text.get_text().split(":")[0] for text in axes.get_legend().get_texts()] == [
        "all",
        "end",
        "inner",
    ]
    with pytest.raises(UsageError, match="no call path"):
        heat.draw("nothing like it")


def test_there_must_be_a_campaign(tmp_path):
    with pytest.raises(CampaignError):
        insitu.open_campaign(str(tmp_path / "none"))


def test_importing_insitu_loads_no_numpy():
    code = "import sys, insitu; print('numpy' in sys.modules)"

    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )

    assert answer.stdout == "False\n"


def test_the_notebook_runs_and_says_what_it_shows(monkeypatch, capsys):
    for name in ("pandas", "matplotlib", "sympy"):
        pytest.importorskip(name, reason=f"{name} is not installed")
    monkeypatch.chdir(EXAMPLES)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.setenv("PYTHONPATH", str(EXAMPLES.parent))
    cells = json.loads((EXAMPLES / "campaign.ipynb").read_text(encoding="utf-8"))["cells"]
    names: dict[str, object] = {}

    for cell in cells:
        if cell["cell_type"] != "code":
            continue
        *before, last = ast.parse("".join(cell["source"])).body
        if not isinstance(last, ast.Expr):
            before.append(last)
        exec(compile(ast.Module(before, []), "notebook", "exec"), names)
        shown = ""
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "notebook", "eval"), names)
            shown = "" if value is None else repr(value)
        said = capsys.readouterr().out + shown
        texts = [
            output.get("text", output.get("data", {}).get("text/plain", ""))
            for output in cell["outputs"]
            if output["output_type"] != "display_data"
        ]
        kept = "".join("".join(text) for text in texts)
        assert NUMBER.sub("#", said) == NUMBER.sub("#", kept)
        numbers = [float(match) for match in NUMBER.findall(said)]
        assert numbers == pytest.approx([float(match) for match in NUMBER.findall(kept)], rel=0.02)


def test_dir_shows_the_public_names():
    assert dir(insitu) == sorted(insitu.__all__)
    with pytest.raises(AttributeError, match="did you mean 'open_campaign'"):
        _ = insitu.open_campain


def test_one_series_may_be_one_dimensional():
    (model,) = insitu.fit([1, 2, 4, 8], [3.0, 5.0, 9.0, 17.0])

    assert repr(model) == "<1 + 2 * p: 4 points over p, error 0.0 %>"


def test_the_repr_of_a_verdict_is_a_sentence():
    (verdict,) = insitu.validate([1, 2, 4, 8, 16], [3.0, 5.0, 9.0, 17.0, 33.0], "O(log p)")

    assert repr(verdict).startswith("<violated: grows as O(p), expected O(log(p))")


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"callpath": "slove"}, "no call path 'slove' here; there are solve"),
        ({"metric": "tiem"}, "no metric 'tiem' here; there are time"),
        ({"behaviour": "cornr"}, "no class 'cornr' here"),
    ],
)
def test_a_wrong_name_raises_with_similar_ones(tmp_path, wrong, text):
    modelled_campaign(str(tmp_path / "heat.insitu")).close()
    campaign = insitu.open_campaign(str(tmp_path / "heat.insitu"))

    with pytest.raises(UsageError, match=text):
        campaign.find(**wrong)
