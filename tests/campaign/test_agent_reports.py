"""What agents report with the cost of measuring: causes of waiting, functions, samples."""

import json
from itertools import permutations

import pytest

from insitu.campaign.delays import WaitingCauses, waiting_causes
from insitu.campaign.selection import has_precise_samples
from insitu.campaign.throttling import MAX_FUNCTIONS, MAX_NAME_LENGTH, throttled_functions
from insitu.entities import CallPath, Configuration, RunKey, RunRecord, RunState

HALO, SOLVE, MAIN = (CallPath.parse(text) for text in ("main->MPI_Recv", "main->solve", "main"))


def run_with(*costs: object) -> RunRecord:
    cost = ", ".join(f"n{i} {json.dumps(cost)}" for i, cost in enumerate(costs))
    configuration = Configuration.of({"cost": cost})
    return RunRecord("r", RunKey.of({"p": 2}), RunState.COMPLETE, configuration=configuration)


def delay(callpath: CallPath, waited: float, *causes: tuple[CallPath, list[list[float]]]) -> object:
    listed = [{"callpath": str(path), "ranks": ranks} for path, ranks in causes]
    return {"callpath": str(callpath), "waited": waited, "causes": listed}


def test_waiting_and_its_causes_are_sums_over_nodes_in_any_order():
    reports = [
        {"delays": [delay(HALO, 4.0, (SOLVE, [[0, 1.0], [1, 0.5]]), (SOLVE, [[0, 0.25]]))]},
        {"delays": [delay(HALO, 2.0, (SOLVE, [[0, 2.0]]), (MAIN, [[0, 8.0]]))]},
        {"delays": [delay(MAIN, 1.0)]},
        {"delays": None},
        {},
    ]

    for order in permutations(reports):
        assert waiting_causes(run_with(*order)) == {
            HALO: WaitingCauses(6.0, {(SOLVE, 0): 3.25, (SOLVE, 1): 0.5, (MAIN, 0): 8.0}),
            MAIN: WaitingCauses(1.0, {}),
        }


@pytest.mark.parametrize("entry", [3, {"callpath": "main"}, {"callpath": "main", "waited": "x"}])
def test_damaged_causes_leave_nothing_half_read(entry: object):
    assert waiting_causes(run_with({"delays": [delay(HALO, 4.0), entry]})) == {}


@pytest.mark.parametrize(
    ("costs", "is_precise"),
    [
        ([{"precise_samples": 0.9}, {"precise_samples": 0.8}, {}], True),
        ([{"precise_samples": 0.9}, {"precise_samples": 0.7}], False),
        ([{"precise_samples": "0.9"}], False),
        ([{}], False),  # an earlier version
    ],
)
def test_samples_are_precise_if_those_of_all_nodes_are(costs: list[object], is_precise: bool):
    assert has_precise_samples(run_with(*costs)) is is_precise


def test_throttled_functions_are_those_of_any_run_once_in_order():
    runs = [run_with({"throttled": ["b", 3, "a"]}, {"throttled": "c"}), run_with({}), run_with()]
    runs.append(run_with({"hook_share": 0.1}, {"throttled": ["c", "b"]}))

    assert throttled_functions(runs) == throttled_functions(runs[::-1]) == ["a", "b", "c"]


def test_throttled_functions_are_as_many_and_as_long_as_a_later_run_can_leave_out():
    longest = "a" * MAX_NAME_LENGTH
    names = [longest, f"{longest}a", *(f"f{i:03}" for i in range(MAX_FUNCTIONS))]

    functions = throttled_functions([run_with({"throttled": names})])

    assert functions == [longest, *names[2 : MAX_FUNCTIONS + 1]]
