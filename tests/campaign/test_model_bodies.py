"""Models as bytes: exact, small, unpacked when used, and readable in every format."""

import hashlib
import json
import pickle
import sqlite3
import zlib
from dataclasses import replace
from pathlib import Path

import msgpack
import numpy as np
import pytest

from insitu.campaign.layout import DATABASE
from insitu.campaign.model_bodies import (
    DICTIONARY_3,
    DICTIONARY_5,
    DICTIONARY_6,
    StoredModel,
    _typical_body,
    _typical_structure,
    has_mean_law,
    pack_body,
    unpack_body,
)
from insitu.campaign.store import open_store
from insitu.entities import TIME, VISITS, CallPath, Finding, RunKey
from insitu.modeling.base import MEAN_LAW, Clusters, Model, ModelSet, SeriesModel
from insitu.modeling.grid_trend import GridTrend
from insitu.modeling.local_laws import LocalLaws
from insitu.modeling.measurement import SeriesKey
from insitu.modeling.modelers import fit


@pytest.fixture(scope="module")
def models() -> list[Model]:
    """Models of growth, of a count, of a jump, and of one value."""
    x = 2.0 ** np.arange(1, 11)
    noise = np.random.default_rng(3).normal(1, 0.02, (4, 10, 3))
    values = np.array([3 + x**0.5, np.full(10, 7.0), np.where(x < 100, x, 9 * x), 1e-9 * x])
    values = values[:, :, None] * noise
    values[1] = 7.0
    return fit(x, values)


def is_unpacked(model: Model) -> bool:
    try:
        Model.__dict__["values"].__get__(model)
    except AttributeError:
        return False
    return True


@pytest.mark.parametrize(
    ("dictionary", "digest"),
    [(DICTIONARY_3, "9d98464088"), (DICTIONARY_5, "6e36bd7f87"), (DICTIONARY_6, "e298de817d")],
)
def test_what_stored_models_were_compressed_with_never_changes(dictionary: bytes, digest: str):
    assert hashlib.sha256(dictionary).hexdigest().startswith(digest)


def test_what_models_resemble_is_the_same_whenever_it_is_made():
    """mutate.py selects a mutant after the import; only a call meets it."""
    assert (_typical_body(), _typical_structure()) == (DICTIONARY_5, DICTIONARY_6)


def test_a_model_comes_back_exactly(models: list[Model]) -> None:
    for model in models:
        assert unpack_body(pack_body(model)) == model
        assert pickle.loads(pickle.dumps(unpack_body(pack_body(model)))) == model


def test_every_number_of_a_spread_comes_back_exactly(models: list[Model]) -> None:
    numbers = np.array([0.1, 1e-300])
    local = LocalLaws(1024.0, numbers, -numbers, numbers * 0.0, numbers * -0.0)
    trend = GridTrend(*(numbers + i for i in range(6)))
    for spread in models[0].spreads:
        tails = np.arange(5.0 * len(spread.weights)).reshape(-1, 5)
        covariances = spread.covariances.copy()
        covariances[0, 0, -1] = -0.0  # and 0.0 in the other corner, so it is not symmetric
        for changed in (
            replace(spread, local=local),
            replace(spread, local=replace(local, ramp=0.02)),
            replace(spread, local=trend),
            replace(spread, tails=tails, degrees=np.inf, quotient=(0, 1)),
            replace(spread, tails=tails, local=local, covariances=covariances),
        ):
            model = replace(models[0], spreads=(changed, spread))

            stored = unpack_body(pack_body(model))

            assert json.dumps(stored.to_dict()) == json.dumps(model.to_dict())


def test_numbers_that_are_missing_are_damage(models: list[Model]) -> None:
    model = unpack_body(pack_body(models[0])[:-6])

    with pytest.raises(ValueError, match="dimensions"):
        _ = model.values


def test_models_take_fewer_bytes_than_in_format_5(models: list[Model]) -> None:
    assert len(b"".join(map(pack_body, models))) < len(b"".join(map(pack_body_5, models)))


def test_a_model_is_unpacked_when_it_is_used(models: list[Model]) -> None:
    model = unpack_body(pack_body(models[0]))
    assert not is_unpacked(model)
    assert not has_mean_law(model)
    assert not is_unpacked(model)

    assert model.segments == models[0].segments

    assert is_unpacked(model)
    with pytest.raises(AttributeError):
        _ = model.unknown  # type: ignore[attr-defined]


def test_a_stored_model_can_be_changed(models: list[Model]) -> None:
    findings = (Finding("a", "b"),)

    changed = replace(unpack_body(pack_body(models[0])), findings=findings)

    assert changed == replace(models[0], findings=findings)
    assert pickle.loads(pickle.dumps(changed)) == changed
    assert unpack_body(pack_body(changed)) == changed


def test_the_law_of_the_mean_is_known_without_unpacking(models: list[Model]) -> None:
    model = replace(models[0], findings=(Finding(MEAN_LAW, "2 points"),))

    stored = unpack_body(pack_body(model))

    assert has_mean_law(stored)
    assert not is_unpacked(stored)
    assert pack_body(stored) == pack_body(model)


def test_bodies_of_earlier_formats_are_read(models: list[Model]) -> None:
    text = json.dumps(models[0].to_dict())
    packer = zlib.compressobj(6, zdict=DICTIONARY_3)

    for body in (text, packer.compress(text.encode()) + packer.flush()):
        assert unpack_body(body) == models[0]
        assert not isinstance(unpack_body(body), StoredModel)
    assert unpack_body(pack_body_5(models[0])) == models[0]


def test_what_is_stored_already_is_not_written_again(tmp_path: Path, models: list[Model]) -> None:
    path = str(tmp_path / "c.insitu")
    keys = [SeriesKey(CallPath(("main", name)), TIME.name) for name in "abc"]
    series = [SeriesModel(key, TIME, model) for key, model in zip(keys, models[:3], strict=True)]
    clusters = [
        Clusters(key.callpath, TIME.name, RunKey.of({"p": 4}), np.zeros(4, dtype=np.intp), ("all",))
        for key in keys
    ]
    with open_store(path, create=True) as store:
        store.put_models(ModelSet(("p",), series, clusters))
    change(path, "CREATE TABLE written (name TEXT)")
    for table in ("model", "classified"):
        change(
            path,
            f"CREATE TRIGGER on_{table} AFTER INSERT ON {table}"
            f" BEGIN INSERT INTO written VALUES ('{table} ' || new.callpath); END",
        )

    with open_store(path) as store:
        read = store.models()
        changed = replace(read.models[1], model=models[3])
        new = replace(read.models[2], key=SeriesKey(keys[2].callpath, VISITS.name), metric=VISITS)
        store.put_models(replace(read, models=(read.models[0], changed, new)))
        written = change(path, "SELECT name FROM written")
        again = store.models()

    assert written == [("model main->b",), ("model main->c",)]
    assert [entry.key for entry in again.models] == [keys[0], keys[1], new.key]
    assert [entry.model for entry in again.models] == [models[0], models[3], models[2]]
    assert len(again.clusters) == 3


def pack_body_5(model: Model) -> bytes:
    """The body of a model in format 5."""
    packer = zlib.compressobj(1, zdict=DICTIONARY_5)
    return b"\5\0" + packer.compress(msgpack.packb(model.to_dict())) + packer.flush()


def change(path: str, statement: str) -> list[tuple[object, ...]]:
    """Execute a statement on the database of a campaign."""
    connection = sqlite3.connect(Path(path, DATABASE))
    with connection:
        rows = connection.execute(statement).fetchall()
    connection.close()
    return rows
