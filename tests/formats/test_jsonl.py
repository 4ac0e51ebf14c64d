import io
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from insitu.entities import MEMORY_RSS, TIME, CallPath, Metric, RunKey
from insitu.formats.base import EXPORTERS, ImportedRuns, load_exporter
from insitu.formats.jsonl import JsonLines
from insitu.modeling.base import ModelSet
from insitu.modeling.measurement import Experiment, RunTable
from tests.support.campaigns import heat_run

MAIN = CallPath(("main",))


def read(*lines: object) -> ImportedRuns:
    return JsonLines().read(
        line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines
    )


def test_lines_of_one_run_make_one_table():
    found = read(
        {
            "callpath": "main->f",
            "metric": "time",
            "params": {"p": 2},
            "repetition": 1,
            "ranks": [1, 2],
        },
        {
            "callpath": "main",
            "metric": "time",
            "params": {"p": 2},
            "repetition": 1,
            "ranks": [3, None],
        },
        {
            "callpath": "main",
            "metric": "memory_rss",
            "params": {"p": 2},
            "repetition": 1,
            "value": 7,
        },
    )

    assert found.bad == ()
    ((key, table),) = found.runs
    assert key == RunKey.of({"p": 2}, 1)
    assert table.callpaths == (CallPath.parse("main->f"), MAIN)
    assert table.metrics == (TIME, MEMORY_RSS)
    assert np.array_equal(table.values["time"], [[1, 2], [3, math.nan]], equal_nan=True)
    assert np.array_equal(table.values["memory_rss"], [[math.nan] * 2, [7, 7]], equal_nan=True)


def test_without_p_the_number_of_values_is_the_number_of_ranks():
    found = read({"params": {"n": 8}, "ranks": [1.0, 2.0, 3.0]})

    assert found.runs[0][0] == RunKey.of({"p": 3, "n": 8})


def test_repeated_lines_are_repetitions():
    found = read({"params": {"p": 4}, "value": 1.0}, {"params": {"p": 4}, "value": [2.0, 3.0]})

    assert [(key.repetition, table.values["time"].item()) for key, table in found.runs] == [
        (0, 1.0),
        (1, 2.0),
        (2, 3.0),
    ]


def test_an_unknown_metric_keeps_its_unit():
    found = read({"metric": "flops", "unit": "flop", "value": 1})

    assert found.runs[0][1].metrics == (Metric("flops", "flop"),)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{", "not JSON"),
        (b"[1]", "not a JSON object"),
        (b"\xff\xfe", "not UTF-8"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"value": NaN}', "holds NaN; write null"),
        (b'{"value": 1e999}', "not finite"),
        (b'{"value": -1}', "a time below 0"),
        (b'{"metric": "time", "ranks": [1, -1]}', "a time below 0"),
        (b'{"value": 1' + b"0" * 400 + b"}", "not finite"),
        ({"value": "3"}, "'3', which is not a number"),
        ({"value": True}, "True, which is not a number"),
        ({"value": []}, "empty list"),
        ({"value": [1, 2], "repetition": 0}, 'leave out "repetition"'),
        ({}, 'needs one of "ranks"'),
        ({"value": 1, "ranks": [1]}, 'needs one of "ranks"'),
        ({"ranks": []}, "one value per rank"),
        ({"ranks": 4}, "one value per rank"),
        ({"ranks": [1, 2], "params": {"p": 8}}, "has values of 2 ranks, but p is 8"),
        ({"value": 1, "callpath": ""}, '"callpath" must be text'),
        ({"value": 1, "callpath": "a->->b"}, "empty frame"),
        ({"value": 1, "metric": 3}, '"metric" must be text'),
        ({"value": 1, "unit": 3}, '"unit" must be text'),
        ({"value": 1, "params": {"p": 0.5}}, "parameter p is the number of ranks, 1 or more"),
        ({"value": 1, "params": {"p": 2.5}}, "not 2.5; give a parameter that means something else"),
        ({"value": 1, "params": [4]}, '"params" is not an object'),
        ({"value": 1, "params": {"two words": 4}}, "'two words' is not a name"),
        ({"value": 1, "params": {"n": "big"}}, "parameter n holds 'big'"),
        ({"value": 1, "repetition": -1}, '"repetition" is not a number'),
    ],
)
def test_a_bad_line_is_reported_by_number_and_the_others_are_imported(line: object, reason: str):
    found = read({"value": 1.0}, b"", line, {"value": 2.0, "callpath": "main->f"})

    assert [bad.number for bad in found.bad] == [3]
    assert reason in found.bad[0].reason
    assert found.lines == 3
    assert len(found.runs[0][1].callpaths) == 2


def test_a_second_value_of_a_repetition_is_refused():
    line = {"params": {"p": 4}, "repetition": 2, "value": 1.0}

    found = read(line, line)

    assert found.bad[0].reason == "repeats line 1"


def test_another_number_of_ranks_in_one_run_is_refused():
    found = read(
        {"params": {"n": 1}, "repetition": 0, "callpath": "f", "ranks": [1, 2]},
        {"params": {"n": 1}, "repetition": 0, "callpath": "g", "ranks": [1, 2, 3]},
    )

    assert found.bad[0].reason == "has 3 ranks, but line 1 of the same run has 2"


def test_other_units_of_own_metrics_become_base_units_also_in_the_same_file():
    rows = (
        {"unit": "us", "ranks": [5.0, 7.0]},
        {"unit": "min", "value": 2, "callpath": "main->f"},
        {"metric": "bytes_sent", "unit": "KiB", "value": 3},
    )

    found = read(*rows)

    assert not found.bad
    ((_, table),) = found.runs
    units = {metric.name: metric.unit for metric in table.metrics}
    assert units == {"time": "s", "bytes_sent": "B"}
    assert np.nansum(table.values["time"]) == pytest.approx(12e-6 + 2 * 120)
    assert np.nanmax(table.values["bytes_sent"]) == 3072


def test_another_unit_for_one_metric_is_refused():
    found = read(
        {"metric": "m", "unit": "s", "value": 1},
        {"metric": "m", "unit": "ms", "value": 1, "callpath": "f"},
    )

    assert "has unit 'ms', but 's' in earlier lines" in found.bad[0].reason


def test_few_lines_cannot_create_a_table_that_fills_the_memory():
    sparse = [{"callpath": f"f{i}", "metric": f"m{i}", "value": i} for i in range(5_000)]

    found = read({"params": {"p": 2}, "value": 1.0}, *sparse)

    assert [key for key, _ in found.runs] == [RunKey.of({"p": 2})]
    assert found.bad[0].number == 2
    assert "5,000 call paths of 5,000 metrics on 1 ranks" in found.bad[0].reason


@given(st.lists(st.binary(max_size=60), max_size=5))
def test_the_reader_survives_any_bytes(lines: list[bytes]):
    JsonLines().read(lines)


def test_reading_after_writing_is_the_identity():
    runs = [heat_run(2), heat_run(2, 1), heat_run(4)]
    experiment = Experiment(("p",), tuple((record.key, table) for record, table in runs))
    out = io.BytesIO()

    JsonLines().write(experiment, ModelSet(("p",)), out)

    found = JsonLines().read(out.getvalue().splitlines())
    assert found.bad == ()
    for (key, table), (key_again, again) in zip(experiment.runs, found.runs, strict=True):
        assert key == key_again
        assert set(table.metrics) == set(again.metrics)
        assert same_values(table, again)


def same_values(left: RunTable, right: RunTable) -> bool:
    order = [right.callpaths.index(path) for path in left.callpaths]
    return all(
        np.array_equal(left.values[name], right.values[name][order], equal_nan=True)
        for name in left.values
    )


@pytest.mark.parametrize("name", EXPORTERS)
def test_every_format_writes_an_empty_campaign(name: str):
    out = io.BytesIO()

    load_exporter(name).write(Experiment(("p",), ()), ModelSet(), out)

    assert not out.closed
    assert load_exporter(name).name == name
