"""The messages at the end of a run, and the command line of `insitu run`."""

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from insitu.campaign.store import open_store
from insitu.entities import TIME, CallPath, Configuration, Finding, RunKey, RunRecord, RunState
from insitu.errors import CommandNotFoundError, NotExecutableError
from insitu.launch.find import program_argv
from insitu.modeling.measurement import RunTable
from insitu.run import summary
from insitu.run.aggregator import AggregatorProcess
from insitu.run.options import parse
from insitu.run.summary import (
    FILE_CALLS,
    combine_findings,
    diagnose_briefly,
    explain_exclusions,
    has_only_mpi,
    next_step,
    print_measurement_errors,
    print_summary,
)
from tests.support.campaigns import heat_campaign, heat_run


def test_a_file_that_is_not_executable_differs_from_a_missing_one(tmp_path):
    (tmp_path / "plain").write_text("x")

    with pytest.raises(NotExecutableError, match=r"is not executable; run chmod \+x"):
        program_argv([str(tmp_path / "plain")])
    with pytest.raises(CommandNotFoundError, match="command not found"):
        program_argv(["no-such-program"])


def test_a_complete_run_of_a_program_that_failed_can_be_left_out(capsys):
    record = RunRecord("id", RunKey.of({"p": 2}), RunState.COMPLETE)

    print_summary(record, "heat.insitu", code=2)
    print_summary(record, "heat.insitu")

    stored, failed, again = capsys.readouterr().err.splitlines()
    assert failed.endswith(
        "the program ended with exit code 2; if it failed, leave this run out with: "
        "insitu omit heat.insitu p=2#0"
    )
    assert again == stored


@pytest.mark.parametrize("code", ["rank-aborted", "rank-signal"])
def test_a_run_that_ended_early_comes_without_the_hint_to_ingest_it(capsys, code):
    findings = (Finding(code, "status 3", "rank 1"), Finding("rank-lost", "0 of 2", "id"))
    record = RunRecord(
        "id", RunKey.of({"p": 2}), RunState.INCOMPLETE, findings=findings, missing=(0, 1)
    )

    print_summary(record, "heat.insitu")
    print_summary(replace(record, findings=findings[1:]), "heat.insitu")

    aborted, why, lost = capsys.readouterr().err.splitlines()
    assert aborted.endswith(
        "run p=2 is incomplete: ranks 0, 1 exited abnormally; the run is stored in heat.insitu but"
        " not used for models"
    )
    assert why.startswith(f"insitu: {code}: status 3")
    assert "`insitu ingest heat.insitu` may complete it" in lost


def test_a_full_disk_is_reported_with_what_to_do(tmp_path, capsys):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "trouble-1").write_text("OSError: [Errno 28] No space left on device: 'x'")

    assert print_measurement_errors("1", str(tmp_path))
    assert not print_measurement_errors("2", str(tmp_path))
    assert "free some space there, or name another directory with INSITU" in capsys.readouterr().err


@pytest.mark.native
@pytest.mark.parametrize(
    ("status", "message"),
    [
        (0, ""),
        (3, "did not start (disk full); the tables of the ranks are ingested when the run ends"),
    ],
)
def test_an_aggregator_that_has_done_its_work_is_not_one_that_did_not_start(
    tmp_path, capsys, status, message
):
    (tmp_path / "logs").mkdir()
    aggregator = AggregatorProcess(str(tmp_path), "run")
    aggregator.process = subprocess.Popen(["sh", "-c", f"exit {status}"])
    aggregator.process.wait()
    (tmp_path / "logs" / "serve.log").write_text("disk full\n")

    aggregator.await_address()

    assert message in capsys.readouterr().err if message else not capsys.readouterr().err


def test_of_long_call_paths_the_innermost_functions_are_shown():
    paths = ["main->MPI_Wait", "main->a->b->c->d->MPI_Wait"]

    lines = combine_findings([Finding("waiting-unclear", "40 s", path) for path in paths])

    assert lines == ["waiting-unclear: 40 s (main->MPI_Wait, …->d->MPI_Wait)"]


def test_an_incomplete_run_of_a_campaign_is_reported_once(tmp_path, capsys):
    campaign = str(tmp_path / "heat.insitu")
    record, table = heat_run(4)
    record = replace(record, state=RunState.INCOMPLETE, missing=(3,))
    with heat_campaign(campaign, 1, (1, 2)) as store:
        store.add_run(record, table)

    print_summary(record, campaign)

    texts = [line for line in capsys.readouterr().err.splitlines() if "incomplete" in line]
    assert len(texts) == 1
    assert "run p=4 is incomplete: rank 3 exited abnormally" in texts[0]


def test_np_is_the_number_of_ranks_as_for_mpiexec():
    assert parse(["-np", "4", "a.py"]).ranks == 4


def test_before_there_are_models_it_asks_for_other_numbers_of_ranks(tmp_path):
    steps = []
    for scales in ((1, 2), (1, 2, 4)):
        path = str(tmp_path / f"heat{len(scales)}.insitu")
        with heat_campaign(path, 1, scales) as store:
            last = store.runs()[-1]
        steps.append(next_step(last, path))

    assert "for models, run it with other numbers of ranks" in steps[0]
    assert steps[1].startswith("show its models with: insitu models")


@pytest.mark.parametrize(("hook", "is_hinted"), [("preload", True), ("evaluator", False)])
def test_only_compiled_programs_are_told_how_to_time_their_functions(tmp_path, hook, is_hinted):
    campaign = str(tmp_path / "app.insitu")
    record, _ = heat_run(2)
    record = replace(record, configuration=Configuration.of({"hook": hook}))
    paths = (CallPath.parse("app"), CallPath.parse("app->MPI_Send"))
    with open_store(campaign, create=True) as store:
        store.add_run(record, RunTable(paths, (TIME,), {TIME.name: np.ones((2, 2))}))

    hint = next_step(record, campaign)

    assert ("-finstrument-functions" in hint) is is_hinted


def test_a_parameter_that_earlier_runs_lack_is_reported_with_how_to_label_them(tmp_path):
    campaign = str(tmp_path / "heat.insitu")
    with heat_campaign(campaign, 1, (4, 8, 16)) as store:
        before = store.runs()[-1]
        record, table = heat_run(4, n=128.0)
        command = Configuration.of({"command": "heat.py 128"})
        record = replace(record, configuration=command)
        store.add_run(record, table)

    lines = explain_exclusions(record, campaign)

    assert lines == [
        "run p=4,n=128#0 sets n, which most runs do not; left out. Label the others, as in"
        f" `insitu label {campaign} p=4#0 n=VALUE`"
    ]
    assert explain_exclusions(before, campaign) == lines


def test_a_repetition_with_another_command_is_reported_at_once(tmp_path):
    campaign = str(tmp_path / "heat.insitu")
    with heat_campaign(campaign, 1, (4,)) as store:
        for number, command in enumerate(("heat 64", "heat 128"), 1):
            record, table = heat_run(4, number)
            record = replace(record, configuration=Configuration.of({"command": command}))
            store.add_run(record, table)

    (line,) = explain_exclusions(record, campaign)

    assert line.startswith("runs at p=4 were started with different commands")


def test_a_program_without_timed_functions_is_recognised():
    mpi = [CallPath.parse(text) for text in ("app", "app->MPI_Init", "app->MPI_Send")]

    assert has_only_mpi(mpi)
    assert not has_only_mpi([*mpi, CallPath.parse("app->solve")])
    assert not has_only_mpi(mpi[:1])
    assert has_only_mpi([*mpi, CallPath.parse("app->(thread)")])
    assert has_only_mpi([*mpi, CallPath.parse("app->write"), CallPath.parse("app->fopen")])


def test_rows_of_files_have_names_that_are_known():
    source = (Path(__file__).parents[2] / "collectors/native/files.c").read_text()

    assert set(re.findall(r'\bname_\w+\[\] = "(\w+)"', source)) == FILE_CALLS


def test_a_finding_of_many_ranks_is_printed_once():
    alone = [Finding("mpi-singletons", "alone", f"rank {rank}") for rank in range(6)]

    lines = combine_findings([*alone, Finding("throttled", "f")])

    assert lines == [
        "mpi-singletons: alone (rank 0, rank 1, rank 2, rank 3 and 2 more)",
        "throttled: f",
    ]


def test_findings_of_ranks_that_differ_in_numbers_are_one_line_with_their_range():
    texts = ("the callers of 9 MPI calls are unknown", "the callers of 1,024 MPI calls are unknown")
    unread = [Finding("stacks-unread", text, f"rank {i}") for i, text in enumerate(texts)]
    costly = [Finding("timing-costly", f"timing took {n} % of 2.50 s", "rank 3") for n in (40, 7)]

    lines = combine_findings([*unread, *costly])

    assert lines == [
        "stacks-unread: the callers of 9 to 1,024 MPI calls are unknown (rank 0, rank 1)",
        "timing-costly: timing took 7 to 40 % of 2.50 s (rank 3, rank 3)",
    ]


def test_a_run_ends_with_its_profile_and_after_three_scales_with_the_verdict(tmp_path):
    campaign = str(tmp_path / "heat.insitu")

    heat_campaign(campaign, 1, (4, 8)).close()
    before = diagnose_briefly(campaign)
    heat_campaign(campaign, 1, (16,)).close()
    after = diagnose_briefly(campaign)

    assert before[0] == "heat.py: 2 scales measured, laws need 3; measured: 4 to 8 ranks, 2 runs"
    assert "% of the time at p = 8" in before[1]
    assert len(before) <= 3
    assert after[0] == "heat.py: no limit found up to 1,024 ranks; measured: 4 to 16 ranks, 3 runs"
    assert len(after) <= 3


def test_an_error_in_the_diagnosis_is_a_line_and_no_failure_of_the_run(tmp_path, monkeypatch):
    campaign = str(tmp_path / "heat.insitu")
    heat_campaign(campaign, 1, (4, 8)).close()

    def fail(*_args, **_options):
        raise ZeroDivisionError("float division by zero")

    monkeypatch.setattr("insitu.analysis.source_lines.diagnose_experiment", fail)
    (line,) = diagnose_briefly(campaign)

    assert "ZeroDivisionError: float division by zero" in line
    assert line.endswith(f"insitu diagnose {campaign} shows where")


def test_a_run_of_many_call_paths_ends_with_its_profile_but_not_with_a_long_diagnosis(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(summary, "MAX_CALLPATHS", 1)
    campaign = str(tmp_path / "heat.insitu")

    heat_campaign(campaign, 1, (4, 8)).close()
    before = diagnose_briefly(campaign)
    heat_campaign(campaign, 1, (16,)).close()
    after = diagnose_briefly(campaign)

    assert "% of the time at p = 8" in before[1]
    (line,) = after
    assert line.endswith(f"find what limits the program with: insitu diagnose {campaign}")
