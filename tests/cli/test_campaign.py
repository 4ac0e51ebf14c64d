"""`insitu campaign` with real runs."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from insitu.campaign.attempts import AttemptRecord, append_attempt, read_attempts
from insitu.design.factorial import Point
from insitu.workflows.campaign import plan_campaign
from insitu.workflows.runner import NOT_MEASURED, run_command
from tests.support.listeners import until

ROOT = Path(__file__).resolve().parents[2]
PSIJ = Path(sys.prefix) / "psij" / "bin" / "python"
PROGRAM = """
import os, sys
from mpi4py import MPI
p, n = MPI.COMM_WORLD.size, int(sys.argv[1])
MPI.COMM_WORLD.allreduce(n)
if n == 32 and not os.path.exists("mended"):
    sys.exit(3)
"""
TOLD = """
[levels]
p = [1, 2]
n = [16, 32]
[run]
command = "app.py {n}"
"""
ON_ONE_RANK = TOLD.replace("[1, 2]", "[1]")
ONE_RUN = ON_ONE_RANK.replace("[16, 32]", "[16]")


@pytest.fixture
def campaign(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(PROGRAM)
    path = tmp_path / "app.insitu"
    path.mkdir(mode=0o700)
    (path / "campaign.toml").write_text(TOLD)
    return path


@pytest.mark.mpi
def test_campaign_goes_over_failures_resumes_and_runs_nothing_twice(insitu, campaign):
    (campaign.parent / "app.py").write_text(PROGRAM.replace("n == 32", "n == 16"))  # the first run
    (campaign / "campaign.toml").write_text(ON_ONE_RANK)

    planned = insitu("campaign", "plan", "app.insitu")
    assert planned.code == 0, planned.err
    assert "0 of 2 runs made" in planned.out

    first = insitu("campaign", "run", "app.insitu")
    assert first.code == 1
    assert first.err.count("failed with exit code 3") == 1
    assert "missing, failed: p=1, n=16" in first.err
    again = insitu("campaign", "run", "app.insitu")
    assert "…" not in again.err  # what failed is not tried again unasked

    (campaign.parent / "mended").touch()
    resumed = insitu("campaign", "resume", "app.insitu")
    assert resumed.code == 0, resumed.err
    assert resumed.err.count("…") == 1
    status = insitu("campaign", "status", "app.insitu", "--json")
    rows = [json.loads(line) for line in status.lines]
    assert [(row["done"], row["wanted"]) for row in rows] == [(1, 1)] * 2
    assert len(read_attempts(str(campaign))) == 3
    assert insitu("campaign", "run", "app.insitu").err.startswith("2 runs are in")

    assert insitu("omit", "app.insitu", "p=1,n=32").code == 0
    assert "p=1, n=32: 0 of 1 runs" in insitu("campaign", "status", "app.insitu").out


@pytest.mark.mpi
def test_run_that_takes_too_long_is_ended(insitu, campaign):
    (campaign.parent / "app.py").write_text("import time; time.sleep(60)")
    (campaign / "campaign.toml").write_text(ONE_RUN + "timeout_s = 1.5\n")
    answer = insitu("campaign", "run", "app.insitu")
    assert answer.code == 1
    assert answer.err.count("timed out after") == 1


@pytest.mark.mpi
def test_run_that_could_not_be_measured_counts_as_failed(insitu, campaign):
    (campaign / "campaign.toml").write_text(ONE_RUN.replace("app.py {n}", "true {n}"))

    answer = insitu("campaign", "run", "app.insitu", "--json")

    assert answer.code == 1
    assert answer.err.count("could not be measured (no rank of this run was measured: ") == 1
    (row,) = [json.loads(line) for line in answer.lines]
    assert row["code"] == NOT_MEASURED
    assert "true is not linked with a shared MPI library" in row["reason"]
    assert [attempt.code for attempt in read_attempts(str(campaign))] == [NOT_MEASURED]


def test_job_scripts_are_printed_and_nothing_is_started(insitu, campaign):
    answer = insitu("campaign", "plan", "app.insitu", "--launcher", "sbatch")
    assert answer.code == 0, answer.err
    assert re.findall(r"#SBATCH --ntasks=(\d)", answer.out) == ["1", "2"]
    assert answer.out.count("--dependency=singleton") == 2
    assert not (campaign / "jobs").exists()


def test_deduced_design_comes_with_its_check_points_and_enough_iterations(insitu, campaign):
    nests = {"sweep": [["n", "steps"]], "sum": [["p", "steps"]]}
    told = {
        "parameters": ["p", "n", "steps"],
        "iteration": "steps",
        "callpaths": [{"callpath": path, "nests": of} for path, of in nests.items()],
    }
    (campaign.parent / "deps.json").write_text(json.dumps(told))
    text = TOLD.replace("[16, 32]", "[16, 32]\nsteps = [2, 10, 20]").replace("{n}", "{n} {steps}")
    deduced = 'design = "deduced"\ndependencies = "deps.json"\n'
    (campaign / "campaign.toml").write_text(text.replace("[1, 2]", "[1, 2, 4]") + deduced)
    answer = insitu("campaign", "plan", "app.insitu", "--json")
    assert answer.code == 0, answer.err
    points = [tuple(json.loads(line)["params"].values()) for line in answer.lines]
    assert points == [(1, 16, 10), (1, 32, 10), (2, 16, 10), (4, 32, 10)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no table [levels]"),
        ("[run]\n[levels]", "needs a command"),
        ("[runs]", "unknown key 'runs'"),
        (
            TOLD.replace("{n}", "{n} {m}"),
            "names {m}, which is not a parameter; the parameters are p, n",
        ),
        (
            TOLD + 'sbatch = ["--cpus-per-task={n}"]',
            "'--cpus-per-task={n}' names {n}, which is replaced in command only",
        ),
        (TOLD + 'setup = ["export N={n}"]', "'export N={n}' names {n}"),
        (TOLD + 'design = "deduced"\ndependencies = "gone.json"', "create it with `insitu detect`"),
    ],
)
def test_campaign_file_that_has_no_meaning(insitu, campaign, text, said):
    (campaign / "campaign.toml").write_text(text)
    answer = insitu("campaign", "run", "app.insitu")
    assert answer.code in (2, 3)
    assert said in answer.err


def test_functions_and_iterations_of_a_campaign_are_those_of_each_of_its_runs(campaign):
    text = TOLD + 'only = ["solver.*", "step"]\npackages = ["gpaw"]\niterations = 5\n'
    (campaign / "campaign.toml").write_text(text)

    words = run_command(plan_campaign(str(campaign)), Point((("p", 2.0), ("n", 16.0))))

    options = words[: words.index("--")]
    assert [options[i + 1] for i, word in enumerate(options) if word == "--only"] == [
        "solver.*",
        "step",
    ]
    assert options[options.index("--package") + 1] == "gpaw"
    assert options[options.index("--iterations") + 1] == "5"


def test_attempt_that_was_cut_short_is_left_out(campaign):
    append_attempt(str(campaign), AttemptRecord({"p": 1.0}, 0.0, 2.0, 0))
    with (campaign / "logs" / "attempts.jsonl").open("a") as file:
        file.write('{"params": {"p": 2')
    assert [attempt.parameters for attempt in read_attempts(str(campaign))] == [{"p": 1.0}]


def lines_of(campaign, law, points):
    """Runs that were made elsewhere, for `insitu import`."""
    rows = [
        {"callpath": "app->work", "metric": "time_exclusive", "unit": "s", "value": law(p, n)}
        | {"params": {"p": p, "n": n}, "repetition": 0}
        for p, n in points
    ]
    file = campaign.parent / "runs.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


ADVISED = """
[levels]
p = [1, 2, 4, 8, 16]
n = [16, 32, 64, 128, 256]
[run]
command = "app.py {n}"
design = "advise"
predict = "p=64, n=1024"
"""
FIRST = [(1, 128), (2, 32), (4, 256), (8, 64), (16, 16)]


def test_first_runs_of_an_advised_campaign_differ_in_everything(insitu, campaign):
    (campaign / "campaign.toml").write_text(ADVISED)

    rows = [json.loads(line) for line in insitu("campaign", "plan", "app.insitu", "--json").lines]

    assert [(row["params"], row["done"]) for row in rows] == [({"p": 1, "n": 128}, 0)]


def test_advised_campaign_needs_jobs_that_can_hand_over_the_next(insitu, campaign):
    (campaign / "campaign.toml").write_text(ADVISED + 'timeout_s = 60\nlauncher = "psij:flux"\n')

    answer = insitu("campaign", "run", "app.insitu")

    assert answer.code == 2
    assert 'inside an allocation instead, with launcher = "flux"' in answer.err


@pytest.mark.parametrize(
    ("more", "ranks", "end"),
    [
        ("goal = 0.0001", {1, 2, 4, 8, 16}, ""),
        ("goal = 0.0001\nbudget_core_h = 40", {1, 2, 4, 8}, ""),  # 31 of them are spent
        (
            "goal = 0.0001\nbudget_core_h = 31.5",
            set(),
            "is not reached: each run that is left would exceed the budget of 31.5 core hours, of"
            " which 31 are spent",
        ),
        ("goal = 10.0", set(), ""),
    ],
)
def test_advised_campaign_goes_on_until_it_knows_enough_within_its_budget(
    insitu, campaign, more, ranks, end
):
    (campaign / "campaign.toml").write_text(ADVISED + more)
    file = lines_of(campaign, lambda p, n: 1 + n * n / p + 0.3 * n, FIRST)
    assert insitu("import", "app.insitu", str(file)).code == 0
    for p, n in FIRST:
        append_attempt(str(campaign), AttemptRecord({"p": p, "n": n}, 0.0, 3600.0, 0))

    said = insitu("campaign", "plan", "app.insitu")
    rows = [json.loads(line) for line in insitu("campaign", "plan", "app.insitu", "--json").lines]

    assert "h at p=64, n=1024, uncertainty" in said.out
    assert end in said.out and ("is not reached" in said.out) == bool(end)
    assert sum(row["done"] for row in rows) == 5
    asked = [row["params"]["p"] for row in rows if row["done"] < row["wanted"]]
    assert len(asked) == bool(ranks)
    assert set(asked) <= ranks
    if not ranks:
        ended = insitu("campaign", "run", "app.insitu")
        assert ended.code == 0
        assert "h at p=64, n=1024, uncertainty" in ended.err
        assert end in ended.err


@pytest.mark.full
@pytest.mark.mpi
@pytest.mark.skipif(not PSIJ.exists(), reason=f"no PSI/J in {PSIJ}: python3 bootstrap.py test")
def test_jobs_through_psij_of_this_machine(insitu, campaign):
    more = f"""launcher = "psij:local"
timeout_s = 60
psij = {{ python = "{PSIJ}" }}
setup = ["export PYTHONPATH={ROOT}"]
"""
    (campaign / "campaign.toml").write_text(TOLD.replace("[16, 32]", "[16]") + more)

    handed_over = insitu("campaign", "run", "app.insitu", "--json")
    assert handed_over.code == 0, handed_over.err
    assert [json.loads(line)["ranks"] for line in handed_over.lines] == [1, 2]
    assert insitu("campaign", "run", "app.insitu").code in (2, 3)  # they wait or run
    assert until(lambda: "job " not in insitu("campaign", "status", "app.insitu").out)

    logs = "".join(path.read_text() for path in (campaign / "jobs").glob("*.log"))
    assert insitu("campaign", "run", "app.insitu").err.startswith("2 runs are in"), logs
    assert len(read_attempts(str(campaign))) == 2


@pytest.mark.mpi
def test_two_at_once_make_each_run_once(insitu, campaign):
    (campaign / "campaign.toml").write_text(TOLD.replace("[16, 32]", "[16]"))
    words = [sys.executable, "-m", "insitu", "campaign", "run", str(campaign), "--wait", "--json"]
    both = [subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE) for _ in range(2)]

    said = [json.loads(line) for process in both for line in process.communicate()[0].splitlines()]

    assert sorted(row["params"]["p"] for row in said) == [1, 2]
    assert [process.returncode for process in both] == [0, 0]
