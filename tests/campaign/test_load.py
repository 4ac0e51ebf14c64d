from dataclasses import replace

import numpy as np
import pytest

from insitu.campaign.load import load_experiment
from insitu.campaign.program_names import application
from insitu.campaign.selection import (
    OMITTED_CODE,
    describe_run_findings,
    is_omitted,
    is_oversubscribed,
    omission_finding,
    run_notes,
    select_runs,
)
from insitu.entities import (
    PROCESSOR_WAIT,
    TEAM_THREADS,
    TIME,
    CallPath,
    Configuration,
    Finding,
    RunKey,
    RunRecord,
    RunState,
)
from insitu.modeling.crowding import describe_crowding
from insitu.modeling.measurement import RunTable
from tests.campaign.memory import MemoryStore


def run(
    parameters: dict[str, float],
    *,
    state: RunState = RunState.COMPLETE,
    command: str = '["./heat"]',
    missing: tuple[int, ...] = (),
) -> RunRecord:
    key = RunKey.of(parameters)
    configuration = Configuration.of({"command": command})
    return RunRecord(str(key), key, state, configuration=configuration, missing=missing)


def store_of(*runs: RunRecord) -> MemoryStore:
    store = MemoryStore()
    for record in runs:
        values = {"time": np.ones((1, record.key.size))}
        store.add_run(record, RunTable((CallPath(("main",)),), (TIME,), values))
    return store


@pytest.mark.parametrize(
    ("coordinates", "parameters"),
    [
        ([{"p": 2}, {"p": 4}], ("p",)),
        ([{"p": 4, "n": 1}, {"p": 4, "n": 2}], ("n",)),
        ([{"p": 2, "n": 1}, {"p": 4, "n": 2}], ("p", "n")),
        ([{"p": 2, "n": 1}, {"p": 2, "n": 1}], ("p",)),
        ([], ("p",)),
    ],
)
def test_the_parameters_of_an_experiment_are_those_that_vary(
    coordinates: list[dict[str, float]], parameters: tuple[str, ...]
):
    assert load_experiment(store_of(*map(run, coordinates))).parameters == parameters


def test_an_incomplete_run_is_left_out_with_a_finding():
    incomplete = run({"p": 4}, state=RunState.INCOMPLETE, missing=(1, 2))

    runs, findings = select_runs([run({"p": 2}), incomplete])

    assert [selected.key.size for selected in runs] == [2]
    assert [finding.code for finding in findings] == ["run-partial"]
    assert "2 of 4 ranks arrived" in findings[0].text


def test_a_run_whose_ranks_were_not_connected_is_left_out_with_a_finding():
    singletons = (Finding("mpi-singletons", "MPI says 1 rank"),)
    alone = replace(run({"p": 4}), findings=singletons)

    runs, findings = select_runs([run({"p": 2}), alone])

    assert [selected.key.size for selected in runs] == [2]
    assert [finding.code for finding in findings] == ["mpi-singletons"]


def test_a_run_of_another_program_is_left_out_with_a_finding():
    others = [run({"p": p}) for p in (1, 2, 4)]

    runs, findings = select_runs([*others, run({"p": 8}, command="./fluid --big")])

    assert runs == others
    assert findings[0].code == "application-differs"
    assert "measured fluid, the others heat" in findings[0].text


def test_runs_of_one_program_are_selected_whatever_its_arguments():
    runs, findings = select_runs([run({"p": 1}, command="./heat -n 4"), run({"p": 2})])

    assert len(runs) == 2
    assert findings == ()


def test_repetitions_with_different_commands_are_reported():
    runs = [run({"p": 2}, command="./heat -n 4"), run({"p": 2}, command="./heat -n 8")]

    selected, findings = select_runs(runs)

    assert len(selected) == 2
    assert [finding.code for finding in findings] == ["arguments-differ"]
    assert (
        "runs at p=2 were started with different commands, `./heat -n 4`, `./heat -n 8`"
        in findings[0].text
    )


@pytest.mark.parametrize("commands", [("env A=1 ./heat 4", "./heat 4"), ("./heat 4", "./heat 5")])
def test_settings_and_arguments_of_a_program_that_ranks_name_are_reported(commands):
    (finding,) = select_runs([started(command) for command in commands])[1]

    assert finding.code == "arguments-differ"


def test_a_command_that_is_started_in_another_way_is_the_same():
    commands = ("./heat 4", "timeout 60 ./heat 4", "mpiexec -n 2 /opt/bin/heat 4")

    assert select_runs([started(command) for command in commands])[1] == ()


def started(command: str) -> RunRecord:
    record = run({"p": 2})
    configuration = Configuration.of({"program": "heat", "command": command})
    return replace(record, configuration=configuration)


def test_an_argument_that_was_changed_between_some_scales_is_reported():
    commands = {1: "20", 2: "20", 3: "3000", 4: "3000"}
    runs = [
        run({"p": p}, command=f"./heat --cells 64 --steps {steps}") for p, steps in commands.items()
    ]

    selected, (finding,) = select_runs(runs)

    assert len(selected) == len(runs)
    assert finding.code == "arguments-differ"
    assert "`--steps 20` at p=1, p=2; `--steps 3000` at p=3, p=4: what looks" in finding.text
    assert run_notes(runs) == [finding.text]


@pytest.mark.parametrize(
    "commands",
    [
        {(p, 0): f"./heat --cells {64 * p}" for p in (1, 2, 4)},
        {(p, 0): f"./heat {grid}" for p, grid in ((1, "1 1"), (2, "2 1"), (4, "2 2"), (8, "4 2"))},
        {(p, n): f"./heat --cells {n}" for p in (1, 2, 4) for n in (8, 16)},
        {(p, n): f"./heat {n} --out {p}.h5" for p in (1, 2, 4) for n in (8, 16)},
        {(p, 0): f"/tmp/{p}/heat --cells 4" for p in (1, 2, 4)},
    ],
)
def test_arguments_that_follow_the_parameters_are_not_reported(commands):
    runs = [run({"p": p, "n": n}, command=command) for (p, n), command in commands.items()]

    selected, findings = select_runs(runs)

    assert len(selected) == len(runs)
    assert findings == ()


def test_an_argument_beside_a_parameter_is_reported_and_a_missing_one_too():
    runs = [
        run({"p": p, "n": n}, command=f"./heat {n}{' --debug' if p < 4 else ''}")
        for p in (1, 2, 4)
        for n in (8, 16)
    ]

    _, (finding,) = select_runs(runs)

    assert "`8 --debug` at p=1,n=8, p=2,n=8" in finding.text


def built(p: float, build: str) -> RunRecord:
    record = run({"p": p})
    return replace(record, configuration=Configuration.of({"program": "heat", "build": build}))


def test_runs_of_another_build_than_most_are_reported_and_used():
    runs = [
        built(2, "a"),
        built(3, "a"),
        built(4, "a"),
        built(6, "b"),
        built(8, "b"),
        run({"p": 9}),
    ]

    selected, (finding,) = select_runs(runs)

    assert len(selected) == len(runs)
    assert finding.code == "build-differs"
    assert finding.text.startswith("p=6#0, p=8#0 ran another version of heat than 3 other runs:")
    assert run_notes(runs) == [finding.text]


def test_a_program_that_is_built_for_each_number_of_ranks_has_many_builds():
    assert select_runs([built(2, "a"), built(4, "b"), built(8, "c"), built(8, "c")])[1] == ()


def test_a_judgement_names_what_it_does_not_cover_and_what_it_mixes():
    other = Finding("other-process", "another process of this rank, setup, was not measured")
    runs = [
        replace(run({"p": 2}, command="./heat -n 4"), findings=(other,)),
        run({"p": 2}, command="./heat -n 8"),
        replace(run({"p": 4}), state=RunState.INCOMPLETE),
    ]

    left_out, not_measured, mixed = run_notes(runs)

    assert left_out == "1 of 3 runs is left out; `insitu runs` says why"
    assert not_measured.startswith("a further program of the job ran in 1 of 2 runs")
    assert mixed.startswith("runs at p=2 were started with different commands")
    assert run_notes([run({"p": 1}), run({"p": 2})]) == []


def test_a_run_that_does_not_set_what_others_vary_is_left_out():
    runs, findings = select_runs([run({"p": 1}), run({"p": 1, "n": 4}), run({"p": 1, "n": 8})])

    assert len(runs) == 2
    assert "--param n=VALUE" in findings[0].text


def test_all_parameters_that_a_run_does_not_set_are_labelled_by_one_command():
    runs, findings = select_runs(
        [run({"p": 1}), run({"p": 1, "m": 2, "n": 4}), run({"p": 1, "m": 3, "n": 8})]
    )

    assert len(runs) == 2
    assert "`insitu label CAMPAIGN p=1#0 m=VALUE n=VALUE`" in findings[0].text
    assert findings[0].text.endswith("with --param m=VALUE --param n=VALUE")


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ('["examples/stencil2d.py", "--cells", "256"]', "stencil2d.py"),
        ('["/usr/bin/python3.11", "-m", "pkg.app", "x"]', "pkg.app"),
        ("python3 app/heat.py --cells 4", "heat.py"),
        ("./a.out 'unclosed", "a.out"),
        ("", ""),
    ],
)
def test_an_application_is_named_after_its_program(command: str, name: str):
    assert application(Configuration.of({"command": command})) == name


def test_the_program_counts_and_not_the_launcher_in_front_of_it():
    launched = Configuration.of({"command": "srun -n 4 python heat.py", "program": "heat.py"})

    assert application(launched) == application(Configuration.of({"command": "heat.py"}))


@pytest.mark.parametrize(
    ("size", "configuration", "expected"),
    [
        (4, {"cores": "2", "host": "a"}, True),
        (4, {"cores": "2", "host": "a, b"}, False),
        (9, {"cores": "2, 4", "host": "a, b"}, True),
        (2, {"cores": "2", "host": "a"}, False),
        (2, {"cores": "2", "host": "a", "threads": "2"}, True),
        (2, {"cores": "8", "host": "a", "threads": "1, 4"}, False),
        (64, {"imported": "x.jsonl"}, False),
    ],
)
def test_ranks_that_share_cores_are_oversubscribed(size, configuration, expected):
    run = RunRecord(
        "r",
        RunKey.of({"p": size}),
        RunState.COMPLETE,
        configuration=Configuration.of(configuration),
    )

    assert is_oversubscribed(run) is expected


def selected_keys(*runs: RunRecord) -> tuple[list[str], list[str]]:
    """The runs that form an experiment, and the texts of the findings about the others."""
    selected, findings = select_runs(runs)
    texts = [finding.text for finding in findings if finding.code == "parameter-not-set"]
    return [str(record.key) for record in selected], texts


def test_a_parameter_of_one_run_makes_no_repetition_of_runs_without_it():
    runs = [run({"p": p}, command="./heat 128") for p in (2, 4, 8)]

    keys, texts = selected_keys(*runs, run({"p": 4, "n": 256}, command="./heat 256"))

    assert keys == ["p=2#0", "p=4#0", "p=8#0"]
    (text,) = texts
    assert "run p=4,n=256#0 sets n, which most runs do not; left out" in text
    assert "`insitu label CAMPAIGN p=2#0 n=VALUE`" in text


def test_a_run_without_a_parameter_that_most_set_is_left_out_and_can_be_labelled():
    runs = [run({"p": p, "n": 256}, command="./heat 256") for p in (2, 4, 8)]

    keys, texts = selected_keys(run({"p": 4}, command="./heat 128"), *runs)

    assert keys == ["p=2,n=256#0", "p=4,n=256#0", "p=8,n=256#0"]
    (text,) = texts
    assert "run p=4#0 does not set n, which other runs set; left out" in text
    assert "`insitu label CAMPAIGN p=4#0 n=VALUE`" in text


def test_a_parameter_that_changes_no_command_is_a_mere_label():
    runs = [run({"p": p}) for p in (2, 4, 8)]

    keys, texts = selected_keys(*runs, run({"p": 4, "n": 256}))

    assert (len(keys), texts) == (4, [])


def test_a_finding_of_all_runs_stands_once_and_others_name_their_runs():
    shared, named = Finding("a", "all", "x"), Finding("b", "run p=2#0: slow", "y")
    rare, frequent = Finding("c", "some", "z"), Finding("d", "most")
    findings = {1: [], 2: [named, rare], 3: [frequent], 4: [frequent]}
    findings |= {5: [frequent], 6: [frequent], 7: [frequent]}
    runs = [replace(run({"p": p}), findings=(shared, *findings[p])) for p in findings]

    assert describe_run_findings([]) == []
    assert describe_run_findings(runs) == [
        shared,
        named,
        replace(rare, text="p=2#0: some"),
        replace(frequent, text="p=3#0, p=4#0, p=5#0, p=6#0, …: most"),
    ]
    assert describe_run_findings(runs[:6])[-1].text == "p=3#0, p=4#0, p=5#0, p=6#0: most"


def test_an_experiment_knows_the_threads_of_ranks_that_have_several():
    runs = [run({"p": p}) for p in (2, 4, 8)]
    for index, threads in ((1, "1"), (2, "2, 1")):
        configuration = Configuration.of({"command": '["./heat"]', "threads": threads})
        runs[index] = replace(runs[index], configuration=configuration)

    assert load_experiment(store_of(*runs)).threads == {runs[2].key: 2}


@pytest.mark.parametrize(("queued", "is_crowded"), [(0.9, True), (0.1, False)])
def test_threads_of_a_team_that_lack_cores_are_no_other_processes(queued, is_crowded):
    """Four threads of OpenMP on two cores: each is on one for half of the time, and looks idle."""
    record = replace(
        run({"p": 1}),
        configuration=Configuration.of({"command": "./heat", "cores": "2", "threads": "1"}),
    )
    main = CallPath(("heat",))
    paths = (main, CallPath(("heat", "solve (parallel 1)")))
    values = {
        TIME.name: np.array([[1.0], [0.9]]),
        PROCESSOR_WAIT.name: np.array([[queued], [np.nan]]),
        TEAM_THREADS.name: np.array([[np.nan], [4.0]]),
    }
    store = MemoryStore()
    store.add_run(record, RunTable(paths, (TIME, PROCESSOR_WAIT, TEAM_THREADS), values))

    experiment = load_experiment(store)

    assert experiment.crowded == ({record.key: 2} if is_crowded else {})
    assert experiment.delayed == {}
    assert ("of 4 threads on 2 cores" in describe_crowding(experiment, [record.key])) is is_crowded


def test_a_run_that_the_user_omitted_is_left_out_and_named():
    omitted = run({"p": 4})
    finding = omission_finding(omitted)
    omitted = replace(omitted, findings=(finding,))
    other = run({"p": 2})

    assert (finding.code, finding.where) == (OMITTED_CODE, str(omitted.key))
    assert is_omitted(omitted) and not is_omitted(other)
    assert select_runs([other, omitted]) == ([other], (finding,))
