"""Parameters and configuration of a run from the messages of its agents."""

import json
from dataclasses import replace

import pytest

from insitu.campaign.delays import WaitingCauses, waiting_causes
from insitu.entities import CallPath, RunKey, RunRecord, RunState
from insitu.errors import WireError
from insitu.server.description import add_cost, configuration_of, parameters_of
from insitu.wire.messages import Bye, Hello

HELLO = Hello(1, "0" * 32, "t", "n0", 1, 4, (0, 1), 1, "", ())


def hello(name: str = "n0", ranks: tuple[int, ...] = (0, 1), **configuration: object) -> Hello:
    return replace(HELLO, node=name, ranks=ranks, configuration=json.dumps(configuration))


def bye(**cost: object) -> Bye:
    return Bye(1, (), 0, json.dumps(cost) if cost else "")


def test_parameters_are_finite_numbers_without_the_ranks():
    parameters = {"n": 256, "x": -0.5, "p": 99}

    assert parameters_of(hello(parameters=parameters)) == {"n": 256.0, "x": -0.5}
    assert parameters_of(HELLO) == parameters_of(hello()) == {}


@pytest.mark.parametrize("value", [True, "4", None, float("nan"), float("inf"), 10**400])
def test_a_parameter_that_is_no_finite_number_is_refused(value):
    with pytest.raises(WireError, match=r"parameter 'n' in Hello\.configuration"):
        parameters_of(hello(parameters={"n": value}))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"parameters": []}', "the parameters .* are not a JSON object"),
        ("[]", "is not a JSON object"),
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
    ],
)
def test_another_configuration_is_refused(text, reason):
    with pytest.raises(WireError, match=reason):
        parameters_of(replace(HELLO, configuration=text))


def test_equal_values_stand_once_and_others_in_the_order_of_nodes():
    command = ["./heat", "a b", 3]
    first = hello("n0", (0, 1), command=command, cores=8, parameters={"n": 1}, node={"mhz": 2})
    second = hello("n1", (2, 3), command=command, cores=4, host="h1", node=3)
    sessions = [(first, bye(cpu_s=1, threads=2, opened={})), (second, bye(threads=2))]

    both = dict(configuration_of(sessions).values)

    nodes = [{"name": "n0", "ranks": [0, 1], "mhz": 2}, {"name": "h1", "ranks": [2, 3]}]
    assert json.loads(both.pop("nodes")) == nodes
    assert both == {
        "command": "./heat 'a b' 3",
        "cores": "8, 4",
        "host": "h1",
        "threads": "2",
        "cost": 'n0 {"cpu_s": 1, "threads": 2}, n1 {"threads": 2}',
    }
    assert configuration_of(sessions[::-1])["cores"] == "4, 8"


def test_costs_of_all_nodes_together_stand_behind_those_of_each():
    delays = [{"callpath": "a->b", "waited": 1.5, "causes": []}]

    for sessions in ([(hello(), bye(cpu_s=1))], [(hello(), None)]):
        configuration = add_cost(configuration_of(sessions), delays=delays)

        run = RunRecord("r", RunKey(()), RunState.COMPLETE, configuration=configuration)
        assert waiting_causes(run) == {CallPath(("a", "b")): WaitingCauses(1.5)}
        assert configuration["nodes"] == configuration_of(sessions)["nodes"]


@pytest.mark.parametrize("threads", [0, -1, "2", None, 1.5])
def test_an_unknown_number_of_threads_is_not_stored(threads):
    configuration = configuration_of([(hello(), bye(threads=threads)), (hello(), None)])

    assert configuration.get("threads") == ""
    for cost in ("", "[]", "{", "[" * 100_000):
        assert configuration_of([(hello(), Bye(1, (), 0, cost))]).get("threads") == ""
