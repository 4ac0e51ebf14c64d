"""What every store must do, tested with each implementation."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from insitu.campaign.base import Store
from insitu.campaign.load import load_experiment
from insitu.campaign.store import open_store
from insitu.entities import (
    TIME,
    VISITS,
    CallPath,
    Configuration,
    Finding,
    RunKey,
    RunRecord,
    RunState,
)
from insitu.errors import CampaignError
from insitu.modeling.base import Clusters, ModelSet, SeriesModel
from insitu.modeling.measurement import RunTable, SeriesKey
from insitu.modeling.pipeline import remodel
from tests.campaign.memory import MemoryStore
from tests.support.campaigns import heat_run

MAIN, SOLVE, HALO = (
    CallPath.parse(text) for text in ("main", "main->solve", "main->solve->MPI_Isend [to 3]")
)
STORES: dict[str, Callable[[str], Store]] = {
    "memory": lambda path: MemoryStore(),
    "sqlite": lambda path: open_store(path, create=True),
}


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: object) -> Iterator[Store]:
    with STORES[request.param](f"{tmp_path}/heat.insitu") as store:
        yield store


def record(
    run_id: str = "a", state: RunState = RunState.COMPLETE, **parameters: float
) -> RunRecord:
    return RunRecord(
        id=run_id,
        key=RunKey.of(parameters or {"p": 4}),
        state=state,
        started_at=1.5,
        ended_at=2.25,
        configuration=Configuration.of({"command": '["heat"]', "host": "n1"}),
        exit_status=(0, 0, -11, -1000),
        missing=(3,),
        findings=(Finding("rank-lost", "rank 3 never ended", "rank 3"),),
    )


def table(scale: float = 1.0) -> RunTable:
    return RunTable(
        callpaths=(SOLVE, MAIN, HALO),
        metrics=(VISITS, TIME),
        values={
            "visits": np.array([[1, 1, 1, 1], [5, 5, 5, 5], [np.nan, 2, 2, np.nan]]) * scale,
            "time": np.array([[1e-9, 2, 3, 1e9], [np.nan] * 4, [0.0, 0, -0.0, np.pi]]) * scale,
        },
    )


def same(left: RunTable, right: RunTable) -> bool:
    return (
        left.callpaths == right.callpaths
        and left.metrics == right.metrics
        and all(
            np.array_equal(left.values[m], right.values[m], equal_nan=True) for m in left.values
        )
    )


def test_a_stored_run_is_read_back_unchanged(store: Store):
    store.add_run(record(), table())

    assert store.runs() == [record()]
    assert same(store.table("a"), table())


def test_storing_a_run_again_replaces_it_in_its_position(store: Store):
    store.add_run(record("a", RunState.INCOMPLETE), table(2.0))
    store.add_run(record("b", p=8), table())

    store.add_run(record("a"), table())

    assert [run.id for run in store.runs()] == ["a", "b"]
    assert store.runs()[0].state is RunState.COMPLETE
    assert same(store.table("a"), table())


def test_a_finding_that_is_added_twice_is_stored_once(store: Store):
    store.add_run(*heat_run(2))
    finding = Finding("off-forecast", "run p=2#0: odd")

    for _ in range(2):
        store.add_findings(store.runs()[0].id, [finding])

    assert store.runs()[0].findings == (*heat_run(2)[0].findings, finding)
    store.add_findings(store.runs()[0].id, [], without="off-forecast")
    assert store.runs()[0].findings == heat_run(2)[0].findings
    with pytest.raises(CampaignError, match="no run 'nobody'"):
        store.add_findings("nobody", [finding])


def test_repetitions_are_counted_at_each_coordinate(store: Store):
    store.add_run(record("a", p=4, n=256), table())

    assert store.next_repetition({"n": 256, "p": 4}) == 1
    assert store.next_repetition({"p": 4}) == 0


def test_an_unknown_run_is_refused(store: Store):
    with pytest.raises(CampaignError, match="no run 'z'"):
        store.table("z")


def test_a_run_without_call_paths_is_stored(store: Store):
    empty = RunTable((), (TIME,), {"time": np.empty((0, 4))})

    store.add_run(record(), empty)

    assert same(store.table("a"), empty)


def test_a_table_whose_arrays_do_not_fit_is_refused(store: Store):
    crooked = RunTable((MAIN,), (TIME,), {"time": np.zeros((2, 4))})

    with pytest.raises(ValueError, match=r"time has shape \(2, 4\), not \(1, 4\)"):
        store.add_run(record(), crooked)

    assert store.runs() == []


def test_a_new_store_has_no_models(store: Store):
    assert store.models() == ModelSet()


def test_classes_and_findings_are_read_back_and_replaced(store: Store):
    first = Clusters(MAIN, "time", RunKey.of({"p": 4}), np.array([0, 1, -1, 1]), ("edge", "inner"))
    other = Clusters(SOLVE, "time", RunKey.of({"p": 4}, 2), np.array([0, 0]), ("all",))
    store.put_models(ModelSet(("p",), (), (first,), (Finding("few-points", "too few"),)))

    store.put_models(ModelSet(("p", "n"), (), (other,), (Finding("classes-differ", "2", "main"),)))

    stored = store.models()
    assert stored.parameters == ("p", "n")
    assert stored.findings == (Finding("classes-differ", "2", "main"),)
    assert [(c.callpath, c.metric, c.run, c.names) for c in stored.clusters] == [
        (SOLVE, "time", RunKey.of({"p": 4}, 2), ("all",))
    ]
    assert stored.clusters[0].labels.tolist() == [0, 0]


def test_models_are_read_back_and_removed_models_are_deleted(store: Store):
    for p in (1, 2, 4, 8):
        store.add_run(*heat_run(p))
    models = remodel(load_experiment(store))
    store.put_models(models)
    stored = store.models()

    store.put_models(replace(models, models=models.models[1:], clusters=models.clusters[1:]))

    assert sorted(stored.models, key=key_of) == sorted(models.models, key=key_of)
    assert sorted(store.models().models, key=key_of) == sorted(models.models[1:], key=key_of)
    assert [c.run for c in store.models().clusters] == [c.run for c in models.clusters[1:]]


def test_the_store_knows_which_runs_the_models_do_not_include(store: Store):
    store.add_run(*heat_run(1))
    before = store.unmodelled_runs()

    store.put_models(ModelSet())
    store.add_run(*heat_run(2))
    between = store.unmodelled_runs()
    store.put_models(ModelSet(), of=[heat_run(2)[0].id])

    assert [before, between, store.unmodelled_runs()] == [["0001-0-"], ["0002-0-"], ["0001-0-"]]


def test_models_come_with_a_finding_about_the_runs_that_they_lack(tmp_path: Path):
    with open_store(str(tmp_path / "heat.insitu"), create=True) as store:
        for p in (1, 2, 4):
            store.add_run(*heat_run(p))
        store.put_models(remodel(load_experiment(store)))
        before = store.models().findings
        store.add_run(*heat_run(8))

        (finding,) = set(store.models().findings) - set(before)

    assert finding.code == "models-outdated"
    assert "the models lack p=8#0, measured after they were fitted" in finding.text


def key_of(series: SeriesModel) -> SeriesKey:
    return series.key


def test_a_run_with_other_parameters_is_the_next_repetition_there(store: Store):
    store.add_run(*heat_run(2))
    store.add_run(*heat_run(4))
    moved = store.runs()[1]

    store.set_parameters(moved.id, {"p": 2})

    assert store.runs() == [
        store.runs()[0],
        replace(moved, key=RunKey.of({"p": 2}, 1)),
    ]
    with pytest.raises(CampaignError):
        store.set_parameters("unknown", {"p": 2})
