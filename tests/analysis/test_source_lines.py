"""Lines of compiled functions."""

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from insitu.analysis.diagnosis.lines import statement_line
from insitu.analysis.diagnosis.statements import Statement
from insitu.analysis.source_lines import _name_inlined, diagnose_with_lines, with_lines
from insitu.campaign.store import open_store
from insitu.entities import CallPath, Configuration, RunState
from insitu.modeling.base import ModelSet
from insitu.modeling.measurement import Experiment
from insitu.run.summary import diagnose_briefly
from tests.support.campaigns import SOLVE, heat_run

MEASURED = 1.8e9  # when `heat_run` begins, in seconds

pytestmark = pytest.mark.skipif(
    shutil.which("addr2line") is None, reason="binutils read debug information"
)


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A file with a function `solve` in line 2 of solve.c, made before it was measured."""
    (tmp_path / "solve.c").write_text("\nint solve(int x) { return 2 * x; }\n")
    words = ["cc", "-g", "-shared", "-fPIC", "-o", "solve.so", "solve.c"]
    subprocess.run(words, check=True, cwd=tmp_path)
    os.utime(tmp_path / "solve.so", (MEASURED - 1, MEASURED - 1))
    return tmp_path / "solve.so"


def test_compiled_functions_have_lines_unless_they_were_compiled_again(library: Path):
    halo = CallPath.parse("main->halo")
    sites = {SOLVE: (str(library), 0), halo: ("halo.py", 7)}

    assert with_lines(sites, MEASURED) == {
        SOLVE: (str(library.with_suffix(".c")), 2),
        halo: ("halo.py", 7),
    }
    assert with_lines(sites, MEASURED - 2) == sites


def test_a_lambda_has_the_line_of_the_function_around_it(library: Path):
    task = CallPath.parse("main->solve->(thread)->solve::{lambda()#1}")
    sites = {SOLVE: (str(library), 0), task: (str(library), 0)}

    assert with_lines(sites, MEASURED)[task] == (str(library.with_suffix(".c")), 2)


def test_a_run_of_a_compiled_program_ends_with_lines(tmp_path: Path, library: Path):
    campaign = str(tmp_path / "heat.insitu")
    with open_store(campaign, create=True) as store:
        for p in (4, 8):
            record, table = heat_run(p)
            table.sites[SOLVE] = (str(library), 0)
            store.add_run(record, table)
    rebuilt_at = record.started_at - 1  # between both runs
    os.utime(library, (rebuilt_at, rebuilt_at))

    lines = diagnose_briefly(campaign)

    assert [line for line in lines if "solve.c:2" in line]


def test_a_diagnosis_has_the_name_of_the_program_or_that_of_the_campaign(tmp_path: Path):
    record, table = heat_run(4)
    unnamed = replace(record, configuration=Configuration())

    names = []
    for run in (record, unnamed):
        experiment = Experiment(("p",), ((run.key, table),))
        diagnosis = diagnose_with_lines(experiment, [run], ModelSet(), name="campaign", sites={})
        names.append(diagnosis.program)

    assert names == ["heat.py", "campaign"]


def test_a_diagnosis_says_which_runs_it_leaves_out():
    record, table = heat_run(4)
    other, _ = heat_run(8)
    records = [record, replace(other, state=RunState.INCOMPLETE)]
    experiment = Experiment(("p",), ((record.key, table),))

    diagnosis = diagnose_with_lines(experiment, records, ModelSet(), name="campaign", sites={})

    assert diagnosis.notes[0] == "1 of 2 runs is left out; `insitu runs` says why"


def test_a_statement_names_the_function_that_was_inlined(tmp_path: Path) -> None:
    source = "int MPI_Gather(int);\nstatic int gather(int n) {\n  return MPI_Gather(n) + 1;\n}\n"
    (tmp_path / "app.c").write_text(source + "int solve(int n) { return gather(n) + 2; }\n")
    words = ["cc", "-g", "-O2", "-shared", "-fPIC", "-o", "app.so", "app.c"]
    subprocess.run(words, check=True, cwd=tmp_path)
    statement = Statement(
        kind="serial",
        status="limit",
        text="rank 0 receives 8 B * p",
        callpath=str(SOLVE),
        where="app.c:5",
        calls=("MPI_Gather",),
    )

    named = _name_inlined(statement, {SOLVE: (str(tmp_path / "app.so"), 0)}, 4e9)

    assert statement_line(named).endswith(
        "gather: rank 0 receives 8 B * p, inlined in solve  app.c:3"
    )
    assert named.callpath == str(SOLVE)


def test_a_statement_names_all_functions_that_were_inlined_and_make_the_same_call(
    tmp_path: Path,
) -> None:
    source = (
        "int MPI_Send(int);\n"
        "static int left(int n) { return MPI_Send(n) + 1; }\n"
        "static int right(int n) { return MPI_Send(n) + 2; }\n"
        "int solve(int n) { return left(n) + right(n); }\n"
    )
    (tmp_path / "app.c").write_text(source)
    words = ["cc", "-g", "-O2", "-shared", "-fPIC", "-o", "app.so", "app.c"]
    subprocess.run(words, check=True, cwd=tmp_path)
    statement = Statement(
        kind="messages",
        status="limit",
        text="each rank sends 4 (p - 1) messages",
        callpath=str(SOLVE),
        where="app.c:4",
        calls=("MPI_Send",),
    )

    named = _name_inlined(statement, {SOLVE: (str(tmp_path / "app.so"), 0)}, 4e9)

    assert named.name == named.short_name == "left or right"
    assert named.where == "app.c:2"
    assert named.text.endswith("inlined in solve, or of right (app.c:3)")
