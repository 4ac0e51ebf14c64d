"""An exported campaign that is imported is the same campaign."""

import json
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from insitu.campaign.store import open_store
from insitu.entities import (
    METRICS,
    TIME,
    CallPath,
    Configuration,
    Finding,
    RunKey,
    RunRecord,
    RunState,
)
from insitu.errors import UsageError
from insitu.formats import reading
from insitu.formats.jsonl import JsonLines
from insitu.modeling.measurement import RunTable
from insitu.workflows.export import export_campaign
from insitu.workflows.import_ import import_measurements
from insitu.workflows.refit import refit_campaign
from tests.support.campaigns import heat_run
from tests.support.parameters import plain_and_full

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


@plain_and_full("suffix", ["jsonl", "parquet"])
def test_an_export_is_imported_as_the_same_campaign(campaign, tmp_path, suffix):
    if suffix == "parquet":
        pytest.importorskip("pyarrow.parquet")
    file, copy = str(tmp_path / f"heat.{suffix}"), str(tmp_path / "copy.insitu")

    export_campaign(campaign, file)
    result = import_measurements(copy, file)

    assert result.measurements.bad == ()
    assert_same_campaign(campaign, copy)


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


@pytest.mark.full
def test_many_repetitions_of_a_series_are_numbered_in_order():
    line = json.dumps({"callpath": "main", "params": {"p": 2}, "value": 1.0}).encode()

    read = JsonLines().read(line for _ in range(100_000))  # in quadratic time, it takes minutes

    assert len(read.runs) == 100_000
    assert {key.repetition for key, _ in read.runs} == set(range(100_000))


def test_a_file_that_becomes_far_larger_in_memory_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "MIN_MEMORY_BYTES", 32 << 20)
    bomb = tmp_path / "heat.extra-p"
    archive = zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED)
    with archive, archive.open("experiment.json", "w") as content:
        for _ in range(64):
            content.write(b"[" + b"0," * (1 << 19))

    with pytest.raises(UsageError, match=r"heat\.extra-p: .*memory"):
        import_measurements(str(tmp_path / "heat.insitu"), str(bomb))


def assert_same_campaign(left: str, right: str) -> None:
    """Runs, every value, where functions are defined, and everything that was derived."""
    with open_store(left) as before, open_store(right) as after:
        assert after.runs() == before.runs()
        assert after.sites() == before.sites()
        for run in before.runs():
            old, new = before.table(run.id), after.table(run.id)
            assert (new.callpaths, new.metrics) == (old.callpaths, old.metrics)
            for name in old.values:
                np.testing.assert_array_equal(new.values[name], old.values[name])

        old_models, new_models = before.models(), after.models()
        assert new_models.models == old_models.models
        assert new_models.supplements == old_models.supplements
        assert new_models.findings == old_models.findings
        assert (new_models.parameters, new_models.rest) == (
            old_models.parameters,
            old_models.rest,
        )
        assert len(new_models.clusters) == len(old_models.clusters)
        for new_classes, old_classes in zip(new_models.clusters, old_models.clusters, strict=True):
            assert (
                new_classes.callpath,
                new_classes.metric,
                new_classes.run,
                new_classes.names,
            ) == (
                old_classes.callpath,
                old_classes.metric,
                old_classes.run,
                old_classes.names,
            )
            np.testing.assert_array_equal(new_classes.labels, old_classes.labels)


ODD_PATHS = (
    "main",
    "main->operator()",
    'main->f(std::vector<int, std::allocator<int> > const&, "ü")',
    "main->loop {lambda #1}->MPI_Waitall",
    "main->file.py:<module>",
    "main->never measured",
)


def rich_run(p: int) -> tuple[RunRecord, RunTable]:
    """Every metric that insitu knows; threads, sampling, missing values, names of all kinds."""
    random = np.random.default_rng(p)
    paths = tuple(map(CallPath.parse, ODD_PATHS))
    values = {}
    for index, metric in enumerate(METRICS):
        scale = np.arange(1, len(paths) + 1)[:, None] * (index + 1) * p
        noise = random.normal(1, 0.01, (len(paths), p))
        table = np.ones((len(paths), p)) * scale * (noise if metric.unit == "s" else 1.0)
        table[-1] = np.nan
        table[index % 4 + 1, ::2] = np.nan
        values[metric.name] = table
    values[TIME.name][1, 0] = 1 / 3 * 1e-300
    configuration = {"cores": "8", "threads": "1, 4", "sample_hz": "97", "command": 'a "b" ü'}
    record = RunRecord(
        id=f"{p:032x}",
        key=RunKey.of({"p": p, "n": 64 / p}, 3),
        state=RunState.COMPLETE,
        started_at=1.8e9 + p + 0.123456789,
        ended_at=1.8e9 + p + 3,
        configuration=Configuration.of(configuration),
        exit_status=(0,) * p,
    )
    sites = {paths[4]: ("a dir/file.py", 1), paths[1]: ("größe.cpp", 77)}
    return record, RunTable(paths, METRICS, values, sites)


@pytest.fixture(scope="module")
def rich_campaign(tmp_path_factory) -> str:
    path = str(tmp_path_factory.mktemp("rich") / "rich.insitu")
    with open_store(path, create=True) as store:
        for p in (2, 4, 8):
            store.add_run(*rich_run(p))
    refit_campaign(path)
    return path


@plain_and_full("suffix", ["jsonl", "parquet"])
def test_every_metric_and_name_survives(rich_campaign, tmp_path, suffix):
    if suffix == "parquet":
        pytest.importorskip("pyarrow.parquet")
    copy = str(tmp_path / "copy.insitu")

    export_campaign(rich_campaign, str(tmp_path / f"rich.{suffix}"))
    result = import_measurements(copy, str(tmp_path / f"rich.{suffix}"))

    assert result.measurements.bad == ()
    assert_same_campaign(rich_campaign, copy)
