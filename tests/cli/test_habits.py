"""Everyday commands: runs, init, explain, the only campaign here, completion of names."""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import numpy as np
import pytest
from click.shell_completion import ShellComplete

from insitu.analysis.diagnosis.machine import parse_machine
from insitu.analysis.finding_help import FINDING_HELP, STATEMENT_HELP
from insitu.campaign.config import load_config
from insitu.campaign.store import open_store
from insitu.cli import COMMANDS, call, group
from insitu.entities import VISITS, CallPath, Configuration, RunKey, RunRecord, RunState
from insitu.modeling.measurement import RunTable
from tests.cli.conftest import Insitu


def subcommands() -> dict[str, click.Command]:
    context = click.Context(group)
    commands = {name: group.get_command(context, name) for name in COMMANDS if name != "run"}
    found = {}
    for name, command in commands.items():
        assert command is not None
        found[name] = command
        if isinstance(command, click.Group):
            found |= {f"{name} {key}": value for key, value in command.commands.items()}
    return found


def completions(*words: str, incomplete: str) -> list[str]:
    shell = ShellComplete(group, {}, "insitu", "_INSITU_COMPLETE")
    return [item.value for item in shell.get_completions(list(words), incomplete)]


def test_runs_are_listed_with_state_host_and_command(insitu: Insitu, heat: str):
    answer = insitu("runs", heat)

    assert answer.code == 0, answer.err
    assert answer.lines[0].startswith("p=4")
    assert "complete, 3 s on n1" in answer.lines[0]
    assert answer.lines[-1] == "10 runs"


def test_json_of_runs_has_one_line_per_run(insitu: Insitu, heat: str):
    rows = [json.loads(line) for line in insitu("runs", heat, "--json").lines]

    assert {row["params"]["p"] for row in rows} == {4, 8, 16, 32, 64}
    assert all(row["used"] and row["command"] == "examples/heat.py" for row in rows)


def test_the_only_campaign_here_needs_no_name(insitu: Insitu, heat: str, tmp_path: Path):
    shutil.copytree(heat, tmp_path / "heat.insitu")

    assert insitu("runs").lines[-1] == "10 runs"
    assert insitu("models", "-m", "time", "-t", "1").code == 0


def test_without_a_campaign_or_with_several_a_name_is_required(insitu: Insitu, tmp_path: Path):
    nothing = insitu("runs")
    for name in ("a.insitu", "b.insitu"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "campaign.toml").touch()

    several = insitu("runs")

    assert (nothing.code, several.code) == (2, 2)
    assert "there is none here" in nothing.err
    assert "several are here: a.insitu, b.insitu" in several.err


def test_init_writes_a_plan_that_campaign_reads(insitu: Insitu):
    written = insitu("init", "heat", "-l", "n=64..256:3", "--", "./heat.py", "--cells", "{n}")

    planned = insitu("campaign", "plan", "heat.insitu")

    assert written.code == 0, written.err
    assert "0 of 18 runs made" in planned.out
    assert "p=2, n=64" in planned.out or "p=2,n=64" in planned.out


def test_the_settings_that_init_proposes_are_valid(insitu: Insitu):
    insitu("init", "heat", "--", "./heat.py")
    file = Path("heat.insitu/campaign.toml")
    file.write_text(re.sub(r"^# (?=\w+ = )", "", file.read_text(), flags=re.M))

    config = load_config("heat.insitu")

    assert (config.target, config.scaling) == ({"p": 65_536}, "strong")
    assert parse_machine(config.machine).memory_bytes > 1e9


def test_init_overwrites_nothing_and_refuses_what_campaign_would(insitu: Insitu):
    assert insitu("init", "heat", "--", "./heat.py").code == 0

    assert insitu("init", "heat", "--", "./heat.py").code == 3
    assert insitu("init", "other", "-L", "nobody", "--", "./heat.py").code == 2
    assert insitu("init", "other").code == 2


def test_a_command_line_in_quotes_is_split_and_the_campaign_found_by_its_stem(insitu: Insitu):
    assert insitu("init", "heat", "--", "./heat.py --cells 64").code == 0
    assert (
        'command = ["./heat.py", "--cells", "64"]' in Path("heat.insitu/campaign.toml").read_text()
    )

    for command in (("campaign", "run", "heat"), ("diagnose", "heat")):
        assert "did you mean heat.insitu?" in insitu(*command).err
    assert "`insitu campaign run heat.insitu` makes those" in insitu("diagnose", "heat.insitu").err


def test_every_finding_is_explained_and_a_wrong_code_is_corrected(insitu: Insitu):
    for code in (*FINDING_HELP, *STATEMENT_HELP):
        answer = insitu("explain", code)
        assert answer.lines[0] == code
        assert "What to do: " in answer.out

    wrong = insitu("explain", "rank-lots")

    assert wrong.code == 2
    assert "did you mean rank-lost" in wrong.err


def test_metrics_call_paths_and_runs_complete(heat: str):
    assert "time" in completions("models", heat, "--metric", incomplete="ti")
    assert completions("models", heat, "--callpath", incomplete="sol") == ["solve"]
    assert completions("omit", heat, incomplete="p=8") == ["p=8#0", "p=8#1"]


@pytest.mark.parametrize("name", subcommands())
def test_every_command_has_help_of_its_own_and_distinct_short_options(name: str):
    command = subcommands()[name]

    names = [text for option in command.params for text in option.opts]

    assert command.help
    assert len(names) == len(set(names))


def test_runs_lists_the_nodes_of_a_run_with_their_facts(insitu: Insitu, tmp_path: Path):
    facts = {"processors": 8, "numa_nodes": 2, "mhz": 2100, "load": 0.3}
    nodes = [{"name": f"n{i}", "ranks": [i], **facts} for i in range(6)]
    nodes[1] = {"name": "n1", "ranks": [1]}  # its agent could not read them
    campaign = str(tmp_path / "a.insitu")
    with open_store(campaign, create=True) as store:
        configuration = Configuration.of({"nodes": json.dumps(nodes)})
        key = RunKey.of({"p": 6})
        store.add_run(
            RunRecord("1", key, RunState.COMPLETE, configuration=configuration),
            RunTable((CallPath(("app",)),), (VISITS,), {"visits": np.ones((1, 6))}),
        )

    lines = [line.strip() for line in insitu("runs", campaign).lines]
    (row,) = [json.loads(line) for line in insitu("runs", campaign, "--json").lines]

    assert "n0: 1 rank, 8 processors, 2 NUMA nodes, 2,100 MHz, load 0.3 at the start" in lines
    assert "n1: 1 rank" in lines
    assert "and 2 more nodes" in lines
    assert row["nodes"][5] == {"name": "n5", "ranks": [5], **facts}


def test_a_terminal_without_unicode_shows_substitutes(heat: str):
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1", "PYTHONUTF8": "0"}
    command = [sys.executable, "-c", "from insitu.cli import main; main()", "diagnose", heat]

    answer = subprocess.run(command, env=environment, capture_output=True, check=True)

    text = answer.stdout.decode("latin-1")
    assert "\nX " in text or "\n+ " in text or "\n! " in text
    assert b"Traceback" not in answer.stderr


def test_the_database_of_a_campaign_is_not_to_be_imported(insitu, heat: str):
    answer = insitu("diagnose", os.path.join(heat, "campaign.db"))

    assert answer.code == 3
    assert f"the campaign is its directory, {heat}" in answer.err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_campaign_that_cannot_be_changed_is_to_be_copied(insitu, heat: str):
    own = shutil.copytree(heat, "own.insitu")  # in the folder of this test
    os.chmod(own, 0o500)

    answer = insitu("omit", own, "p=4#0")

    assert "cannot be changed" in answer.err and "copy the campaign" in answer.err


@pytest.mark.parametrize(
    ("command", "chosen", "threads"),
    [
        ("models", None, "1"),
        ("models", "3", "3"),
        ("run", None, None),
        ("campaign", None, None),
        ("detect", None, None),
        ("doctor", None, None),
    ],
)
def test_one_thread_of_openblas_in_commands_that_start_no_program_of_the_user(
    command: str, chosen: str | None, threads: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "0")  # restored after the test
    monkeypatch.delenv("OPENBLAS_NUM_THREADS")
    if chosen:
        monkeypatch.setenv("OPENBLAS_NUM_THREADS", chosen)

    with contextlib.suppress(SystemExit):  # of `insitu run`, whose help is its own
        call([command, "--help"])

    assert os.environ.get("OPENBLAS_NUM_THREADS") == threads
