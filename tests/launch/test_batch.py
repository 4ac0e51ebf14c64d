"""Job scripts, and what PSI/J would hand to batch systems that are not here."""

import sys
from pathlib import Path

import pytest

from insitu.errors import LaunchError
from insitu.launch.batch import BatchJob, Slurm
from insitu.launch.portable import PSIJ

PYTHON = Path(sys.prefix) / "psij" / "bin" / "python"
with_psij = pytest.mark.skipif(
    not PYTHON.exists(), reason=f"no PSI/J in {PYTHON}: python3 bootstrap.py test puts it there"
)


def job(campaign: Path, **more: object) -> BatchJob:
    return BatchJob(str(campaign), ranks=128, python="python3", minutes=30, **more)


def psij(campaign: Path, executor: str, **options: object) -> PSIJ:
    return PSIJ(str(campaign), executor, {"python": str(PYTHON), "per_node": 64} | options)


def test_blanks_in_the_path_of_a_campaign_do_not_divide_the_options_of_slurm(tmp_path):
    script = Slurm(str(tmp_path / "my heat")).script(job(tmp_path / "my heat"))

    assert f'#SBATCH --output="{tmp_path}/my heat/jobs/p128-%j.log"' in script.splitlines()


def test_a_job_that_waits_is_listed_with_the_reason(tmp_path, monkeypatch):
    """A job that is larger than the cluster waits like others, for ever."""
    tool = tmp_path / "squeue"
    tool.write_text(
        "#!/bin/sh\necho '7 7_[1-2%1] PENDING PartitionConfig'\necho '8 8 RUNNING None'\n"
    )
    tool.chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)

    jobs = Slurm(str(tmp_path)).queued_jobs()

    assert jobs == ["7_[1-2%1] PENDING (PartitionConfig)", "8 RUNNING"]


@pytest.fixture
def tool(tmp_path, monkeypatch):
    """Put a script in place of a command of Slurm."""
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")

    def write(name: str, text: str) -> None:
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o700)

    return write


def test_the_job_that_asks_is_not_among_those_it_would_wait_for(tmp_path, tool, monkeypatch):
    tool("squeue", "echo '7 7 RUNNING None'; echo '8 8 PENDING None'")
    monkeypatch.setenv("SLURM_JOB_ID", "7")

    assert Slurm(str(tmp_path)).queued_jobs() == ["8 PENDING"]


def test_an_accepted_job_is_known_by_its_number_on_any_cluster(tmp_path, tool):
    tool("sbatch", "echo '42;east'")

    assert Slurm(str(tmp_path)).submit(job(tmp_path)) == "42"
    assert (tmp_path / "jobs" / "p128.sh").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("echo 'invalid partition' >&2; exit 1", "p128.sh: invalid partition"),
        ("echo no; exit 1", "p128.sh: no"),
        ("echo submitted", "expected the id of the job, got 'submitted'"),
    ],
)
def test_what_sbatch_says_instead_of_a_number_is_passed_on(tmp_path, tool, answer, said):
    tool("sbatch", answer)

    with pytest.raises(LaunchError, match=said):
        Slurm(str(tmp_path)).submit(job(tmp_path))


def test_a_tool_that_cannot_be_started_is_named(tmp_path, tool):
    tool("sbatch", "")
    (tmp_path / "sbatch").write_text("#!/nowhere/sh\n")

    with pytest.raises(LaunchError, match=r"sbatch: .*No such file"):
        Slurm(str(tmp_path)).submit(job(tmp_path))


def test_without_slurm_no_job_is_submitted_and_none_is_queued(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(LaunchError, match="not a login node of a Slurm cluster"):
        Slurm(str(tmp_path)).submit(job(tmp_path))
    assert Slurm(str(tmp_path)).queued_jobs() == []


def test_a_python_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(LaunchError, match="/nowhere/python: no such Python; set psij"):
        PSIJ(str(tmp_path), "pbs", {"python": "/nowhere/python"}).preview(job(tmp_path))


def test_jobs_of_campaigns_of_one_name_do_not_wait_for_each_other(tmp_path):
    """Slurm runs jobs of one name one at a time, and squeue finds them by it."""
    names = []
    for folder in ("weak", "strong", "strong"):
        names.append(Slurm(str(tmp_path / folder / "my heat")).name)

    assert names[0] != names[1] == names[2]
    assert all(name.startswith("my-heat-") for name in names)


def test_array_carries_repetitions_of_one_size(tmp_path):
    slurm = Slurm(str(tmp_path), ["--partition=test"])
    several = job(tmp_path, rounds=3)

    assert slurm.command(job(tmp_path)) == ["sbatch", "--parsable", str(tmp_path / "jobs/p128.sh")]
    assert slurm.command(several)[2] == "--array=1-3%1"
    assert {"#SBATCH --ntasks=128", "#SBATCH --time=30", "#SBATCH --partition=test"} < set(
        slurm.script(several).splitlines()
    )


def test_script_that_the_user_changed_is_kept_and_shown(tmp_path):
    script = job(tmp_path)
    Path(script.write("first")).write_text("mine")

    script.write("second")

    assert Path(script.path).read_text() == "mine"
    assert Slurm(str(tmp_path)).preview(script).endswith("\nmine")


@with_psij
@pytest.mark.parametrize(
    ("executor", "lines"),
    [
        (
            "pbs",
            [
                "#PBS -l select=2:ncpus=64:mpiprocs=64",
                "#PBS -l walltime=0:30:0",
                "#PBS -q test",
                '#PBS -W "depend=afterany:7.server"',
                '#PBS -l "filesystems=home"',
            ],
        ),
        ("lsf", ["#BSUB -nnodes 2", "#BSUB -n 128", '#BSUB -q "test"', '#BSUB -w "7.server"']),
        ("slurm", ["#SBATCH --nodes=2", '#SBATCH --dependency="afterany:7.server"']),
    ],
)
def test_psij_renders_size_time_queue_and_order(tmp_path, executor, lines):
    system = psij(tmp_path, executor, queue_name="test", **{"pbs.l": "filesystems=home"})
    spec = system.spec(job(tmp_path), after="7.server")

    text = system._order("preview", spec=spec)["text"]

    assert set(lines) <= set(text.splitlines())
    assert f"/bin/bash {tmp_path}/jobs/p128.sh" in text


def test_flux_starts_an_instance_over_the_nodes_of_the_job(tmp_path):
    spec = psij(tmp_path, "flux").spec(job(tmp_path))

    assert [spec["executable"], *spec["arguments"]] == ["flux", "start", job(tmp_path).path]
    assert spec["resources"] == {"process_count": 2, "cpu_cores_per_process": 64}


@with_psij
def test_executor_that_is_not_there_says_what_it_lacks(tmp_path):
    with pytest.raises(LaunchError, match="executor flux: No module named 'flux'"):
        psij(tmp_path, "flux").submit(job(tmp_path))


def test_python_without_psij_says_what_to_install(tmp_path):
    with pytest.raises(LaunchError, match="-m pip install psij-python"):
        PSIJ(str(tmp_path), "pbs", {"python": sys.executable}).preview(job(tmp_path))
