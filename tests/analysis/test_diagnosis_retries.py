"""Diagnosis: files that ranks try to open again and again."""

from collections.abc import Mapping

import pytest

from tests.analysis.programs import Plan, diagnose

TRIES = {2: 1.0, 3: 1.5, 4: 2.0, 6: 3.0, 8: 4.0, 12: 6.0}  # for each of 20 files


def locking(
    tries: Mapping[int, float], *, seconds: Mapping[int, float] | None = None, call: str = "open"
) -> Plan:
    """A function that opens a lock file, and takes a second of ten by default."""
    spent = seconds or dict.fromkeys(tries, 1.0)
    return {
        "app->main->acquire": {"visits": lambda p: 20, "time_exclusive": spent.__getitem__},
        f"app->main->acquire->{call}": {
            "visits": lambda p: 20 * tries[p],
            "files_opened": lambda p: 20,
        },
    }


def texts(plan: Plan, tries: Mapping[int, float]) -> list[str]:
    diagnosis = diagnose(plan, tuple(tries), sites={"app->main->acquire": ("/app/lock.py", 16)})
    found = [its for its in diagnosis.statements if "wait for one another" in its.text]
    assert all(
        (its.name, its.where, its.status) == ("acquire", "lock.py:16", "unclear") for its in found
    )
    return [its.text for its in found]


@pytest.mark.parametrize("call", ["open", "fopen"])
def test_files_that_more_ranks_try_more_often_to_open_are_a_doubt(call: str):
    assert texts(locking(TRIES, call=call), TRIES) == [
        "ranks try 6 times to open each of 20 files at p = 12, 1 times at p = 2: they seem to wait"
        " for one another, as at a lock file"
    ]


@pytest.mark.parametrize(
    ("tries", "is_named"),
    [
        ({2: 1.0, 3: 1.25, 4: 1.5, 6: 1.75, 12: 2.0}, True),
        ({2: 1.0, 3: 1.25, 4: 1.5, 6: 1.75, 12: 1.95}, False),  # not even twice
        ({2: 2.0, 3: 2.25, 4: 2.5, 6: 2.75, 12: 3.0}, True),
        ({2: 2.0, 3: 2.25, 4: 2.5, 6: 2.75, 12: 2.95}, False),  # about as often on few ranks
        ({2: 1.0, 3: 3.0, 4: 2.0, 6: 4.0, 12: 3.5}, False),  # by chance
        ({2: 1.0, 4: 3.0, 12: 6.0}, False),  # too few scales
    ],
)
def test_they_are_tried_twice_at_least_and_half_as_often_again(tries, is_named: bool):
    assert bool(texts(locking(tries), tries)) == is_named


def test_tries_that_take_no_time_on_most_ranks_are_no_doubt():
    """A twentieth of the run time, at the largest scale."""
    early = dict.fromkeys(TRIES, 1.0) | {12: 0.4}
    late = dict.fromkeys(TRIES, 0.0) | {12: 0.5}

    assert texts(locking(TRIES, seconds=early), TRIES) == []
    assert len(texts(locking(TRIES, seconds=late), TRIES)) == 1
