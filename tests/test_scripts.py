"""Benchmarks, evaluation and stress scripts work: all can be imported, and most run, small.

Scripts that need an MPI library, a browser, other tools or minutes are only imported here; their
folders' tests and `bootstrap.py bench`, `evaluate` and `chaos` run them.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent
FOLDERS = ("evaluation", "benchmarks", "stress")
OF_OTHER_PROGRAMS = ("formats_extrap", "formats_hatchet", "growth_extrap")  # need their packages

# The smallest sizes of scripts that need nothing but insitu, or say what is missing. The first of
# each folder is in the plain suite.
SMALL = {
    "evaluation": [
        "limits --count 20",
        "healthy --count 3",
        "planted --count 3",
        "second_campaigns --count 2 --only none growth",
        "growth --count 1 --only one mixed short",
        "several --count 1 --parameters 2",
        "expectations --count 20 --alone 2 --several 2",
        "forecast --campaigns 1 --paths 3",
        "noise --campaigns 1 --series 4 --kinds normal",
        "off_space --count 2",
        "close_scales --count 1",
        "off_space_several --count 1 --seed 1 --values 3",
        "class_shapes --populations polling",
        "sampled --campaigns 1 --seed 1",
        "real MEASUREMENTS",
        "newest_points MEASUREMENTS",
        "held_out --only pair_costs --scales 2",
    ],
    "benchmarks": [
        "refit --series 40 --turns 1",
        "calls --rounds 1 --blocks 1 --tools insitu cProfile",
        "sample_shift --ranks 1 --steps 1",
    ],
    "stress": ["fuzz --runs 5"],
}

# These take 6 to 11 s of a processor each; the others of the evaluation 20 s together.
LONG = [
    "tail --count 1 --cases nothing law",
    "grid_changes --count 2",
    "first_zero --count 1 --seed 1",
    "class_gradients --campaigns 1 --paths 1",
]

# Runs scripts one after the other in one process, since numpy and scipy take long to import.
RUNNER = """
import contextlib, io, json, runpy, sys
folder, name, commands = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
sys.path.insert(0, folder)
for command in commands:
    script, *arguments = command.split()
    sys.argv = [script, *arguments]
    output = io.StringIO()
    try:
        with contextlib.redirect_stdout(output):
            runpy.run_path(f"{folder}/{script}.py", run_name=name)
    except SystemExit as end:
        if end.code:
            sys.exit(f"{command}: {end.code}")
    except BaseException:
        print(command, file=sys.stderr)
        raise
    if name == "__main__" and not output.getvalue().strip():
        sys.exit(f"{command}: prints nothing")
"""


def run_commands(folder: str, name: str, commands: list[str]) -> None:
    """Run the scripts in a fresh interpreter; `name` is `__main__`, or else they are imported."""
    arguments = [str(ROOT / folder), name, json.dumps(commands)]
    run = subprocess.run(
        [sys.executable, "-c", RUNNER, *arguments], cwd=ROOT.parent, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_script_can_be_imported(folder):
    scripts = [path.stem for path in sorted((ROOT / folder).glob("*.py"))]
    own = [
        script
        for script in scripts
        if not script.startswith(("test_", "__")) and script not in OF_OTHER_PROGRAMS
    ]

    run_commands(folder, "imported", own)


def small_commands() -> list[object]:
    """Folders with their commands: the first one of each, then the others, which need `--full`."""
    first = [pytest.param(folder, SMALL[folder][:1], id=folder) for folder in FOLDERS]
    others = [
        pytest.param(folder, SMALL[folder][1:], id=f"{folder}, others", marks=pytest.mark.full)
        for folder in FOLDERS
    ]
    return [*first, *others]


@pytest.mark.parametrize(("folder", "commands"), small_commands())
def test_scripts_run_at_their_smallest_size(folder, commands, tmp_path):
    measurements = tmp_path / "measurements.jsonl"
    series = {"dataset": "d", "callpath": "main", "metric": "time", "unit": "s", "params": ["p"]}
    points = [[2], [4], [8], [16], [32]]
    values = [[1.0 + point[0]] * 2 for point in points]
    measurements.write_text(json.dumps(series | {"points": points, "values": values}))

    written = [text.replace("MEASUREMENTS", str(measurements)) for text in commands]
    run_commands(folder, "__main__", written)


@pytest.mark.full
@pytest.mark.parametrize("command", LONG)
def test_scripts_of_the_evaluation_that_take_longer_run_at_their_smallest_size(command):
    run_commands("evaluation", "__main__", [command])


@pytest.mark.parametrize("script", OF_OTHER_PROGRAMS)
def test_scripts_of_other_programs_name_what_they_lack(script):
    # Without site packages nothing is installed, on every machine.
    path = ROOT / "evaluation" / f"{script}.py"
    run = subprocess.run([sys.executable, "-S", path], capture_output=True, text=True)

    assert run.returncode == 1
    assert "Traceback" not in run.stderr
    assert script in run.stderr
