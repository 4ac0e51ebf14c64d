"""The command line of each run of a campaign."""

from pathlib import Path

import pytest

from insitu.design.factorial import Point
from insitu.workflows.campaign import plan_campaign
from insitu.workflows.runner import run_command

PLAN = """
[levels]
p = [4]
n = [64]
[run]
command = "app.py {n}"
launcher = "%s"
srun = ["--exclusive"]
flux = ["--exclusive"]
packages = ["gpaw"]
"""


@pytest.mark.parametrize(
    ("launcher", "words"),
    [
        ("srun", ["--", "srun", "-n", "4", "--exclusive"]),
        ("flux", ["--", "flux", "run", "-n", "4", "--exclusive"]),
        ("mpiexec", ["-n", "4", "--"]),
    ],
)
def test_each_launcher_gets_the_ranks_and_its_own_options(tmp_path: Path, launcher, words):
    path = tmp_path / "app.insitu"
    path.mkdir(mode=0o700)
    (path / "campaign.toml").write_text(PLAN % launcher)
    plan = plan_campaign(str(path))

    command = run_command(plan, Point.of({"p": 4, "n": 64}, ("p", "n")))

    begin = command.index("--package")
    assert command[begin : begin + 2] == ["--package", "gpaw"]
    assert command[begin + 2 : -3] == words
    assert command[-2:] == ["app.py", "64"]
