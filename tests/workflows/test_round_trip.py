"""An exported campaign that is imported is the same campaign."""

import json
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from insitu.campaign.store import open_store
from insitu.entities import Configuration, Finding, RunState
from insitu.errors import UsageError
from insitu.formats import reading
from insitu.formats.jsonl import JsonLines
from insitu.workflows.export import export_campaign
from insitu.workflows.import_ import import_measurements
from insitu.workflows.refit import refit_campaign
from tests.support.campaigns import heat_run

PARAMETERS = ((1, 0), (2, 0), (4, 0), (8, 0), (16, 0), (16, 1))


@pytest.fixture
def campaign(tmp_path: Path) -> str:
    """Runs with more ranks than cores, with findings, one of them incomplete."""
    path = str(tmp_path / "heat.insitu")
    with open_store(path, create=True) as store:
        for p, repetition in PARAMETERS:
            record, table = heat_run(p, repetition)
            configuration = Configuration.of({**dict(record.configuration.values), "cores": "4"})
            record = replace(record, configuration=configuration)
            if (p, repetition) == (16, 1):
                lost = (Finding("rank-lost", "rank 3 was lost", "rank 3"),)
                record = replace(record, state=RunState.INCOMPLETE, missing=(3,), findings=lost)
            store.add_run(record, table)
    refit_campaign(path)
    return path


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_an_export_is_imported_as_the_same_campaign(campaign, tmp_path, suffix):
    if suffix == "parquet":
        pytest.importorskip("pyarrow.parquet")
    file, copy = str(tmp_path / f"heat.{suffix}"), str(tmp_path / "copy.insitu")

    export_campaign(campaign, file)
    result = import_measurements(copy, file)

    assert result.measurements.bad == ()
    with open_store(campaign) as before, open_store(copy) as after:
        assert after.runs() == before.runs()
        for run in before.runs():
            left, right = before.table(run.id), after.table(run.id)
            assert (left.callpaths, left.metrics) == (right.callpaths, right.metrics)
            for name in left.values:
                np.testing.assert_array_equal(left.values[name], right.values[name])
        assert after.models().models == before.models().models
        assert after.models().findings == before.models().findings


def test_an_export_that_is_imported_where_it_came_from_changes_nothing(campaign, tmp_path):
    file = str(tmp_path / "heat.jsonl")
    export_campaign(campaign, file)
    with open_store(campaign) as store:
        before = store.runs()

    import_measurements(campaign, file)

    with open_store(campaign) as store:
        assert store.runs() == before


@pytest.mark.parametrize("change", [{"size": -1}, {"state": "done"}, {"run": ""}, {"metrics": [1]}])
def test_a_line_that_describes_no_run_is_reported(campaign, tmp_path, change):
    file = tmp_path / "heat.jsonl"
    export_campaign(campaign, str(file))
    first = json.loads(file.read_text().splitlines()[0]) | change

    read = JsonLines().read([json.dumps(first).encode()])

    assert [line.number for line in read.bad] == [1]
    assert read.runs == ()


def test_many_repetitions_of_a_series_are_numbered_in_order():
    line = json.dumps({"callpath": "main", "params": {"p": 2}, "value": 1.0}).encode()

    read = JsonLines().read(line for _ in range(100_000))  # in quadratic time, it takes minutes

    assert len(read.runs) == 100_000
    assert {key.repetition for key, _ in read.runs} == set(range(100_000))


def test_a_file_that_becomes_far_larger_in_memory_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "MIN_MEMORY_BYTES", 256 << 20)
    bomb = tmp_path / "heat.extra-p"
    archive = zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED)
    with archive, archive.open("experiment.json", "w") as content:
        for _ in range(512):
            content.write(b"[" + b"0," * (1 << 19))

    with pytest.raises(UsageError, match=r"heat\.extra-p"):
        import_measurements(str(tmp_path / "heat.insitu"), str(bomb))
