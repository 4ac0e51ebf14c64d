"""Every view looks ahead to the same target."""

import itertools
import json
from pathlib import Path

import pytest

from insitu.analysis.outlook import board_target, outlook_target
from insitu.workflows import diagnose, predict_series
from insitu.workflows.boards import BoardClient
from insitu.workflows.import_ import import_measurements
from insitu.workflows.report import summarise_campaign
from tests.support.campaigns import modelled_campaign


@pytest.fixture
def campaign(tmp_path: Path) -> Path:
    path = tmp_path / "heat.insitu"
    modelled_campaign(str(path), 1, (4, 8, 16)).close()
    return path


@pytest.mark.parametrize(
    ("settings", "ranks"), [("", 1024.0), ('target = "p=65536"', 65536.0), ('target = "n=1"', 1024)]
)
def test_all_views_have_one_target(campaign: Path, settings: str, ranks: float):
    (campaign / "campaign.toml").write_text(settings, encoding="utf-8")

    predicted = predict_series(str(campaign)).series[0].values[0]["at"]
    with BoardClient(str(campaign)) as client:
        models, board, chosen = client.models(), client.read_stored(), client.target()

    assert diagnose(str(campaign)).target == ranks
    assert summarise_campaign(str(campaign)).target == (ranks,)
    assert predicted == {"p": ranks}
    assert models is not None and board is not None
    assert board_target(board, chosen) == {"p": ranks}
    assert outlook_target(models, chosen) == (ranks,)


def test_a_target_of_a_parameter_that_no_run_has_is_reported(campaign: Path):
    (campaign / "campaign.toml").write_text('target = "q=5"', encoding="utf-8")
    note = "campaign.toml: target: no run has a parameter 'q', so it is ignored; there are p"

    assert note in diagnose(str(campaign)).notes
    assert note in predict_series(str(campaign)).notes
    assert note not in predict_series(str(campaign), ["p=64"]).notes


def test_a_report_begins_with_the_diagnosis_also_over_several_parameters(tmp_path: Path):
    """Growth with `n` is judged at its own target, 64 times the largest value."""
    rows = []
    for p, n in itertools.product((2, 4, 8, 16), (100, 200, 400, 800)):
        for name, seconds in (("solve", 1e-3 * n), ("sort", 1e-6 * n**2)):
            row = {"callpath": f"main->{name}", "metric": "time_exclusive", "unit": "s"}
            rows.append(json.dumps(row | {"params": {"p": p, "n": n}, "ranks": [seconds] * p}))
    (tmp_path / "rows.jsonl").write_text("\n".join(rows), encoding="utf-8")
    campaign = str(tmp_path / "app.insitu")
    import_measurements(campaign, str(tmp_path / "rows.jsonl"))

    summary = summarise_campaign(campaign)
    of_one_n = summarise_campaign(campaign, at="p=64,n=800")

    assert summary.diagnosis == diagnose(campaign)
    assert [entry.text for entry in summary.diagnosis.statements if "faster than n" in entry.text]
    assert of_one_n.diagnosis == diagnose(campaign, at="p=64,n=800")
    assert "faster than n" not in str(of_one_n.diagnosis)
