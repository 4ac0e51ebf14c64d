"""Programs that are built for each number of ranks, with that number in their name."""

import numpy as np
import pytest

from insitu.campaign.load import load_experiment
from insitu.campaign.program_names import sites_of_usual_program, usual_program, without_rank_count
from insitu.campaign.selection import select_runs
from insitu.entities import TIME, CallPath, Configuration, RunKey, RunRecord, RunState
from insitu.modeling.measurement import RunTable
from tests.campaign.memory import MemoryStore


def run_of(program: str, p: int, repetition: int = 0) -> RunRecord:
    key = RunKey.of({"p": p}, repetition)
    return RunRecord(
        str(key), key, RunState.COMPLETE, configuration=Configuration.of({"program": program})
    )


def store_of(*runs: RunRecord) -> MemoryStore:
    store = MemoryStore()
    for record in runs:
        program = CallPath((record.configuration["program"],))
        paths = (program, program.child("solve"), CallPath(("MPI_Finalize",)))
        values = {"time": np.ones((len(paths), record.key.size))}
        store.add_run(record, RunTable(paths, (TIME,), values))
    return store


@pytest.mark.parametrize(
    ("name", "size", "shared"),
    [
        ("cg.S.4", 4, "cg.S"),
        ("cg.S.16.x", 16, "cg.S.x"),
        ("prog_np8", 8, "prog"),
        ("heat-008.py", 8, "heat.py"),
        ("bt.C.64.mpi_io_full", 64, "bt.C.mpi_io_full"),
        ("lab8", 8, "lab"),
        ("cg.S.4", 8, "cg.S.4"),
        ("cg.S.16", 6, "cg.S.16"),
        ("heat2d", 2, "heat2d"),
        ("heat", 4, "heat"),
        ("4", 4, "4"),
    ],
)
def test_the_number_of_ranks_at_the_end_of_a_name_is_none_of_it(name: str, size: int, shared: str):
    assert without_rank_count(name, size) == shared


def test_builds_for_each_number_of_ranks_are_one_program():
    runs = [run_of(f"cg.S.{p}", p) for p in (1, 2, 4, 8)]

    selected, findings = select_runs(runs)
    experiment = load_experiment(store_of(*runs))

    assert (selected, findings) == (runs, ())
    assert usual_program(runs) == "cg.S"
    paths = [str(path) for path in experiment.callpaths()]
    assert paths == ["MPI_Finalize", "cg.S", "cg.S->solve"]


def test_a_number_that_is_not_that_of_ranks_belongs_to_the_name():
    runs = [run_of("solver_2", p) for p in (1, 2, 4)]

    assert select_runs(runs) == (runs, ())
    assert usual_program(runs) == "solver_2"
    assert usual_program(runs[1:2]) == "solver_2"


def test_another_class_of_problem_is_another_program():
    runs = [*(run_of(f"cg.S.{p}", p) for p in (1, 2, 4)), run_of("cg.A.8", 8)]

    selected, findings = select_runs(runs)

    assert selected == runs[:3]
    assert "measured cg.A.8, the others cg.S; left out" in findings[0].text


def test_what_a_run_contains_differs_once_its_program_has_another_name():
    # Class means of a run are kept while its contents are the same: they begin with its name.
    first, second = run_of("cg.S.1", 1), run_of("cg.S.2", 2)

    class Stored(MemoryStore):
        def contents(self):
            return {run.id: "digest" for run in self.runs()}

    def contents(*runs):
        store = store_of(*runs)
        store.__class__ = Stored
        return load_experiment(store).contents

    assert contents(first) == ("digest",)
    assert contents(first, second) == ("digest cg.S", "digest cg.S")


def test_functions_of_all_builds_are_defined_where_one_of_them_says():
    runs = [run_of(f"cg.S.{p}", p) for p in (1, 2)]
    stored = {CallPath(("cg.S.1", "solve")): ("cg.f", 5), CallPath(("x", "y")): ("x.f", 1)}

    sites = sites_of_usual_program(stored, runs)

    assert sites[CallPath(("cg.S", "solve"))] == ("cg.f", 5)
    assert sites[CallPath(("x", "y"))] == ("x.f", 1)
