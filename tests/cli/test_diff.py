"""`insitu diff`: what got slower, what grows otherwise, and what is alike."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from insitu.campaign.load import load_experiment
from insitu.campaign.store import open_store
from insitu.entities import HEAP_GROWTH, CallPath
from insitu.modeling.pipeline import remodel
from tests.cli.conftest import Insitu
from tests.support.campaigns import heat_run

SCALES = (2, 3, 4, 6, 8)


def make_campaign(path: Path, *, slower: float = 1.0, messages: bool = False) -> str:
    """The plate of the other tests, with a slower `solve` and visits of the halo that grow."""
    with open_store(str(path), create=True) as store:
        for p in SCALES:
            for repetition in range(2):
                record, table = heat_run(p, repetition)
                table.values["time_exclusive"][1] *= slower
                if messages:
                    table.values["visits"][2] = 20.0 * (p - 1)
                store.add_run(record, table)
        store.put_models(remodel(load_experiment(store)))
    return str(path)


@pytest.fixture(scope="module")
def campaigns(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    folder = tmp_path_factory.mktemp("diff")
    before = make_campaign(folder / "a.insitu")
    return before, make_campaign(folder / "b.insitu", slower=2.0, messages=True)


def test_a_campaign_does_not_differ_from_itself(insitu: Insitu, campaigns: tuple[str, str]):
    answer = insitu("diff", campaigns[0], campaigns[0])

    assert answer.code == 0, answer.err
    assert len(answer.lines) == 1
    assert answer.lines[0].endswith("series alike")


def test_what_got_slower_comes_first_with_its_ratio(insitu: Insitu, campaigns: tuple[str, str]):
    rows = [json.loads(line) for line in insitu("diff", *campaigns, "--json").lines]

    first = rows[0]
    assert (first["callpath"], first["metric"]) == ("main->solve", "time_exclusive")
    assert first["status"] == "slower"
    assert first["low"] < 2.0 < first["high"]
    assert [row for row in rows if row["callpath"] == "main"] == []


@pytest.mark.parametrize(
    ("changes", "codes"),
    [({}, (0, 0)), ({"slower": 2.0}, (1, 1)), ({"slower": 0.5}, (0, 0)), ({"messages": 1}, (0, 1))],
)
def test_tests_may_fail_on_what_got_slower_or_changed(
    insitu: Insitu, campaigns: tuple[str, str], tmp_path: Path, changes: dict[str, float], codes
):
    after = make_campaign(tmp_path / "after.insitu", **changes)

    for choice, code in zip(("slower", "changed"), codes, strict=True):
        assert insitu("diff", campaigns[0], after, "--fail-on", choice).code == code
        assert insitu("diff", campaigns[0], after, "--fail-on", choice, "--json").code == code
    assert insitu("diff", campaigns[0], after).code == 0


def test_a_count_that_follows_another_law_is_shown_with_both(
    insitu: Insitu, campaigns: tuple[str, str]
):
    answer = insitu("diff", *campaigns)

    assert "no law -> 20 (p - 1)" in answer.out
    assert "1 slower; 1 changed; 1 with another law" in answer.lines[-1]


def test_the_reverse_is_faster(insitu: Insitu, campaigns: tuple[str, str]):
    rows = [json.loads(line) for line in insitu("diff", *reversed(campaigns), "--json").lines]

    assert rows[0]["status"] == "faster"


def test_campaigns_without_a_common_point_are_refused(
    insitu: Insitu, campaigns: tuple[str, str], heat: str, tmp_path: Path
):
    with open_store(str(tmp_path / "c.insitu"), create=True) as store:
        store.add_run(*heat_run(128))

    answer = insitu("diff", campaigns[0], str(tmp_path / "c.insitu"))

    assert answer.code == 2
    assert "no run at the same point in both" in answer.err


def test_inclusive_times_of_other_tools_are_compared(insitu, tmp_path):
    rng = np.random.default_rng(3)
    for name, factor in (("before", 1.0), ("after", 1.5)):
        rows = []
        for p in (4, 8, 16, 32, 64):
            for path, seconds in (("main", 5.0 + factor), ("main->sort", factor)):
                value = seconds * rng.normal(1, 0.01)
                rows.append(json.dumps({"callpath": path, "params": {"p": p}, "value": value}))
        (tmp_path / f"{name}.jsonl").write_text("\n".join(rows))
        insitu("import", f"{tmp_path}/{name}.insitu", f"{tmp_path}/{name}.jsonl")

    answer = insitu("diff", f"{tmp_path}/before.insitu", f"{tmp_path}/after.insitu")

    assert "main->sort" in answer.out and "slower" in answer.out
    assert answer.lines[-1].startswith("1 slower")


def test_a_limit_that_only_one_campaign_has_is_named(insitu: Insitu, tmp_path: Path):
    def make(name: str, kept_bytes: float) -> str:
        with open_store(str(tmp_path / name), create=True) as store:
            for p in (*SCALES, 12):
                record, table = heat_run(p)
                growth = np.zeros((len(table.callpaths), p))
                growth[1] = kept_bytes * p
                metrics = (*table.metrics, HEAP_GROWTH)
                values = {**table.values, HEAP_GROWTH.name: growth}
                store.add_run(record, replace(table, metrics=metrics, values=values))
            store.put_models(remodel(load_experiment(store)))
        return str(tmp_path / name)

    before, after = make("leak.insitu", 50e6), make("mended.insitu", 0.0)

    mended, broken = insitu("diff", before, after), insitu("diff", after, before)

    assert "no longer a limit: memory of solve: each rank holds 50 MB * p" in mended.err
    assert "a new limit: memory of solve: each rank holds 50 MB * p" in broken.err

    Path(after, "campaign.toml").write_text('machine = "memory=1e15"')
    assert "a new limit" not in insitu("diff", after, before).err


def test_different_programs_are_refused(insitu: Insitu, campaigns: tuple[str, str], tmp_path: Path):
    other = str(tmp_path / "other.insitu")
    with open_store(other, create=True) as store:
        for p in SCALES:
            record, table = heat_run(p)
            paths = tuple(CallPath(("plate", *path.frames[1:])) for path in table.callpaths)
            store.add_run(record, replace(table, callpaths=paths))
        store.put_models(remodel(load_experiment(store)))

    answer = insitu("diff", campaigns[0], other)

    assert answer.code == 2
    assert "different programs: " in answer.err and "no call path is in both" in answer.err
