"""`insitu detect` and `insitu design` with real programs."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import insitu.collectors
from tests.support.parameters import plain_and_full

SOLVER = """
import sys

def sweep(n, m):
    for i in range(n):
        for j in range(m):
            pass

def boundary(m):
    for i in range(m):
        pass

def main(n, m, steps):
    for step in range(steps):
        sweep(n, m)
        boundary(m)

main(*map(int, sys.argv[1:]))
"""
SOLVER_C = """
#include <stdlib.h>
#include <string.h>
volatile double sum;
__attribute__((noinline)) static void sweep(int n) { for (int i = 0; i < n * n; i++) sum += i; }
__attribute__((noinline)) static void fill(char *all, int n) { memset(all, 1, 64 * n); }
__attribute__((noinline)) static int walk(int n) { return n ? 1 + walk(n - 1) : 0; }
int main(int argc, char **argv) {
  int n = atoi(argv[argc - 1]);
  char *all = malloc(64 * n);
  sweep(n);
  fill(all, n);
  return all[walk(n) - 1] != 1;
}
"""

STEPS_C = """
#include <stdlib.h>
static double sum;
static void sweep(int n) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++)
      sum += i;
}
int main(int argc, char **argv) {
  int n = atoi(argv[1]), steps = atoi(argv[2]);
  for (int step = 0; step < steps; step++)
    sweep(n);
  return sum < 0;
}
"""
TRAP = """
import sys

def late(n, m):
    if n >= 50:
        for i in range(m):
            pass

def least(k):
    for i in range(min(k, 5)):
        pass

def plain(m):
    for i in range(m):
        pass

n, m, k = map(int, sys.argv[1:])
late(n, m)
least(k)
plain(m)
"""
LEVELS = [w for name in "nmk" for w in ("--levels", f"{name}=10,20,30")]


@pytest.fixture
def detected(insitu, tmp_path):
    (tmp_path / "solver.py").write_text(SOLVER)
    params = ("--param", "n=20,40,80", "--param", "m=10,30,50", "--param", "steps=3,6,9")
    words = (sys.executable, "solver.py", "{n}", "{m}", "{steps}")
    return insitu("detect", *params, "--json", "--", *words)


def test_dependencies_and_the_design_that_follows(insitu, detected):
    assert detected.code == 0, detected.err
    rows = {row["callpath"]: row for row in map(json.loads, detected.lines)}
    assert rows["solver.py->main->sweep"]["parameters"] == ["m", "n", "steps"]
    assert rows["solver.py->main->boundary"]["parameters"] == ["m", "steps"]
    assert {"m": "1", "n": "1", "steps": "1"} in rows["solver.py->main->sweep"]["nests"]

    levels = ("--levels", "n=100..1600:5", "--levels", "m=10,20,30", "--levels", "steps=100")
    design = insitu("design", "dependencies.json", *levels)
    assert design.code == 0, design.err
    assert "15 configurations, each once, with at least 5 iterations: 15 runs instead of 75" in (
        design.out
    )
    assert "steps acts linearly through the main loop" in design.out

    asked = insitu("design", "dependencies.json", *levels, "--method", "full", "--json")
    rows = [json.loads(line) for line in asked.lines]
    assert len(rows) == 15
    assert all(row["repetitions"] == 5 for row in rows)


def test_what_is_printed_for_people(insitu, tmp_path):
    (tmp_path / "solver.py").write_text(SOLVER)
    words = (sys.executable, "solver.py", "{n}", "4", "{steps}")
    answer = insitu("detect", "--param", "n=20,40,80", "--param", "steps=30,60,90", "--", *words)
    assert answer.code == 0, answer.err
    assert "main loop: solver.py->main, line" in answer.out
    assert "steps need not be varied" in answer.out
    assert "n * steps" in answer.out


def test_many_call_paths_that_do_little_are_not_listed(insitu, tmp_path):
    small = "".join(f"def f{i}(n):\n    for k in range(3): pass\n" for i in range(25))
    work = "def work(n):\n    for k in range(n * n): pass\n"
    calls = "work(n)\n" + "".join(f"f{i}(n)\n" for i in range(25))
    (tmp_path / "app.py").write_text(f"import sys\n{small}{work}n = int(sys.argv[1])\n{calls}")
    words = ("detect", "--param", "n=200,300,400")
    program = ("--", sys.executable, "app.py", "{n}")

    shown = insitu(*words, *program)

    assert shown.code == 0, shown.err
    assert "further call paths with less than 0.1 % of the work each; --json" in shown.out
    assert len([text for text in shown.out.split() if text.startswith("app.py->f")]) < 25
    assert sum("app.py->f" in row for row in insitu(*words, "--json", *program).lines) == 25


def test_instructions_of_a_compiled_program(insitu, tmp_path):
    if shutil.which("valgrind") is None:
        pytest.skip("no valgrind on this machine")
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler on this machine")
    (tmp_path / "solver.c").write_text(SOLVER_C)
    subprocess.run([compiler, "-O1", "-o", "solver", "solver.c"], cwd=tmp_path, check=True)
    answer = insitu("detect", "--param", "n=100,200,300", "--json", "--", "./solver", "{n}")
    assert answer.code == 0, answer.err
    rows = {row["callpath"]: row for row in map(json.loads, answer.lines)}
    assert rows["sweep"]["nests"] == [{"n": "2"}]
    assert rows["fill"]["parameters"] == ["n"]
    assert rows["walk"]["nests"] == [{"n": "1"}]
    assert not any("'" in path for path in rows)  # as valgrind names what is called within itself


@pytest.mark.full
def test_the_main_loop_of_a_compiled_program_can_be_declared(insitu, tmp_path):
    if shutil.which("valgrind") is None or shutil.which("cc") is None:
        pytest.skip("no valgrind or no C compiler: apt-get install valgrind gcc")
    (tmp_path / "steps.c").write_text(STEPS_C)
    subprocess.run(["cc", "-O1", "-o", "steps", "steps.c"], cwd=tmp_path, check=True)
    words = ("--param", "n=20,40,80", "--param", "steps=3,6,9")
    program = ("--", "./steps", "{n}", "{steps}")
    levels = ("--levels", "n=100..1600:5", "--levels", "steps=3..15:5")

    proposed = insitu("detect", *words, *program)
    without = insitu("design", "dependencies.json", *levels, "--json")
    in_design = insitu("design", "dependencies.json", *levels, "--iteration", "steps", "--json")
    declared = insitu("detect", *words, "--iteration", "steps", *program)
    with_loop = insitu("design", "dependencies.json", *levels, "--json")

    assert "give --iteration steps" in proposed.out
    assert "steps need not be varied" in declared.out
    assert len(without.lines) == 25
    assert len(with_loop.lines) == len(in_design.lines) == 5
    unknown = insitu("design", "dependencies.json", *levels, "--iteration", "q")
    assert "no parameter 'q'; there are n, steps" in unknown.err


@plain_and_full(
    ("compiler", "tool", "flag"),
    [("gcc", "gcov", "--coverage"), ("clang", "llvm-profdata", "-fprofile-instr-generate")],
)
def test_counters_of_a_compiler(insitu, tmp_path, compiler, tool, flag):
    for wanted in (compiler, tool):
        if shutil.which(wanted) is None:
            pytest.skip(f"no {wanted} on this machine")
    (tmp_path / "steps.c").write_text(STEPS_C)
    subprocess.run([compiler, flag, "-O1", "-o", "steps", "steps.c"], cwd=tmp_path, check=True)
    params = ("--param", "n=20,40,80", "--param", "steps=3,6,9")
    answer = insitu("detect", *params, "--", "./steps", "{n}", "{steps}")
    assert answer.code == 0, answer.err
    assert "main loop: main, " in answer.out
    rows = json.loads((tmp_path / "dependencies.json").read_text())["callpaths"]
    found = {row["callpath"]: row for row in rows}
    assert {"n": "2", "steps": "1"} in found["sweep"]["nests"]
    assert not list(tmp_path.glob("*.gcda"))  # the pilots leave nothing beside the program


@pytest.mark.full
def test_labels_propose_what_to_try_farther_out(insitu, tmp_path):
    (tmp_path / "trap.py").write_text(TRAP)
    params = ("--param", "n=20,30,40", "--param", "m=10,20,30", "--param", "k=10,20,30")
    words = ("--", sys.executable, "trap.py", "{n}", "{m}", "{k}")
    answer = insitu("detect", *params, "--taint", *words)
    assert answer.code == 0, answer.err
    lines = answer.lines
    assert "labelled only: n" in lines[lines.index(find(lines, "trap.py->late")) + 1]
    assert "n may matter in trap.py->late, though no count" in answer.out
    assert "k may matter in trap.py->least, though no count" in answer.out
    design = insitu("design", "dependencies.json", *LEVELS)
    assert "no call path depends on n" in design.out  # a label decides nothing

    far = ("--far", "n=60", "--far", "k=90", "--far", "m=99")
    answer = insitu("detect", *params, "--taint", *far, "--json", *words)
    rows = {row["callpath"]: row for row in map(json.loads, answer.lines)}
    assert rows["trap.py->late"]["nests"] == [{"m": None, "n": None}]
    assert rows["trap.py->late"]["labelled"] == []
    assert rows["trap.py->least"]["refuted"] == ["k"]
    assert rows["trap.py->plain"]["nests"] == [{"m": "1"}]  # m was not silent: not tried


COLLECTORS = Path(insitu.collectors.__path__[0])
BRANCHES = """
#include <stdlib.h>
#include <string.h>
static double *a;
__attribute__((noinline)) void work(int n) { for (int i = 0; i < n; i++) a[i] += i; }
__attribute__((noinline)) void fixed(int n) { for (int i = 0; i < 16; i++) a[i] += n; }
__attribute__((noinline)) void late(int n) {
  if (n < 40) return;
  for (int i = 0; i < n; i++) a[i] += 1;
}
int main(int count, char **words) {
  struct { char name[8]; int n; } stored, copy;
  stored.n = atoi(words[1]);
  memcpy(&copy, &stored, sizeof copy);
  a = calloc(100000, sizeof *a);
  work(copy.n), fixed(copy.n), late(copy.n);
  return 0;
}
"""


@pytest.fixture
def taint_program(tmp_path):
    """A program built with clang's DataFlowSanitizer [DET §2.1], beside one that gcov counts."""
    if not shutil.which("clang") or not shutil.which("gcov"):
        pytest.skip("no clang or no gcov")
    source = tmp_path / "app.c"
    source.write_text(BRANCHES)
    subprocess.run(["gcc", "--coverage", "-O0", source, "-o", "app"], cwd=tmp_path, check=True)
    flags = ["-O1", "-fno-inline", "-fsanitize=dataflow", "-mllvm", "-dfsan-conditional-callbacks"]
    ignored = f"-fsanitize-ignorelist={COLLECTORS / 'insitu_taint.txt'}"
    sources = [source, COLLECTORS / "insitu_taint.c"]
    built = subprocess.run(
        ["clang", *flags, ignored, *sources, "-o", "labelled"],
        cwd=tmp_path, check=False, capture_output=True, text=True,
    )  # fmt: skip
    if built.returncode:
        pytest.skip(f"clang has no DataFlowSanitizer: {built.stderr.splitlines()[0]}")
    return tmp_path / "labelled"


def test_branches_of_a_compiled_program_propose_what_to_try_farther_out(
    insitu, tmp_path, taint_program
):
    """[DET Fig. 2]: `unimportant` computes with the parameter, and no branch depends on it."""
    words = ("--taint-program", taint_program, "-o", tmp_path / "d.json")
    program = ("--", str(tmp_path / "app"), "{n}")

    near = insitu("detect", "--param", "n=5,10,15", *words, "--json", *program)
    far = insitu("detect", "--param", "n=5,10,15", *words, "--far", "n=64", "--json", *program)

    labelled = {row["callpath"]: row["labelled"] for row in map(json.loads, near.lines)}
    parameters = {row["callpath"]: row["parameters"] for row in map(json.loads, far.lines)}
    assert labelled == {"work": [], "fixed": [], "late": ["n"], "main": []}
    assert parameters == {"work": ["n"], "fixed": [], "late": ["n"], "main": []}


def test_a_program_without_labels_is_no_taint_program(insitu, tmp_path):
    answer = insitu(
        "detect", "--param", "n=5,10,15", "--taint-program", "/bin/true", "--", "true", "{n}"
    )

    assert answer.code == 2
    assert "was not built with insitu_taint.c" in answer.err


def find(lines, text):
    return next(line for line in lines if line.endswith(text))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--far", "n=20"), "the pilot runs have this value already; give a larger one"),
        (("--far", "n=50,60"), "expected one value, such as n=512"),
        (("--far", "q=50"), "no such parameter; the parameters are n"),
        (("--taint",), "follows values through Python programs; for a compiled"),
    ],
)
def test_what_cannot_be_tried_farther_out(insitu, words, message):
    if shutil.which("valgrind") is None:
        pytest.skip("valgrind is missing: apt-get install valgrind")

    answer = insitu("detect", "--param", "n=20,30,40", *words, "--", "true", "{n}")

    assert answer.code in (2, 6)
    assert message in answer.err


@pytest.mark.parametrize(
    ("program", "words", "code", "said"),
    [
        ("import sys; sys.exit(3)", "{n}", 6, "failed with exit code 3"),
        ("import time; time.sleep(60)", "{n}", 6, "took longer than 2 s and was ended"),
        ("1 / 0", "{n}", 6, "ZeroDivisionError"),
        ("pass", "8", 2, "the command does not contain {n}, so n would change nothing"),
        ("pass", "{n}{q}", 2, "names {q}, which is not a parameter; the parameters are n"),
        ("pass", "{n}{", 2, "parameters are written {n}"),
    ],
)
def test_pilot_that_cannot_be_used(insitu, tmp_path, program, words, code, said):
    (tmp_path / "app.py").write_text(program)
    command = (sys.executable, "app.py", words)
    limit_s = "2" if "sleep" in program else "60"
    answer = insitu("detect", "--timeout", limit_s, "--param", "n=1,2,3", "--", *command)
    assert answer.code == code
    assert said in answer.err
    assert not (tmp_path / "dependencies.json").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nowhere.json", "--levels", "n=1,2"), "create it with `insitu detect`"),
        (("here.json", "--levels", "n=1,2"), "not a file of `insitu detect`"),
        (("here.json", "--levels", "n"), "not NAME=VALUES"),
    ],
)
def test_design_that_cannot_be_made(insitu, tmp_path, arguments, said):
    (tmp_path / "here.json").write_text("{}")
    answer = insitu("design", *arguments)
    assert answer.code == 2
    assert said in answer.err


def test_advice_from_no_run_to_enough(insitu, tmp_path):
    laws = {"main": lambda p, n: 0.5, "main->work": lambda p, n: 1e-3 * n / p}
    levels = ("--levels", "p=1,2,4,8,16", "--levels", "n=100,200,400,800,1600")
    rows = []
    asked = None
    for _ in range(12):
        answer = insitu("advise", "c.insitu", "--at", "p=32,n=3200", *levels, "--json")
        assert answer.code == 0, answer.err
        (asked,) = map(json.loads, answer.lines)
        if asked["params"] is None:
            break
        rows += [
            json.dumps(
                {
                    "callpath": path,
                    "metric": "time_exclusive",
                    "unit": "s",
                    "params": asked["params"],
                    "value": law(**asked["params"]),
                }
            )
            for path, law in laws.items()
        ]
        shutil.rmtree(tmp_path / "c.insitu", ignore_errors=True)
        (tmp_path / "rows.jsonl").write_text("\n".join(rows) + "\n")
        assert insitu("import", "c.insitu", "rows.jsonl").code == 0
    assert asked is not None
    assert asked["params"] is None
    assert asked["uncertainty"] <= asked["goal"]
    assert asked["prediction"] == pytest.approx(0.5 + 0.1, rel=0.1)


def test_check_points_show_what_no_count_does(insitu, tmp_path):
    (tmp_path / "deps.json").write_text(
        json.dumps(
            {
                "parameters": ["p", "n", "m"],
                "ranks": "p",
                "callpaths": [
                    {"callpath": "main->work", "nests": [["n"]]},
                    {"callpath": "main->edge", "nests": [["m"]]},
                ],
            }
        )
    )
    words = ("deps.json", "--levels", "p=2", "--levels", "n=100..1600:5", "--levels", "m=1..16:5")
    planned = [json.loads(line) for line in insitu("design", *words, "--json").lines]
    assert [row["check"] for row in planned] == [False] * 5 + [True] * 2
    laws = {"main->work": lambda n, m: 0.01 * n, "main->edge": lambda n, m: 0.1 * m * n**0.25}

    def measured(rows, name):
        lines = [
            {
                "callpath": path,
                "metric": "time_exclusive",
                "unit": "s",
                "params": at,
                "value": value,
            }
            for at in (row["params"] for row in rows)
            for path, law in laws.items()
            for value in [law(at["n"], at["m"])]
        ]
        (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
        assert insitu("import", name, "rows.jsonl").code == 0

    measured(planned[:5], "half.insitu")
    early = insitu("design", *words, "--compare", "half.insitu")
    assert early.code == 2
    assert "nothing to compare yet; run p=2, n=800, m=1; p=2, n=100, m=8" in early.err

    measured(planned, "whole.insitu")
    compared = insitu("design", *words, "--compare", "whole.insitu", "--output", "more.json")
    assert compared.code == 0, compared.err
    assert "hidden-interaction: main->edge takes" in compared.out
    assert "25 configurations" in compared.out
    assert "main->work" not in compared.out
    assert "25 configurations" in insitu("design", "more.json", *words[1:]).out


def test_a_run_is_proposed_for_imported_inclusive_times_too(insitu, tmp_path):
    lines = tmp_path / "a.jsonl"
    rows = [
        {"callpath": path, "params": {"p": p}, "value": (1 + 0.1 * p) * factor}
        for p in (8, 16, 32, 64)
        for path, factor in (("main", 2.0), ("main->sort", 1.0))
    ]
    lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
    campaign = str(tmp_path / "a.insitu")
    insitu("import", campaign, str(lines))

    answer = insitu("advise", campaign)

    assert answer.code == 0
    assert "run next: p=" in answer.out


def test_runs_for_a_class_take_along_what_changed_with_the_number_of_ranks(insitu, tmp_path):
    """Ranks between two others exist from three ranks on; `n` is 10 p in all runs."""
    rows = []
    for p in (2, 3, 4):
        inner = [1, *[2] * (p - 2), 1]
        row = {"callpath": "main->halo", "params": {"p": p, "n": 10 * p}}
        rows.append({**row, "metric": "time_exclusive", "unit": "s", "ranks": [0.5] * p})
        rows.append({**row, "metric": "visits", "unit": "1", "ranks": inner})
    lines, campaign = tmp_path / "a.jsonl", str(tmp_path / "a.insitu")
    lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
    insitu("import", campaign, str(lines))

    answer = insitu("advise", campaign, "--count", "2")

    runs = [line for line in answer.lines if "of 5 values of p" in line]
    assert [re.findall("p=([0-9]+), n=([0-9]+)", line) for line in runs] == [
        [("8", "80")],
        [("16", "160")],
    ]


def test_a_prediction_that_is_far_too_uncertain_is_called_unclear(insitu, tmp_path):
    lines = tmp_path / "a.jsonl"
    times = {48: 54.9, 64: 40.4, 128: 21.9, 256: 12.4, 384: 9.8, 512: 6.9, 1024: 5.0, 2048: 4.0}
    rows = [{"callpath": "main", "params": {"nodes": n}, "value": t} for n, t in times.items()]
    lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
    campaign = str(tmp_path / "a.insitu")
    insitu("import", campaign, str(lines))

    answer = insitu("advise", campaign)

    assert "predicted from the runs so far: unclear at nodes=131072" in answer.out


@pytest.fixture
def far_target(insitu, tmp_path):
    """A campaign whose models predict nothing at 64 times its ranks, though its laws are near."""
    random = np.random.default_rng(5)
    rows = []
    for p in (32, 64, 128, 256, 512):
        for n in (5000, 6000, 7000, 8000, 9000):
            for repetition in (0, 1):
                value = 1e-3 * n * (20 + (p / 64) ** 0.5) * random.normal(1.0, 0.02)
                params = {"p": p, "n": n}
                row = {"callpath": "main", "params": params, "repetition": repetition}
                rows.append(row | {"value": value})
    lines = tmp_path / "a.jsonl"
    lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
    campaign = str(tmp_path / "a.insitu")
    insitu("import", campaign, str(lines))
    return campaign


def test_advise_predicts_no_run_time_where_predict_calls_it_unclear(insitu, far_target):
    predicted = insitu("predict", far_target, "--json")
    answer = insitu("advise", far_target)
    near = insitu("advise", far_target, "--at", "p=1024,n=9000")
    (row,) = map(json.loads, insitu("advise", far_target, "--json").out.splitlines())

    points = [json.loads(line)["predictions"][0] for line in predicted.out.splitlines()]
    assert {point["unclear"] for point in points} == {"unclear so far beyond the runs"}
    assert "unclear at p=32768, n=9000, so far beyond the runs\n" in answer.out
    assert "reveals most about main" in answer.out
    assert "uncertainty" not in answer.out
    assert (row["prediction"], row["uncertainty"], row["uncertainty_then"]) == (None, None, None)
    assert row["unclear"] == "unclear so far beyond the runs"
    assert "unclear" not in near.out


def test_advise_is_not_surer_of_a_run_time_than_predict(insitu, far_target):
    place = ("--at", "p=1024,n=9000", "--json")
    predicted = insitu("predict", far_target, *place)
    (row,) = map(json.loads, insitu("advise", far_target, *place).out.splitlines())

    (first, *_) = map(json.loads, predicted.out.splitlines())
    (point,) = first["predictions"]
    deviation = (point["high"] - point["low"]) / (2 * 1.96 * point["value"])
    assert deviation > row["goal"]
    assert row["uncertainty"] >= 0.99 * deviation
    assert row["params"] is not None  # another run is worth its cost


def test_the_report_gives_no_uncertainty_of_a_run_time_that_is_unclear(insitu, far_target):
    report = f"{far_target}.md"
    insitu("report", far_target, "--output", report)

    text = Path(report).read_text()
    assert "The run time at p=32768, n=9000 is unclear so far beyond the runs. Each run" in text
    assert "uncertainty of the run time" not in text


def test_the_next_run_of_a_program_in_n_factorial_takes_no_years(insitu, tmp_path):
    seconds = dict(zip(range(4, 10), (2e-5, 1.2e-4, 7e-4, 5e-3, 0.04, 0.36), strict=True))
    rows = [{"callpath": "main", "params": {"n": n}, "value": t} for n, t in seconds.items()]
    lines = tmp_path / "a.jsonl"
    lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
    campaign = str(tmp_path / "a.insitu")
    insitu("import", campaign, str(lines))

    advice = insitu("advise", campaign)
    diagnosis = insitu("diagnose", campaign)

    assert "run next: n=10;" in advice.out
    assert "takes about" not in advice.out  # the laws of proposals know no such growth
    assert "the run that helps most: n = 10\n" in diagnosis.out


def test_imports_of_one_value_for_all_ranks_do_not_say_that_ranks_behave_alike(insitu, far_target):
    report = f"{far_target}.html"
    written = insitu("report", far_target, "--output", report)
    classes = insitu("classes", far_target)

    text = Path(report).read_text()
    assert "All ranks behave alike" not in text
    assert "The runs have one value for all ranks: which of them differ is not known." in text
    assert "alike" not in classes.out
    assert "1 call path: the runs have one value for all ranks" in classes.out
    assert "<code>insitu advise</code> computes this" in text
    assert "1 model, 0 findings" in written.out
