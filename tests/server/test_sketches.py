"""Sketches of relays: in messages and back, merged in any order, refused where malformed."""

from dataclasses import fields, replace

import numpy as np
import pytest

from insitu.errors import WireError
from insitu.modeling.classes.sketch import Sketch, sketch
from insitu.server import sketches
from insitu.server.dictionary import CallPaths, Dictionary
from insitu.server.sketches import RelayView, classes_of, means_of, memory_for, ranks_of
from insitu.server.totals import MAX_VALUE, Source
from insitu.wire.messages import BUCKET_BYTES, Buckets, Column, Paths, Sketches

COLUMNS = (
    Column("visits", "1", "total", "u8"),
    Column("position_x", "1", "place", "f8"),
    Column("time", "s", "total", "u8"),
)
N_PATHS, N_RANKS = 3, 40


def source(n_paths: int = N_PATHS) -> Source:
    """A node whose rows are the call paths of the run in reverse order, but for the root."""
    callpaths = CallPaths()
    main = callpaths.path_id(-1, "main")
    for i in range(n_paths - 2, -1, -1):
        callpaths.path_id(main, f"f{i}")
    dictionary = Dictionary(callpaths)
    names = ("main", *(f"f{i}" for i in range(n_paths - 1)))
    zeros = np.zeros(n_paths, "<u4").tobytes()
    dictionary.extend(Paths(0, zeros, names, ("",) * n_paths, zeros))
    return Source(COLUMNS, dictionary)


def values_of(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    values = rng.choice([-1.0, 0.0, 2.0, 300.0], (N_PATHS, N_RANKS)) * rng.normal(1, 0.01, N_RANKS)
    values[0, 0] = np.nan
    return values


def are_same(left: Sketch, right: Sketch) -> bool:
    return all(
        np.allclose(getattr(left, field.name), getattr(right, field.name), rtol=1e-14)
        for field in fields(Sketch)
    )


def message_of(**metrics: Sketch) -> Sketches:
    (message,), omitted = sketches.messages_of(
        metrics, COLUMNS, seq=5, time_ns=7, ranks=N_RANKS, ended=2
    )
    assert omitted == []
    return message


def test_a_message_brings_the_sketches_that_were_written():
    original = {"time": sketch(values_of(1)), "visits": sketch(np.abs(values_of(2)))}
    message = message_of(
        position_x=sketch(values_of(3)), empty=sketch(np.zeros((0, 0))), **original
    )
    view = RelayView()

    assert view.update(message, source())

    assert (message.seq, message.time_ns, view.ranks, view.ended) == (5, 7, N_RANKS, 2)
    assert view.metrics.keys() == original.keys()
    path_ids = np.array([0, 2, 1])
    for name, written in original.items():
        assert are_same(view.metrics[name], replace(written, rows=path_ids[written.rows]))
    held = sum(getattr(each, f.name).nbytes for each in view.metrics.values() for f in fields(each))
    assert held <= view.size_bytes <= memory_for(message)
    assert [view.added_bytes(), view.added_bytes()] == [view.size_bytes, 0]


def test_rows_that_the_dictionary_lacks_change_nothing():
    view = RelayView()

    assert not view.update(message_of(time=sketch(values_of(1))), source(N_PATHS - 1))
    assert (view.metrics, view.ranks, view.size_bytes) == ({}, 0, 0)


def test_merging_is_sketching_all_ranks_at_once_in_any_order():
    groups = [values_of(seed) for seed in range(3)]
    whole = np.hstack(groups)
    parts = [{"time": sketch(group)} for group in groups] + [{"visits": sketch(groups[0])}]

    for order in (parts, parts[::-1]):
        merged = sketches.merge_sketches(order)
        assert merged.keys() == {"time", "visits"}
        assert are_same(merged["time"], sketch(whole))
        np.testing.assert_allclose(means_of(merged["time"], 4)[:3], np.nanmean(whole, axis=1))
        assert ranks_of(merged["time"], 4).tolist() == [*np.isfinite(whole).sum(axis=1), 0]
        assert means_of(merged["time"], 4)[3] == 0.0


def test_classes_keep_every_rank_and_the_sum_of_values():
    values = np.ones((2, 8))
    values[1, :3] = 5.0

    classes = classes_of(sketch(values))

    assert classes == {1: ((5, 1.0), (3, 5.0))}


def test_each_metric_is_in_one_message_and_messages_are_numbered(monkeypatch):
    metrics = {"time": sketch(values_of(1)), "visits": sketch(values_of(2))}
    sizes = {name: sum(BUCKET_BYTES.values()) * len(entry.rows) for name, entry in metrics.items()}

    def write(limit: int) -> tuple[list[list[int]], list[int], list[str]]:
        monkeypatch.setattr(sketches, "MAX_SKETCHES_BYTES", limit)
        messages, omitted = sketches.messages_of(
            metrics, COLUMNS, seq=3, time_ns=0, ranks=1, ended=0
        )
        columns = [[buckets.column for buckets in message.metrics] for message in messages]
        return columns, [message.seq for message in messages], omitted

    larger, total = max(sizes.values()), sum(sizes.values())
    assert write(total) == ([[0, 2]], [3], [])
    assert write(total - 1) == ([[0], [2]], [3, 4], [])
    assert write(larger) == ([[0], [2]], [3, 4], [])
    assert write(min(sizes.values()) - 1) == ([[]], [3], ["visits", "time"])


def buckets(**changed: object) -> Buckets:
    """Two buckets of one row, with other content."""
    arrays = {"rows": [1, 1], "keys": [5, 6], "counts": [1, 2]}
    arrays |= {"sums": [1.0, 4.0], "lows": [1.0, 2.0], "highs": [1.0, 2.0], **changed}
    encoded = {
        name: np.array(values, sketches.DTYPES.get(name, "<f8")).tobytes()
        for name, values in arrays.items()
    }
    return Buckets(2, **encoded)


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"rows": [0, 1], "keys": [6, 5]},
        {"keys": [-sketches.MAX_KEY, sketches.MAX_KEY]},
        {"lows": [-MAX_VALUE, 2.0], "highs": [1.0, MAX_VALUE]},
    ],
)
def test_numbers_at_the_limits_are_read(changed):
    assert RelayView().update(Sketches(1, 0, 1, 0, (buckets(**changed),)), source())


@pytest.mark.parametrize(
    "changed",
    [
        {"rows": [1, 0]},
        {"keys": [5, 5]},
        {"keys": [6, 5]},
        {"keys": [0, sketches.MAX_KEY + 1]},
        {"keys": [-sketches.MAX_KEY - 1, 0]},
        {"counts": [0, 2]},
        {"sums": [1.0, np.inf]},
        {"lows": [1.0, 2.1]},
        {"lows": [np.nan, 2.0]},
        {"lows": [-1.1 * MAX_VALUE, 2.0]},
        {"highs": [1.0, 1.1 * MAX_VALUE]},
    ],
)
def test_malformed_sketches_are_refused(changed):
    view = RelayView()
    good = Sketches(1, 0, 1, 0, (buckets(),))
    view.update(good, source())
    before = view.metrics["time"]

    with pytest.raises(WireError, match="the sketch of time has"):
        view.update(Sketches(2, 0, 9, 9, (buckets(**changed),)), source())
    assert (view.metrics["time"], view.ranks) == (before, 1)


def test_a_column_that_was_not_announced_is_refused():
    unknown = replace(buckets(), column=len(COLUMNS))

    with pytest.raises(WireError, match="column 3 was not announced"):
        RelayView().update(Sketches(1, 0, 1, 0, (unknown,)), source())
