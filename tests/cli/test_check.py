import json
import re
from itertools import product
from pathlib import Path
from xml.etree import ElementTree

import pytest

from insitu.campaign.load import load_experiment
from insitu.campaign.store import open_store
from insitu.expectations.entries import load_entries
from insitu.modeling.pipeline import remodel
from tests.support.campaigns import heat_campaign, heat_run

GOOD = """
[[expect]]
callpath = "MPI_Allreduce"
growth = "O(log p)"

[[expect]]
callpath = "step->exchange->MPI_*"
metric = "visits"
growth = "O(1)"
"""
REDUCE = 'callpath = "MPI_Allreduce"\n'


@pytest.fixture
def expectations(tmp_path):
    def write(text: str) -> str:
        path = tmp_path / "expectations.toml"
        path.write_text(text.replace("step->", "solve->"), encoding="utf-8")
        return str(path)

    return write


def entry(*lines: str) -> str:
    return "[[expect]]\n" + "\n".join(lines)


def test_what_is_as_expected_ends_with_0(insitu, heat, expectations):
    answer = insitu("check", heat, expectations(GOOD))

    assert answer.code == 0, answer.err
    assert answer.lines[-1] == "3 met"
    assert any("O(log(p))" in line and "✔" in line for line in answer.lines)


def test_a_violated_expectation_ends_with_1_and_says_which(insitu, heat, expectations):
    answer = insitu("check", heat, expectations(entry(REDUCE, 'growth = "O(1)"')))

    assert answer.code == 1
    assert "✘ main->solve->residual->MPI_Allreduce, time: grows as O(log(p))" in answer.out
    assert answer.lines[-1] == "1 violated"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[[expect]\n", "not TOML"),
        ("", "there is no expectation"),
        ("other = 1", "unknown key 'other'"),
        (entry('growth = "O(p)"'), ":1: growth needs the call paths it is about"),
        (entry(REDUCE), ":1: an entry needs exactly one of growth, limit, rule, classes"),
        (entry(REDUCE, 'growth = "O(p"'), "a parenthesis is not closed"),
        (entry(REDUCE, 'growth = "O(p)"', 'colour = "red"'), "'colour' does not apply to"),
        (entry(REDUCE, "growth = 3"), "growth must be text"),
        (entry(REDUCE, 'growth = "O(p)"', "litmus = 1"), "litmus must be true or false"),
        (entry('callpath = "residul"', 'growth = "O(p)"'), "no call path 'residul' has a model"),
        (entry(REDUCE, 'growth = "O(n)"'), "the measurements vary p, not n"),
        (entry(REDUCE, 'growth = "Theta(p)"'), "write growth over them, as in O(p * log2(p))"),
        (
            entry(REDUCE, 'metric = "heat"', 'growth = "O(1)"'),
            "MPI_Allreduce named 'heat'",
        ),
        (entry(REDUCE, 'limit = "time at p=9 < 3 GB"'), "time is in s, not B"),
        (entry(REDUCE, 'limit = "time at n=9 < 3 s"'), "the models are over p"),
        (entry('rule = "MPI_Allreduce <= MPI_Other"'), "no call path 'MPI_Other'"),
        (entry(REDUCE, 'classes = "corner within 10 % of inner"'), "no class of"),
    ],
)
def test_expectations_that_make_no_sense_end_with_2(insitu, heat, expectations, text, reason):
    answer = insitu("check", heat, expectations(text))

    assert answer.code == 2
    assert reason in answer.err
    assert answer.out == ""


def test_the_expectations_of_the_reference_can_be_read(tmp_path):
    page = Path(__file__).resolve().parents[2] / "docs" / "reference" / "expectations-toml.md"
    (text,) = re.findall(r"```toml[^\n]*\n(\[\[expect\]\].*?)```", page.read_text("utf-8"), re.S)
    path = tmp_path / "expectations.toml"
    path.write_text(text, encoding="utf-8")

    assert len(load_entries(str(path))) == 6


def test_a_campaign_needs_something_to_be_compared_with(insitu, heat):
    assert insitu("check", heat).code == 2


def test_json_has_one_object_per_result(insitu, heat, expectations):
    answer = insitu("check", heat, expectations(GOOD), "--json")

    rows = [json.loads(line) for line in answer.lines]
    assert [row["status"] for row in rows] == ["met"] * 3
    assert rows[0]["match"] == "total"
    assert sum(rows[0]["ranks"].values()) == pytest.approx(1)
    assert rows[0]["line"] == 2


def test_limits_rules_and_classes_are_judged(insitu, heat, expectations):
    text = "\n".join(
        [
            entry(REDUCE, 'limit = "time at p=1024 < 2 s"'),
            entry(REDUCE, 'limit = "time at p=1024 < 0.2 s"'),
            entry('rule = "MPI_Allreduce <= MPI_Sendrecv + main"'),
            entry(REDUCE, 'metric = "visits"', 'classes = "one class only"'),
            entry('callpath = "MPI_Sendrecv"', 'metric = "visits"', 'classes = "one class only"'),
            entry('callpath = "MPI_Sendrecv"', 'classes = "end within 60 % of inner"'),
        ]
    )

    answer = insitu("check", heat, expectations(text), "--json")

    states = [json.loads(line)["status"] for line in answer.lines]
    assert states == ["met", "violated", "met", "met", "violated", "met"]
    assert answer.code == 1


def test_reports_are_written_for_other_tools(insitu, heat, expectations, tmp_path):
    files = [str(tmp_path / name) for name in ("r.xml", "r.sarif", "r.md")]
    path = expectations(GOOD + entry(REDUCE, 'metric = "time"', 'growth = "O(1)"'))

    insitu("check", heat, path, *(word for file in files for word in ("--output", file)))

    suite = ElementTree.parse(files[0]).getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("4", "1")
    assert "grows as O(log(p))" in suite.find(".//failure").get("message")
    (run,) = json.loads(Path(files[1]).read_text())["runs"]
    (result,) = run["results"]
    assert result["level"] == "error"
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == path
    assert place["region"]["startLine"] > 5
    table = Path(files[2]).read_text()
    assert table.startswith("**3 met, 1 violated**")
    assert "| ✘ | main->solve->residual->MPI_Allreduce | time |" in table


def test_a_report_of_an_unknown_kind_is_refused(insitu, heat, expectations):
    answer = insitu("check", heat, expectations(GOOD), "--output", "report.pdf")

    assert answer.code == 2
    assert ".xml, .sarif, .md" in answer.err


def test_annotations_name_the_line_of_the_expectation(insitu, heat, expectations):
    path = expectations(entry(REDUCE, 'growth = "O(1)"'))

    answer = insitu("check", heat, path, "--github")

    assert answer.lines[0].startswith(f"::error title=insitu%3A violated,file={path},line=1::")


def test_a_campaign_grows_no_faster_than_itself(insitu, heat):
    answer = insitu("check", heat, "--baseline", heat, "--all")

    assert answer.code == 0
    assert "<= O(log(p))" in answer.out
    assert "?" not in answer.out


def test_what_is_met_in_a_long_comparison_is_counted(insitu, heat, crowded):
    short = insitu("check", heat, "--baseline", heat)
    whole = insitu("check", heat, "--baseline", heat, "--all")
    unjudged = insitu("check", crowded, "--baseline", heat)

    assert short.lines[-1] == whole.lines[-1]
    assert "✔" in whole.out and "✔" not in short.out
    assert "--all shows a row for each expectation" in short.err
    [shared] = [line for line in unjudged.lines if line.startswith("–")]
    assert " series (time" in shared and "on 2 cores" in shared


def campaign_before_growth(tmp_path: Path, scales: tuple[int, ...]) -> str:
    """A campaign at these scales whose reduction takes equally long at all of them."""
    path = str(tmp_path / "before.insitu")
    with heat_campaign(path, 2, scales) as store:
        for run in store.runs():
            table = store.table(run.id)
            for metric in ("time", "time_exclusive"):
                table.values[metric][3] = 0.2
            store.add_run(run, table)
        store.put_models(remodel(load_experiment(store)))
    return path


def test_a_violation_in_a_long_comparison_has_its_sentence(insitu, heat, tmp_path):
    """The accepted campaign has two scales less, and a reduction that did not grow."""
    path = campaign_before_growth(tmp_path, (4, 8, 16))

    answer = insitu("check", heat, "--baseline", path)

    assert answer.code == 1
    assert "--all shows a row for each expectation" in answer.err
    assert "✘ main->solve->residual->MPI_Allreduce, time" in answer.out


def test_growth_that_was_not_accepted_is_violated(insitu, heat, tmp_path):
    """The accepted campaign is cut down to a solver whose reduction did not grow."""
    path = campaign_before_growth(tmp_path, (4, 8, 16, 32, 64))

    answer = insitu("check", heat, "--baseline", path, "--json")

    rows = [json.loads(line) for line in answer.lines]
    violated = [row for row in rows if row["status"] == "violated"]
    assert answer.code == 1
    assert {row["callpath"] for row in violated} == {"main->solve->residual->MPI_Allreduce"}
    assert {row["expected"] for row in violated} == {"<= O(1)"}


def test_a_limit_within_the_bounds_of_its_prediction_cannot_be_told(insitu, heat, expectations):
    answer = insitu("predict", heat, "--at", "p=1024", "--callpath", "MPI_Allreduce", "--json")
    values = [json.loads(line) for line in answer.lines]
    means = [row for row in values if (row["metric"], row["class"]) == ("time", "all")]
    (value,) = [row["predictions"][0]["value"] for row in means]
    path = expectations(entry(REDUCE, f'limit = "time at p=1024 < {value} s"'))

    answer = insitu("check", heat, path, "--json")

    (row,) = [json.loads(line) for line in answer.lines]
    assert answer.code == 0
    assert row["status"] == "unsettled"
    assert "undecided, above the limit with a probability of" in row["text"]
    assert 64 < row["settle"]["at"]["p"] <= 1024


def test_doubt_is_no_violation_and_names_the_point_that_settles_it(insitu, heat, expectations):
    path = expectations(entry('callpath = "main"', 'growth = "O(p)"', 'class = "end"'))

    answer = insitu("check", heat, path, "--json")

    (row,) = [json.loads(line) for line in answer.lines]
    assert answer.code == 0
    assert row["status"] == "unsettled"
    assert row["settle"]["at"]["p"] > 64


OF_TIMES = "\n".join(
    (
        entry(REDUCE, 'growth = "O(1)"'),
        entry(REDUCE, 'limit = "time at p=64 < 1 us"'),
        entry('rule = "MPI_Allreduce <= MPI_Sendrecv"'),
    )
)


@pytest.fixture
def crowded(tmp_path) -> str:
    """The campaign of `heat`, measured on 2 cores."""
    path = str(tmp_path / "crowded.insitu")
    with heat_campaign(path, 2, (4, 8, 16, 32, 64), cores=2) as store:
        store.put_models(remodel(load_experiment(store)))
    return path


def test_times_of_crowded_runs_are_not_judged_and_do_not_fail(insitu, crowded, expectations):
    answer = insitu("check", crowded, expectations(OF_TIMES))

    assert answer.code == 0
    assert answer.out.count("not judged: 64 ranks on 2 cores") >= 3
    assert answer.lines[-1] == "3 not judged"


DELAYED = "kept from cores by other processes for up to 40 % of the time"


@pytest.fixture
def delayed(tmp_path) -> str:
    """The campaign of `heat`; in its largest run, rank 0 waited for a processor."""
    path = str(tmp_path / "delayed.insitu")
    with heat_campaign(path, 1, (8, 16, 32)) as store:
        store.add_run(*heat_run(64, queued=0.4))
        store.put_models(remodel(load_experiment(store)))
    return path


def test_times_of_delayed_runs_are_not_judged_and_marked(insitu, delayed, expectations):
    answer = insitu("check", delayed, expectations(OF_TIMES))
    models = insitu("models", delayed).lines
    runs = insitu("runs", delayed).out
    predictions = insitu("predict", delayed, "--at", "p=128", "--callpath", "MPI_Allreduce")

    assert (answer.code, answer.lines[-1]) == (0, "3 not judged")
    assert answer.out.count(f"not judged: 64 ranks {DELAYED}") >= 3
    assert any("crowded: " in line for line in models)
    assert f"64 ranks {DELAYED}" in " ".join(runs.split())
    assert f"measured with up to 64 ranks {DELAYED}; these times" in predictions.err


def test_a_delayed_run_with_a_free_repetition_is_not_used_for_times(insitu, delayed, expectations):
    with open_store(delayed) as store:
        store.add_run(*heat_run(64, 1, queued=0.0))
        store.put_models(remodel(load_experiment(store)))

    answer = insitu("check", delayed, expectations(entry(REDUCE, 'growth = "O(1)"')))
    models = insitu("models", delayed)

    assert answer.code == 1
    assert "crowded: " not in models.out
    assert f"run p=64#0: 64 ranks {DELAYED}; its times are not used for" in models.out + models.err


@pytest.mark.parametrize("slow", [16, 64])
def test_delayed_runs_are_not_used_for_times_where_the_others_suffice(
    insitu, tmp_path, expectations, slow
):
    path = str(tmp_path / "busy.insitu")
    scales = [p for p in (4, 8, 16, 32, 64) if p != slow]
    with heat_campaign(path, 1, scales) as store:
        store.add_run(*heat_run(slow, queued=0.4))
        store.put_models(remodel(load_experiment(store)))

    answer = insitu("check", path, expectations(entry(REDUCE, 'growth = "O(1)"')))
    diagnosis = insitu("diagnose", path).out

    assert answer.code == 1
    assert "crowded: " not in insitu("models", path).out
    assert "residual" in diagnosis
    assert "time in MPI_Allreduce does not shrink" in " ".join(diagnosis.split())
    assert "not judged: times of 1 of 5 runs, in which other processes used the cores" in diagnosis


def test_counts_of_crowded_runs_are_judged(insitu, crowded, expectations):
    visits = entry(REDUCE, 'metric = "visits"', 'growth = "O(1)"')

    answer = insitu("check", crowded, expectations(visits))

    assert (answer.code, answer.lines[-1]) == (0, "1 met")


def test_an_accepted_campaign_bounds_no_times_of_crowded_runs(insitu, crowded, heat):
    answer = insitu("check", crowded, "--baseline", heat)

    assert answer.code == 0
    assert "not judged: 64 ranks on 2 cores" in answer.out
    assert "violated" not in answer.lines[-1]


def test_reports_of_checks_skip_what_is_not_judged(insitu, crowded, expectations, tmp_path):
    xml, sarif = tmp_path / "check.xml", tmp_path / "check.sarif"

    insitu(
        "check",
        crowded,
        expectations(entry(REDUCE, 'growth = "O(1)"')),
        *("-o", str(xml), "-o", str(sarif)),
    )

    suites = ElementTree.parse(xml).getroot()
    assert (suites.get("failures"), suites.get("skipped")) == ("0", "1")
    (result,) = json.loads(sarif.read_text())["runs"][0]["results"]
    assert (result["ruleId"], result["level"]) == ("insitu/not-judged", "note")


def test_models_and_predictions_of_crowded_times_are_marked(insitu, crowded):
    models = insitu("models", crowded).lines
    predictions = insitu("predict", crowded, "--at", "p=128", "--callpath", "MPI_Allreduce")
    rows = [json.loads(line) for line in insitu("models", crowded, "--json").lines]

    assert any("crowded: " in line for line in models)
    assert "time (crowded)" in predictions.out
    assert "64 ranks on 2 cores" in " ".join((predictions.out + predictions.err).split())
    assert {row["crowded"] for row in rows if row["unit"] == "s"} == {True}
    assert {row["crowded"] for row in rows if row["unit"] != "s"} == {False}


def test_an_entry_that_cannot_be_judged_does_not_stop_the_others(insitu, heat, expectations):
    file = expectations(GOOD + '\n[[expect]]\ncallpath = "MPI_Altoall"\ngrowth = "O(1)"\n')

    answer = insitu("check", heat, file)

    assert answer.code == 2
    assert "MPI_Allreduce" in answer.out
    assert "not judged:" in answer.err
    assert "MPI_Altoall" in answer.err


def test_reports_contain_what_cannot_be_judged(insitu, heat, expectations, tmp_path):
    """A report without it is that of a test that passed, while the command ends with 2."""
    file = expectations(GOOD + '\n[[expect]]\ncallpath = "MPI_Altoall"\ngrowth = "O(1)"\n')
    files = [str(tmp_path / f"report.{suffix}") for suffix in ("xml", "sarif", "md")]
    outputs = [word for name in files for word in ("--output", name)]

    answer = insitu("check", heat, file, "--github", *outputs)

    assert answer.code == 2
    (line,) = [line for line in answer.lines if line.startswith("::error")]
    assert "title=insitu%3A not judged" in line
    assert "line=11::" in line
    assert answer.lines[-1] == "3 met, 1 not judged"
    suite = ElementTree.parse(files[0]).getroot()
    assert (suite.get("tests"), suite.get("errors")) == ("4", "1")
    (error,) = suite.iter("error")
    assert "no call path 'MPI_Altoall' has a model" in error.get("message")
    (run,) = json.loads(Path(files[1]).read_text())["runs"]
    assert [row["ruleId"] for row in run["results"]] == ["insitu/impossible"]
    assert "- – not judged: [[expect]] in line 11: no call path" in Path(files[2]).read_text()


def test_reports_are_written_where_nothing_can_be_judged(insitu, heat, expectations, tmp_path):
    file = expectations(entry('callpath = "MPI_Altoall"', 'growth = "O(1)"'))
    output = tmp_path / "report.xml"

    answer = insitu("check", heat, file, "--output", str(output))

    assert answer.code == 2
    assert ElementTree.parse(output).getroot().get("errors") == "1"


def test_growth_with_a_parameter_that_did_not_vary_does_not_stop_the_others(
    insitu, heat, expectations
):
    unknown = entry(REDUCE, 'growth = "O(log q)"')
    answer = insitu("check", heat, expectations(f"{GOOD}\n{unknown}"))
    alone = insitu(
        "check",
        heat,
        expectations(f"{unknown}\n" + entry('callpath = "nowhere"', 'growth = "O(1)"')),
    )

    assert answer.code == 2
    assert answer.lines[-1] == "3 met, 1 not judged"
    assert "not judged: [[expect]] in line" in answer.err
    assert "the measurements vary p, not q" in answer.err
    assert "not q" in alone.err and "no call path 'nowhere'" in alone.err


def test_a_violated_litmus_test_leaves_the_others_of_its_metric_unjudged(
    insitu, heat, expectations
):
    text = "\n".join(
        [
            entry(REDUCE, 'growth = "O(1)"', "litmus = true"),
            entry('callpath = "MPI_Sendrecv"', 'limit = "time at p=16 < 1e-6 s"'),
            entry(REDUCE, 'metric = "visits"', 'growth = "O(p)"'),
        ]
    )

    answer = insitu("check", heat, expectations(text), "--json")

    rows = [json.loads(line) for line in answer.lines]
    statuses = {(row["callpath"].split("->")[-1], row["metric"], row["status"]) for row in rows}
    assert statuses == {
        ("MPI_Allreduce", "time", "violated"),
        ("MPI_Sendrecv", "time", "not judged"),
        ("MPI_Allreduce", "visits", "violated"),
    }
    assert "litmus test main->solve->residual->MPI_Allreduce (line 1)" in rows[1]["text"]


def test_a_litmus_test_that_is_met_changes_nothing(insitu, heat, expectations):
    text = "\n".join(
        [
            entry(REDUCE, 'growth = "O(log p)"', "litmus = true"),
            entry('callpath = "MPI_Sendrecv"', 'limit = "time at p=16 < 1e-6 s"'),
        ]
    )

    answer = insitu("check", heat, expectations(text), "--json")

    statuses = [json.loads(line)["status"] for line in answer.lines]
    assert statuses[0] == "met"
    assert set(statuses[1:]) == {"violated"}


def test_accepted_growth_is_met_and_is_not_overwritten(insitu, heat, tmp_path):
    file = str(tmp_path / "accepted.toml")

    accepted = insitu("check", heat, "--accept", file)
    checked = insitu("check", heat, file, "--json")
    again = insitu("check", heat, "--accept", file)

    assert accepted.code == 0, accepted.err
    statuses = {json.loads(line)["status"] for line in checked.lines}
    assert statuses <= {"met", "met approximately", "near"}
    assert accepted.lines[0] == f"{len(checked.lines)} expectations written to {file}"
    assert again.code == 2
    assert "remove it first" in again.err


def test_nothing_is_accepted_where_no_call_path_has_a_share_of_the_cost(insitu, tmp_path):
    source = tmp_path / "flat.jsonl"
    with source.open("w", encoding="utf-8") as file:
        for p, i in product((1, 2, 4), range(120)):
            row = {
                "params": {"p": p},
                "callpath": f"app->f{i}",
                "metric": "time_exclusive",
                "value": p,
            }
            file.write(json.dumps(row) + "\n")
    campaign = str(tmp_path / "flat.insitu")
    insitu("import", campaign, str(source))

    answer = insitu("check", campaign, "--accept", str(tmp_path / "accepted.toml"))

    assert answer.code == 2
    assert "no call path has 1% of the cost; write what you expect of some" in answer.err


def test_many_that_cannot_be_accepted_share_a_sentence(insitu, crowded, tmp_path, monkeypatch):
    whole = insitu("check", crowded, "--accept", str(tmp_path / "whole.toml"))
    monkeypatch.setattr("insitu.cli.check.MAX_ROWS", 3)

    short = insitu("check", crowded, "--accept", str(tmp_path / "short.toml"))
    every = insitu("check", crowded, "--accept", str(tmp_path / "every.toml"), "--all")

    assert whole.err == every.err
    assert whole.err.count("no expectation: ") == 5
    assert short.err.splitlines() == [
        "note: no expectation: 5 series (time_exclusive): not judged: 64 ranks on 2 cores; measure"
        " with a core of its own for each rank, or check a count instead",
        "note: --all lists each of them",
    ]


def test_growth_beyond_the_accepted_one_is_violated(insitu, heat, tmp_path):
    file = tmp_path / "accepted.toml"
    insitu("check", heat, "--accept", str(file))
    text = file.read_text("utf-8")
    assert "<= O(log(p))" in text

    changed = re.sub("accepted = .*", "", text.replace("<= O(log(p))", "<= O(1)"))
    file.write_text(changed, encoding="utf-8")

    assert insitu("check", heat, str(file)).code == 1


def test_growth_that_accepted_values_do_not_show_is_undecided(insitu, heat, tmp_path):
    """The law alone is beyond what is expected; the values are those that were accepted."""
    file = tmp_path / "accepted.toml"
    insitu("check", heat, "--accept", str(file))
    text = file.read_text("utf-8")
    file.write_text(text.replace("<= O(log(p))", "<= O(1)"), encoding="utf-8")

    answer = insitu("check", heat, str(file))

    assert answer.code == 0
    assert "undecided, at p=64 it is as much above the accepted campaign" in answer.out


def test_growth_relative_to_another_function_is_that_of_their_quotient(insitu, expectations):
    """What slows both alike, such as the machine, cancels [VAL §2.2]."""
    rows = []
    for p, slowdown in [(2, 1.0), (4, 1.9), (8, 4.3), (16, 7.6), (32, 17.0)]:
        for name, seconds in [("bcast", 3 * slowdown), ("tree_bcast", slowdown), ("odd", p**2)]:
            row = {"callpath": f"main->{name}", "metric": "time", "unit": "s", "params": {"p": p}}
            rows.append(json.dumps(row | {"value": seconds}))
    insitu("import", "busy.insitu", "-", given="\n".join(rows).encode())
    relative = ('growth = "O(1)"', 'relative_to = "tree_bcast"')
    text = "\n".join(
        [
            entry('callpath = "tree_bcast"', 'growth = "O(1)"', "litmus = true"),
            entry('callpath = "bcast"', 'growth = "O(1)"'),
            entry('callpath = "bcast"', *relative),
            entry('callpath = "odd"', *relative),
        ]
    )

    answer = insitu("check", "busy.insitu", expectations(text), "--json")

    litmus, plain, quotient, odd = map(json.loads, answer.lines)
    assert litmus["status"] == "violated"
    assert plain["status"] == "not judged"
    assert quotient["status"] == "met"
    assert quotient["text"] == "grows relative to tree_bcast as O(1), expected O(1)"
    assert odd["status"] == "violated"


def test_a_rule_comes_with_the_probability_of_its_violation_and_where_models_cross(
    insitu, expectations
):
    """[VAL §2.4, §3.1]: the violation is predicted before it can be measured."""
    rows = []
    for p in (2, 4, 8, 16, 32):
        for name, seconds in [("fast", 1 + 0.01 * p), ("first", 1.0), ("second", 1.0)]:
            row = {"callpath": f"main->{name}", "metric": "time", "unit": "s", "params": {"p": p}}
            rows.append(json.dumps(row | {"value": seconds}))
    insitu("import", "rule.insitu", "-", given="\n".join(rows).encode())
    text = entry('rule = "fast <= first + second"', 'at = "p=1024"')

    answer = insitu("check", "rule.insitu", expectations(text), "--json")

    (row,) = map(json.loads, answer.lines)
    assert row["status"] == "violated"
    assert re.fullmatch(
        r"holds at the measured points, violated at p = 1024 with a probability of [\d.>]+ %;"
        r" the models cross at p = (99|100|101)[\d.]*",
        row["text"],
    )


def test_what_could_not_be_judged_is_counted(insitu, heat, expectations):
    text = entry('callpath = "solve"', 'metric = "bytes_sent"', 'growth = "O(1)"')

    answer = insitu("check", heat, expectations(f"{GOOD}\n{text}"))

    assert answer.code == 2
    assert answer.lines[-1] == "3 met, 1 not judged"
    assert "no metric of solve named 'bytes_sent'" in answer.err


def test_exact_counts_come_before_times_that_contain_waiting(insitu, crowded, heat):
    overview, idle = insitu("models", crowded).out, insitu("models", heat).out

    of_solve = overview[overview.index("main->solve\n") :]
    assert of_solve.index("visits") < of_solve.index("crowded: ")
    assert " visits  " not in idle


def test_what_an_accepted_file_does_not_cover_is_noted(insitu, heat, tmp_path):
    file = tmp_path / "accepted.toml"
    insitu("check", heat, "--accept", str(file))
    header, *tables = file.read_text(encoding="utf-8").split("\n[[expect]]\n")
    others = [table for table in tables if "->exchange" not in table.splitlines()[0]]
    by_hand = [re.sub("accepted = .*", "", table) for table in others]

    complete = insitu("check", heat, str(file))
    file.write_text("\n[[expect]]\n".join([header, *others]), encoding="utf-8")
    without = insitu("check", heat, str(file))
    file.write_text("\n[[expect]]\n".join([header, *by_hand]), encoding="utf-8")
    of_user = insitu("check", heat, str(file))

    assert len(others) < len(tables)
    assert "no expectation for" not in complete.err
    assert "no expectation for main->solve->exchange" in without.err.replace("\n  ", " ")
    assert "no expectation for" not in of_user.err
