"""Output that other programs read, and refusals that name what to do."""

import json
import shutil
import sys
from types import SimpleNamespace

import pytest
from click.shell_completion import ShellComplete

from insitu.cli import group
from insitu.cli.detect import _print_main_loop
from insitu.design.dependencies import Structure
from insitu.workflows.detect import Detection
from tests.support.campaigns import heat_campaign, modelled_campaign


def rows_of(answer) -> list[dict[str, object]]:
    assert answer.code == 0, answer.err
    return [json.loads(line) for line in answer.lines]


def test_changes_of_the_models_are_counted_in_json(insitu):
    modelled_campaign("own.insitu", 2, (4, 8, 16)).close()

    omitted = insitu("omit", "own.insitu", "p=8#1", "--json")
    labelled = insitu("label", "own.insitu", "p=4#0", "n=128", "--json")

    for answer in (omitted, labelled):
        (counts,) = rows_of(answer)
        assert counts["models"] > 0


def test_efficiencies_are_lines_of_json(insitu, heat):
    rows = rows_of(insitu("efficiency", heat, "--json"))

    whole = {row["p"]: row for row in rows if row["section"] == "(whole run)"}
    assert [p for p, row in whole.items() if not row["predicted"]] == [4, 8, 16, 32, 64]
    assert whole[4]["parallel_efficiency"]["value"] > whole[64]["parallel_efficiency"]["value"]


def test_what_is_ingested_is_said_on_standard_output_and_nothing_is_an_answer(insitu, heat):
    own = shutil.copytree(heat, "own.insitu")

    assert insitu("ingest", own).out == "own.insitu: nothing to ingest on this machine\n"
    assert insitu("ingest", own, "--json").out == ""


def test_binary_formats_are_not_written_into_a_terminal(insitu, heat, monkeypatch):
    terminal = SimpleNamespace(isatty=lambda: True)
    monkeypatch.setattr("insitu.cli.export.sys", SimpleNamespace(stdout=terminal))

    answer = insitu("export", heat, "--to", "parquet")

    assert answer.code == 2
    assert "parquet is no text for a terminal; name a file with -o FILE" in answer.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("label", "{heat}", "p=4#0"), "name runs and parameters, as in p=4#0 n=128"),
        (("explain", "zzzz"), "no finding 'zzzz'; `insitu explain` lists all"),
        (("explain", "ranks-crowd"), "did you mean ranks-crowded"),
        (("check", "{heat}", "--accept", "a.toml", "--baseline", "{heat}"), "give it alone"),
        (("detect", "-p", "n=1,2,3", "-p", "n=4,5,6", "--", "a", "{{n}}"), "'n' is given twice"),
        (("design", "here.json", "-l", "n=1,2", "-l", "n=4"), "'n' is given twice"),
        (("design", "here.json", "-l", "n=1,2", "--iteration", "k"), "no parameter 'k'; there are"),
    ],
)
def test_what_contradicts_itself_is_refused(insitu, tmp_path, heat, words, message):
    paths = [{"callpath": "main", "nests": [["n"]]}]
    (tmp_path / "here.json").write_text(json.dumps({"parameters": ["n"], "callpaths": paths}))

    answer = insitu(*(word.format(heat=heat) for word in words))

    assert answer.code == 2
    assert message in answer.err


def test_expectations_alone_are_those_of_the_only_campaign(insitu, heat, tmp_path):
    shutil.copytree(heat, "only.insitu")
    text = '[[expect]]\ncallpath = "MPI_Allreduce"\ngrowth = "O(log p)"\n'
    (tmp_path / "expectations.toml").write_text(text)

    answer = insitu("check", "expectations.toml")

    assert answer.lines[-1] == "1 met"


def test_an_empty_file_among_others_is_named_and_the_others_are_imported(insitu, tmp_path):
    row = {"callpath": "main", "metric": "time", "params": {"p": 2}, "value": 1.0}
    (tmp_path / "good.jsonl").write_text(json.dumps(row) + "\n")
    (tmp_path / "empty.jsonl").write_text("")

    some = insitu("import", "a.insitu", "good.jsonl", "empty.jsonl")
    none = insitu("import", "b.insitu", "empty.jsonl")
    rows = rows_of(insitu("import", "a.insitu", "good.jsonl", "--json"))

    assert some.code == 2
    assert "empty.jsonl: is empty; the other files were imported" in some.err
    assert "a.insitu: 1 run imported" in some.out
    assert "empty.jsonl: is empty; nothing was imported" in none.err
    assert rows[-1]["params"] == {"p": 2}


@pytest.mark.parametrize(
    ("words", "incomplete", "completed"),
    [
        (("-n", "4"), "--recu", ["--recursion"]),
        (("-n", "4", "app.py"), "--recu", ["--recu"]),  # an option of the program
        (("--campaign",), "--re", ["--re"]),  # its value
        (("-m",), "app", ["app"]),
    ],
)
def test_run_completes_its_own_options_up_to_the_program(words, incomplete, completed):
    shell = ShellComplete(group, {}, "insitu", "_INSITU_COMPLETE")

    items = shell.get_completions(["run", *words], incomplete)

    assert [item.value for item in items] == completed
    assert items[0].type == ("plain" if completed == ["--recursion"] else "file")


def test_classes_over_several_parameters_name_all_of_them(insitu, tmp_path):
    rows = [
        {
            "callpath": "main->halo",
            "metric": "visits",
            "unit": "1",
            "params": {"p": p, "n": n},
            "ranks": [1.0, *[2.0] * (p - 2), 1.0],
        }
        for p in (4, 8)
        for n in (10, 20)
    ]
    insitu("import", "a.insitu", "-", given="\n".join(map(json.dumps, rows)).encode())

    answer = insitu("classes", "a.insitu")

    assert "p=4, n=10; p=4, n=20; p=8, n=10; p=8, n=20" in " ".join(answer.out.split())


def test_labels_say_what_to_try_farther_out_and_what_could_not_be_followed(insitu, tmp_path):
    (tmp_path / "trap.py").write_text(
        "import sys\n"
        "def late(n, m):\n"
        "    if n >= 50:\n"
        "        for i in range(m): pass\n"
        "def plain(m):\n"
        "    for i in range(m): pass\n"
        "n, m = map(int, sys.argv[1:])\n"
        "late(n, m)\n"
        "plain(m)\n"
    )
    params = ("--param", "n=20,30,40", "--param", "m=10,20,30")

    answer = insitu("detect", *params, "--taint", "--", sys.executable, "trap.py", "{n}", "{m}")

    assert answer.code == 0, answer.err
    assert "labelled only: n" in answer.out
    assert "n may matter in trap.py->late, though no count changed with it" in answer.out
    assert "m may matter" not in answer.out


def test_the_parameter_that_may_be_the_iterations_is_proposed(capsys):
    structure = Structure(("n", "steps"), ())

    _print_main_loop(Detection(structure, None, frozenset(), ("steps",)))

    assert "if steps is the number of its iterations, give --iteration steps" in (
        capsys.readouterr().out
    )


def test_a_campaign_without_runs_decides_on_no_number_of_ranks(insitu, tmp_path):
    heat_campaign(str(tmp_path / "empty.insitu"), 0).close()
    paths = [{"callpath": "main", "nests": [["p"]]}]
    text = json.dumps({"parameters": ["p"], "ranks": "p", "callpaths": paths})
    (tmp_path / "here.json").write_text(text)

    named = insitu("design", "here.json", "-l", "p=3,4,5,6,7", "--ranks-from", "empty.insitu")
    silent = insitu("design", "here.json", "-l", "p=3,4,5,6,7", "--json")

    assert named.code == 2
    assert "no runs that show which numbers of ranks are accepted" in named.err
    assert [row["params"]["p"] for row in rows_of(silent)] == [3, 4, 5, 6, 7]


def test_numbers_of_ranks_that_the_program_refuses_are_no_design(insitu, tmp_path):
    heat_campaign(str(tmp_path / "squares.insitu"), 1, (4, 9, 16, 25)).close()
    paths = [{"callpath": "main", "nests": [["p"]]}]
    text = json.dumps({"parameters": ["p"], "ranks": "p", "callpaths": paths})
    (tmp_path / "here.json").write_text(text)

    answer = insitu("design", "here.json", "-l", "p=5,7,11", "--ranks-from", "squares.insitu")

    assert answer.code == 2
    assert "measured on 4, 9, 16, 25 ranks only, and seems to refuse all" in answer.err
