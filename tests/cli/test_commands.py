"""What every command promises: help, JSON Lines, errors in one line with their exit code."""

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys

import pytest

from insitu import __version__
from insitu.analysis.board import make_board
from insitu.analysis.predict import coordinate_of
from insitu.campaign.schema import FORMAT
from insitu.campaign.selection import OMITTED_CODE
from insitu.campaign.store import open_store
from insitu.cli import COMMANDS, group
from insitu.errors import UsageError
from insitu.server.discovery import WriterLock
from insitu.workflows.selection import headline_rows
from tests.cli.conftest import Insitu
from tests.support.campaigns import HALO, heat_campaign, heat_run
from tests.support.parameters import plain_and_full

READING = {
    "models": ("models", "{heat}"),
    "classes": ("classes", "{heat}"),
    "predict": ("predict", "{heat}", "--at", "p=128"),
    "watch": ("watch", "{heat}", "--once"),
    "doctor": ("doctor",),
}


def test_help_names_every_command_without_importing_it():
    code = "import sys, insitu.cli as c; c.call(['--help']); print('numpy' in sys.modules)"

    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )

    assert all(f"  {name}" in answer.stdout for name in COMMANDS)
    assert answer.stdout.endswith("False\n")


def test_no_command_shows_the_help(insitu: Insitu):
    assert insitu().out == insitu("--help").out


def test_version(insitu: Insitu):
    assert insitu("--version").out == f"insitu {__version__}\n"


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "run"])
def test_every_command_has_help_for_80_columns(name: str, insitu: Insitu):
    answer = insitu(name, "--help")

    assert answer.code == 0
    assert answer.out.startswith(f"Usage: insitu {name}")
    assert max(map(len, answer.lines)) <= 80


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_can_be_imported(name: str):
    assert group.get_command(None, name).name == name  # type: ignore[arg-type, union-attr]


@pytest.mark.parametrize("name", READING)
def test_json_is_lines_of_json_alone(name: str, insitu: Insitu, heat: str):
    arguments = [word.format(heat=heat) for word in READING[name]]

    answer = insitu(*arguments, "--json")

    assert answer.code == 0
    assert all(isinstance(json.loads(line), dict) for line in answer.lines)
    assert answer.lines


@pytest.mark.parametrize("name", READING)
def test_tables_are_readable_at_80_columns(name: str, insitu: Insitu, heat: str):
    answer = insitu(*(word.format(heat=heat) for word in READING[name]))

    table = [line for line in answer.lines if not line.startswith(("note:", "  "))]
    assert answer.code == 0
    assert name == "doctor" or max(map(len, table)) <= 80


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("models", "nix.insitu"), 3, "nix.insitu: no campaign here"),
        (("models", ""), 3, "the name of the campaign is empty"),
        (("models", "x", "--top", "-1"), 2, "-1 is not in the range"),
        (("campaign", "run", "nix.insitu"), 2, "nix.insitu: no campaign.toml here"),
        (("campaign", "rum", "x"), 2, "No such command"),
        (("refit", "nix.insitu"), 3, "nix.insitu: no campaign here"),
        (("advise", "x.insitu"), 2, "x.insitu: no campaign here; name an existing one, or plan"),
        (("plot", "nix.insitu", "-o", "a.gif"), 2, "suffix must be one of .png, .svg, .pdf"),
        (("modles", "x"), 2, "no command 'modles'; did you mean models"),
        (("models", "x", "--colour"), 2, "No such option"),
        (("models",), 2, "name the campaign; there is none here"),
        (
            ("export", "x"),
            2,
            "-: the suffix does not determine the format; give --to json|jsonl|csv|extra-p",
        ),
        (("export", "x", "--to", "xml"), 2, "'xml' is not one of"),
        (("import", "x.insitu", "nix.jsonl"), 2, "nix.jsonl: cannot read: No such file"),
        (("predict", "{heat}", "--at", "q=3"), 2, "no parameter 'q'; they are over p"),
        (("predict", "{heat}", "--at", "p=few"), 2, "'few' is not a number, as in n=256"),
        (("predict", "{heat}", "--at", "64"), 2, "as in n=256; the models are over p"),
        (("predict", "{heat}", "--at", "p=1,p=2"), 2, "'p' is given twice"),
        (("predict", "{heat}", "--at", "p=0"), 2, "models are defined only for values above 0"),
        (
            ("plot", "{heat}", "--metric", "joules"),
            2,
            "no metric 'joules' here; available: bytes_",
        ),
    ],
)
def test_an_error_is_one_line_with_its_exit_code(
    arguments: tuple[str, ...], code: int, text: str, insitu: Insitu, heat: str
):
    answer = insitu(*(word.format(heat=heat) for word in arguments))

    assert answer.code == code
    assert answer.out == ""
    assert answer.err.count("\n") == 1
    assert answer.err.startswith("insitu: ")
    assert text in answer.err
    assert not os.path.exists("x.insitu")


def test_a_newer_campaign_is_refused_by_every_reader(insitu: Insitu):
    heat_campaign("new.insitu", 1, (2,)).close()
    with sqlite3.connect("new.insitu/campaign.db") as connection:
        connection.execute(f"PRAGMA user_version = {FORMAT + 2}")

    for name in ("models", "classes", "watch", "refit"):
        answer = insitu(name, "new.insitu", *(("--once",) if name == "watch" else ()))
        assert answer.code == 3
        formats = f"has format {FORMAT + 2}, but this insitu reads formats up to {FORMAT}; update"
        assert formats in answer.err


def test_what_a_terminal_would_obey_is_escaped(insitu: Insitu):
    lines = [
        {"callpath": "main->\x1b[2Jevil[red]", "params": {"p": p}, "value": 1.0 * p}
        for p in (1, 2, 4, 8)
    ]
    given = "\n".join(map(json.dumps, lines)).encode()
    insitu("import", "odd.insitu", "-", given=given)

    for command in (("models", "odd.insitu"), ("watch", "odd.insitu", "--once")):
        answer = insitu(*command)
        assert "\x1b" not in answer.out + answer.err
        assert "main->\\x1b[2Jevil[red]" in answer.out


def test_a_closed_pipe_ends_the_command_silently(heat: str):
    command = f"{sys.executable} -m insitu models {heat} --json | true; echo ${{PIPESTATUS[0]}}"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}

    answer = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, check=True, env=environment
    )

    assert answer.stdout in ("141\n", "0\n")  # 0 where all was written before `true` had ended
    assert "Error" not in answer.stderr


def test_run_passes_its_arguments_on_untouched(insitu: Insitu, monkeypatch: pytest.MonkeyPatch):
    passed: list[list[str]] = []
    monkeypatch.setattr("insitu.run.command.main", passed.append)

    insitu("run", "--campaign=a", "--", "./app", "--", "--help", "-o", "x")

    assert passed == [["--campaign=a", "--", "./app", "--", "--help", "-o", "x"]]


def test_models_are_those_of_the_campaign(insitu: Insitu, heat: str):
    rows = [json.loads(line) for line in insitu("models", heat, "--json").lines]

    row = next(
        r for r in rows if r["callpath"] == "main->solve" and r["metric"] == "time_exclusive"
    )
    assert row["class"] == "all"
    assert row["segments"][0]["terms"][0]["factors"] == [
        {"parameter": "p", "exponent": "-1", "log": "0"}
    ]
    assert [point["at"] for point in row["points"]] == [{"p": p} for p in (4, 8, 16, 32, 64)]
    assert [interval["at"] for interval in row["interval"]] == [{"p": 64}, {"p": 256}]
    assert row["interval"][0]["low"] <= row["interval"][0]["value"] <= row["interval"][0]["high"]
    assert row["quality"]["smape"] < 2


def test_models_can_be_chosen(insitu: Insitu, heat: str):
    def chosen(*options: str) -> set[tuple[str, str]]:
        rows = [json.loads(line) for line in insitu("models", heat, "--json", *options).lines]
        return {(row["callpath"], row["metric"]) for row in rows}

    assert {metric for _, metric in chosen("--metric", "visits")} == {"visits"}
    assert {path for path, _ in chosen("--callpath", "*Send*")} == {str(HALO)}
    assert {path for path, _ in chosen("--top", "1")} == {str(HALO), "(whole run)"}


def test_a_table_shows_the_metrics_that_tell_most(insitu: Insitu, heat: str):
    table, single = insitu("models", heat), insitu("models", heat, "--callpath", "Sendrecv")

    assert "visits" not in "\n".join(table.lines[:-1])
    assert table.lines[-1] == "more metrics with --metric NAME or --callpath PATTERN: visits"
    assert "visits" in single.out
    rows = [("a", "time", "1"), ("a", "time_exclusive", "1"), ("a->b", "time", "2")]
    more = [("a->b", "time_exclusive", "2"), ("a->b", "bytes_sent", "0"), ("a->b", "FLOP", "3")]
    assert headline_rows(rows + more) == [True, True, True, False, False, True]
    assert headline_rows([("a", "visits", "1")]) == [True]


def test_the_cost_of_what_has_no_model_yet_is_told(insitu: Insitu):
    times = [("main", p, 3.0) for p in (1, 2, 4)] + [("main->rare", p, 1.0) for p in (2, 4)]
    lines = [
        {"callpath": path, "metric": "time_exclusive", "params": {"p": p}, "value": value}
        for path, p, value in times
    ]
    insitu("import", "a.insitu", "-", given="\n".join(map(json.dumps, lines)).encode())

    answer = insitu("models", "a.insitu")

    assert " 75 %  main" in answer.out
    insitu("report", "a.insitu", "-o", "a.md")
    with open("a.md") as page:
        said = page.read()
    assert "it takes 75 % now" in said
    assert "25 % of the time is in call paths without a model, most of it in" in said
    with open_store("a.insitu") as store:
        assert make_board(store.runs(), store.models()).series[0].share == 0.75
    refitted = insitu("refit", "a.insitu")
    assert "1 series of 1 call path have no model yet" in refitted.err
    assert "no model of their time yet: 25 % rare; a class of ranks needs 3 scales" in answer.out


def test_classes_tell_the_class_of_every_rank_and_their_growing_number(insitu: Insitu, heat: str):
    answer = insitu("classes", heat, "--json", "--callpath", "Sendrecv", "--metric", "bytes_sent")

    rows = [json.loads(line) for line in answer.lines]
    assert [row["params"] for row in rows] == [{"p": p} for p in (4, 8, 16, 32, 64)]
    assert rows[1]["labels"] == [0, 1, 1, 1, 1, 1, 1, 0]
    assert rows[1]["classes"] == ["end", "inner"]
    assert rows[1]["ranks"] == {"end": 2, "inner": 6}
    assert rows[1]["ranks_model"]["end"]["text"] == "2"


def test_a_metric_of_some_ranks_shares_the_lines_of_its_classes(insitu: Insitu):
    rows = []
    for p in (4, 8, 16):
        visits = [1.0, *[2.0] * (p - 2), 1.0]
        costs = [None if rank % 3 == 1 else 10 * value for rank, value in enumerate(visits)]
        for metric, ranks in (
            ("visits", visits),
            ("time_exclusive", visits),
            ("delay_cost", costs),
        ):
            row = {"callpath": "main->halo", "metric": metric, "params": {"p": p}, "ranks": ranks}
            rows.append(json.dumps(row))
    insitu("import", "halo.insitu", "-", given="\n".join(rows).encode())

    answer = insitu("classes", "halo.insitu")

    text = " ".join(answer.out.split())
    assert "time_exclusive, visits; in some ranks: delay_cost inner" in text
    assert text.count("end 2") == text.count("same") == 1


def test_classes_of_a_single_run_have_the_shares_of_that_run(insitu: Insitu):
    with heat_campaign("one.insitu", 1, (8,)):
        pass
    insitu("refit", "one.insitu")

    answer = insitu("classes", "one.insitu")

    _, table = heat_run(8)
    spent = table.values["time_exclusive"].sum(axis=1)
    share = 100 * spent[2] / spent.sum()
    assert any(line.lstrip().startswith(f"{share:.0f} %") for line in answer.lines), answer.out


@plain_and_full("suffix", ["png", "svg", "pdf"])
def test_ranks_are_drawn_by_value_and_place(insitu: Insitu, heat: str, suffix: str):
    answer = insitu("classes", heat, "--plot", f"ranks.{suffix}")

    assert answer.code == 0, answer.err
    assert os.path.getsize(f"ranks.{suffix}") > 1000
    assert "call paths with several classes" in answer.out


def test_a_picture_of_no_classes_and_of_an_unknown_kind_is_refused(insitu: Insitu, heat: str):
    alike = insitu("classes", heat, "--callpath", "Allreduce", "--plot", "ranks.png")
    unknown = insitu("classes", heat, "--plot", "ranks.gif")

    assert (alike.code, unknown.code) == (2, 2)
    assert "have a single class; there is nothing to draw" in alike.err
    assert "must be one of .png, .svg, .pdf" in unknown.err


def test_each_growing_model_has_its_adjusted_r2(insitu: Insitu, heat: str):
    """[CLU Table I]; a constant explains nothing, so it has none."""
    answer = insitu("models", heat, "--metric", "time_exclusive", "--callpath", "main->solve")

    (header,) = [line for line in answer.lines if line.startswith("share")]
    (falling,) = [line for line in answer.lines if " all " in line and "p^(-1)" in line]
    (constant,) = [line for line in answer.lines if " inner " in line]
    assert header.split()[-1] == "R²"
    assert float(falling.split()[-1]) > 0.99
    assert constant.endswith(" %")


def test_a_run_is_left_out_of_the_models_and_taken_back(insitu: Insitu, heat: str):
    own = shutil.copytree(heat, "own.insitu")

    def points() -> int:
        rows = map(json.loads, insitu("models", own, "--json", "--metric", "time").lines)
        return sum(len(row["points"]) for row in rows if row["class"] == "all")

    everything = points()
    several, none = insitu("omit", own, "p=8"), insitu("omit", own, "p=4#0", "p=8#7")
    with WriterLock(own):
        assert insitu("omit", own, "p=8#1").code == 3
    assert (several.code, none.code) == (2, 2)
    assert "'p=8' is 2 runs; name one of p=8#0, p=8#1" in several.err
    assert "no run 'p=8#7'; the runs are p=4#0, p=4#1" in none.err
    assert points() == everything

    omitted = insitu("omit", own, "p=8#0", "p=8#1")

    assert omitted.out.startswith("2 runs omitted: p=8#0, p=8#1; ")
    assert insitu("omit", own, "p=8#0", "p=8#1").err == "", "nothing new"
    assert points() < everything
    assert "run p=8#1: omitted on request" in insitu("models", own).err
    with open_store(own) as store:
        board = make_board(store.runs(), store.models())
    assert [run.name for run in board.runs if run.state == "omitted"] == ["p=8#1", "p=8#0"]
    assert [finding.where for finding in board.findings if finding.code == OMITTED_CODE] == [
        "p=8#1",
        "p=8#0",
    ]
    assert insitu("omit", own, "p=8#0", "p=8#1", "--undo").code == 0
    assert points() == everything


def test_runs_without_a_parameter_are_labelled_and_count_again(insitu: Insitu, tmp_path):
    own = str(tmp_path / "own.insitu")
    with open_store(own, create=True) as store:
        for p in (2, 4, 8, 16):
            store.add_run(*heat_run(p))
        for p in (2, 4, 8, 16):
            store.add_run(*heat_run(p, 0, n=256.0))
            store.add_run(*heat_run(p, 0, n=512.0))
    assert "run p=2#0 does not set n" in insitu("refit", own).err

    missing, ranks = insitu("label", own, "p=2#0"), insitu("label", own, "p=2#0", "p=4")
    labelled = insitu("label", own, "p=2#0", "p=4#0", "p=8#0", "p=16#0", "n=128")

    assert (missing.code, ranks.code, labelled.code) == (2, 2, 0)
    assert "it cannot be changed" in ranks.err
    assert labelled.out.startswith("4 runs labelled: p=2,n=128#0, p=4,n=128#0, p=8,n=128#0")
    assert "does not set n" not in labelled.err
    assert "damaged" not in insitu("doctor", own).out
    again = insitu("label", own, "p=2,n=128#0", "n=128")
    assert again.out.startswith("1 run labelled: p=2,n=128#0;")


def test_a_labelled_run_is_the_next_repetition_of_its_parameters(insitu: Insitu, tmp_path):
    own = str(tmp_path / "own.insitu")
    with open_store(own, create=True) as store:
        store.add_run(*heat_run(4))
        store.add_run(*heat_run(4, 0, n=128.0))

    answer = insitu("label", own, "p=4#0", "n=128")

    assert answer.out.startswith("1 run labelled: p=4,n=128#1")
    assert "had other values" not in answer.err


def test_a_value_that_a_label_replaces_is_named(insitu: Insitu, tmp_path):
    own = str(tmp_path / "own.insitu")
    with open_store(own, create=True) as store:
        store.add_run(*heat_run(4, n=32))

    answer = insitu("label", own, "p=4#0", "n=16")

    assert answer.out.startswith("1 run labelled: p=4,n=16#0")
    assert "these runs had other values until now: p=4,n=32#0" in answer.err


def test_a_mistaken_parameter_is_renamed_or_removed(insitu: Insitu, tmp_path):
    own = str(tmp_path / "own.insitu")
    with open_store(own, create=True) as store:
        store.add_run(*heat_run(4, 0, m=32.0))
        store.add_run(*heat_run(4, 1, n=32.0))
        store.add_run(*heat_run(8, 0, n=32.0, spare=1.0))

    renamed = insitu("label", own, "p=4,m=32#0", "m=", "n=32")
    removed = insitu("label", own, "p=8,n=32,spare=1#0", "spare=")

    assert renamed.out.startswith("1 run labelled: p=4,n=32#")
    assert removed.out.startswith("1 run labelled: p=8,n=32#0;")
    assert "damaged" not in insitu("doctor", own).out
    refused = insitu("label", own, "p=8,n=32#0", "spare=")
    assert refused.code == 2
    assert "no 'spare' to remove; the parameters of these runs: n" in refused.err
    assert insitu("label", own, "p=8,n=32#0", "p=").code == 2
    assert insitu("label", own, "p=8,n=32#0", "n=", "n=4").code == 2


def test_rules_of_the_campaign_hold_for_every_refit_and_options_for_one(insitu: Insitu, heat: str):
    own = shutil.copytree(heat, "own.insitu")

    def classes() -> list[str]:
        lines = insitu("classes", own, "--json", "--metric", "visits", "--top", "0").lines
        return sorted({name for line in lines for name in json.loads(line)["classes"]})

    with open(f"{own}/campaign.toml", "w", encoding="utf-8") as file:
        file.write("[[classes.rules]]\nranks = ['root: rank == 0']\n")
    assert insitu("refit", own).code == 0
    assert classes() == ["other", "root"]
    assert insitu("refit", own, "--rule", "even: rank % 2 == 0").code == 0
    assert classes() == ["even", "other"]
    refused = insitu("refit", own, "--rule", "even: rank %% 2")
    assert refused.code == 2
    assert "rule 'even': cannot read 'rank %% 2'" in refused.err
    assert insitu("refit", own, "--classes", "joint", "--threshold", "0.2").code == 2


def test_predictions_come_with_their_bounds(insitu: Insitu, heat: str):
    answer = insitu(
        "predict", heat, "--at", "p=128", "--at", "p=256", "--json", "--metric", "time_exclusive",
        "--callpath", "main->solve",
    )  # fmt: skip

    row = next(row for row in map(json.loads, answer.lines) if row["callpath"] == "main->solve")
    assert "p=256 is 4 times" not in answer.err
    assert "p=512 is 8 times the largest" in insitu("predict", heat, "--at", "p=512").err
    values = [found["value"] for found in row["predictions"]]
    assert values == pytest.approx([8 / 128, 8 / 256], rel=0.02)
    assert all(found["low"] < found["value"] < found["high"] for found in row["predictions"])


def test_a_parameter_that_is_missing_is_asked_for():
    with pytest.raises(UsageError, match=r"the models are over p, n; add n=VALUE"):
        coordinate_of("p=64", ("p", "n"))


def test_a_prediction_without_models_says_why_there_are_none(insitu: Insitu):
    insitu("import", "a.insitu", "-", given=b'{"params": {"p": 4}, "value": 1}')

    answer = insitu("predict", "a.insitu", "--at", "p=64")

    assert answer.code == 3
    reason = "models need 3 values of p, 1 measured so far"
    assert f"a.insitu: no models: {reason}" in answer.err
    assert insitu("models", "a.insitu").err.count(reason) == 1


@plain_and_full(
    ("suffix", "words"),
    [("png", ()), ("svg", ("--callpath", "residual")), ("pdf", ("--callpath", "residual"))],
)
def test_a_picture_is_drawn(suffix: str, words: tuple[str, ...], insitu: Insitu, heat: str):
    answer = insitu("plot", heat, "-o", f"heat.{suffix}", *words)

    assert answer.code == 0
    assert os.path.getsize(f"heat.{suffix}") > 5000


def test_a_picture_without_matplotlib_says_what_to_install(
    insitu: Insitu, heat: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "insitu.views.plot", raising=False)

    answer = insitu("plot", heat)

    assert answer.code == 2
    assert "-m pip install 'matplotlib>=3.8'" in answer.err


@pytest.mark.parametrize("form", ["json", "jsonl", "csv"])
def test_an_export_is_the_same_in_a_file_as_on_standard_output(
    form: str, insitu: Insitu, heat: str
):
    answer = insitu("export", heat, "--to", form)
    insitu("export", heat, "--to", form, "-o", "out")

    with open("out", encoding="utf-8") as file:
        assert file.read() == answer.out
    assert len(answer.lines) > 20


def test_the_suffix_of_a_file_says_its_format(insitu: Insitu, heat: str):
    answer = insitu("export", heat, "-o", "heat.csv")

    assert answer.code == 0
    with open("heat.csv", encoding="utf-8") as file:
        assert file.read() == insitu("export", heat, "--to", "csv").out


def test_extrap_json_has_a_value_per_repetition(insitu: Insitu, heat: str):
    document = json.loads(insitu("export", heat, "--to", "json").out)

    points = document["measurements"][f"{HALO} [end]"]["bytes_sent"]
    assert points[0] == {"point": [4.0], "values": [800.0, 800.0]}
    assert document["parameters"] == ["p"]


def test_doctor_says_what_works(insitu: Insitu):
    rows = [json.loads(line) for line in insitu("doctor", "--json").lines]

    assert {"Python", "C compiler", "MPI", "preload", "/dev/shm"} <= {row["name"] for row in rows}
    assert {row["state"] for row in rows} <= {"ok", "missing", "limited", "optional"}


def test_tables_show_the_dearest_call_paths_and_say_what_they_leave_out(insitu: Insitu):
    lines = [
        {"callpath": f"main->f{i}", "params": {"p": p}, "value": 1.0 * p * (i + 1)}
        for i in range(20)
        for p in (1, 2, 4)
    ]
    insitu("import", "a.insitu", "-", given="\n".join(map(json.dumps, lines)).encode())

    table, everything = insitu("models", "a.insitu"), insitu("models", "a.insitu", "--top", "0")

    assert "main->f19" in table.out
    assert table.lines[-1] == "5 more call paths; --top 0 shows all"
    assert "main->f0" in everything.out
    rows = insitu("models", "a.insitu", "--json").lines
    assert len(rows) == 20 + 1  # and the whole run


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--metric", "tme"), "no metric 'tme' here; did you mean time? Available: "),
        (("--callpath", "none"), "no call path matches --callpath none; `insitu models"),
    ],
)
@pytest.mark.parametrize("command", [("models",), ("classes",), ("predict", "--at", "p=128")])
def test_what_chooses_nothing_is_named(insitu: Insitu, heat: str, command, options, said: str):
    answer = insitu(command[0], heat, *command[1:], *options)

    assert answer.code == 2
    assert said in answer.err


def test_commands_that_need_models_end_alike_where_there_are_none(insitu: Insitu):
    with heat_campaign("two.insitu", 1, (4, 8)):
        pass

    commands = [("models",), ("models", "--json"), ("predict",), ("plot",)]
    answers = [insitu(command, "two.insitu", *options) for command, *options in commands]

    assert [answer.code for answer in answers] == [3, 3, 3, 3]
    assert all("no models: " in answer.err for answer in answers)


def test_an_export_of_models_without_models_says_so(insitu: Insitu):
    with heat_campaign("two.insitu", 1, (4, 8)):
        pass

    for form in ("csv", "python", "latex"):
        answer = insitu("export", "two.insitu", "--to", form)
        assert (answer.code, answer.out) == (3, "")
        assert "no models: " in answer.err and f"{form} holds models only" in answer.err
    assert insitu("export", "two.insitu", "--to", "jsonl").code == 0


def test_models_say_beyond_which_scale_predictions_are_unclear(insitu: Insitu, heat: str):
    chosen = ("--metric", "time_exclusive", "--callpath", "main->solve", "--top", "1")

    table = " ".join(insitu("models", heat, *chosen).out.split())

    limit = int(re.findall(r" all [^;]+; unclear beyond p=(\d+)", table)[0])
    for factor, is_unclear in ((1, False), (2, True)):
        predicted = insitu("predict", heat, *chosen, "--at", f"p={factor * limit}").lines
        of_all = [line for line in predicted if " all " in line]
        assert ("unclear beyond" in of_all[0]) == is_unclear


@pytest.mark.parametrize("command", ["models", "predict", "diagnose", "check"])
def test_every_command_that_shows_models_says_which_runs_they_lack(
    insitu: Insitu, heat: str, command: str
) -> None:
    own = shutil.copytree(heat, "own.insitu")
    with open_store(own) as store:
        store.add_run(*heat_run(128))
    options = ["--baseline", own] if command == "check" else []

    answer = insitu(command, own, *options)

    text = " ".join((answer.out + answer.err).split())
    assert "the models lack p=128#0, measured after they were fitted" in text
    assert "insitu refit own.insitu" in text
