"""Which rank a process is, by what launchers put into its environment, and how it ended."""

import sys

import pytest

from insitu.collectors import rank
from insitu.collectors.bootstrap import program_name, user_prefixes
from insitu.collectors.rank_end import find_problems, rank_end
from insitu.collectors.table import ENDED
from insitu.collectors.table_header import EMPTY_HEADER
from tests.collectors.measured import measure

MPIEXEC_IN_SBATCH = {
    "SLURM_PROCID": "0",
    "SLURM_NTASKS": "4",
    "SLURM_STEP_ID": "0",
    "PMI_RANK": "3",
    "PMI_SIZE": "4",
}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, None),
        ({"PMI_RANK": "2", "PMI_SIZE": "4"}, (2, 4)),
        ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "3"}, (1, 3)),
        ({"PMIX_RANK": "1", "OMPI_COMM_WORLD_SIZE": "3"}, (1, 3)),
        ({"SLURM_PROCID": "1", "SLURM_NTASKS": "2", "SLURM_STEP_ID": "7"}, (1, 2)),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "2"}, None),  # the batch script itself
        (MPIEXEC_IN_SBATCH, (3, 4)),
        ({"PMI_RANK": "x", "PMI_SIZE": "4"}, None),
        ({"PMI_RANK": "4", "PMI_SIZE": "4"}, None),
        ({"PMI_RANK": "2"}, None),
    ],
)
def test_the_rank_is_read_from_the_launchers_variables(environment, expected):
    info = rank.find_rank(environment)

    assert (info and (info.rank, info.size)) == expected


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, ""),
        ({"PMIX_NAMESPACE": "prterun-1@1"}, "PMIX_NAMESPACE=prterun-1@1"),
        ({"SLURM_JOB_ID": "12", "SLURM_STEP_ID": "3"}, "slurm=12.3"),
        ({"SLURM_JOB_ID": "12"}, ""),
    ],
)
def test_ranks_of_one_job_share_its_name(environment, expected):
    assert rank.job_name(environment) == expected


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["python", "dir/app.py", "-m"], "app.py"),
        (["python", "-O", "-W", "error", "app.py"], "app.py"),
        (["python", "-m", "package.tool", "x"], "package.tool"),
        (["python", "-c", "print()"], "-c"),
        (["python", "folder/"], "folder"),
        (["python", "-"], "-"),
        (["python"], "python"),
    ],
)
def test_the_root_of_all_call_paths_has_the_name_of_the_program(argv, expected):
    assert program_name(argv) == expected


def test_packages_that_the_user_names_are_a_part_of_the_program():
    prefixes = user_prefixes(["python", "app.py"], ["/env", ""], ("gpaw", "fem.mesh")).split("\n")

    assert prefixes == ["<stdin>", "/env/gpaw/", "/env/fem/mesh/"]


def test_the_package_of_dash_m_is_the_program_wherever_it_is_installed():
    prefixes = user_prefixes(["python", "-m", "package.tool"], ["/env", "/more"]).split("\n")

    assert prefixes == ["/env/package/", "/more/package/"]


@pytest.mark.parametrize("measures", ["native", "twin"])
@pytest.mark.parametrize(
    ("program", "status"),
    [
        ("import sys\ndef leave(): sys.exit(3)\nleave()", 3),
        ("raise SystemExit(4)", 4),
        ("import sys\ntry: sys.exit(5)\nexcept SystemExit as kept: other = kept\nsys.exit(6)", 6),
        ("import sys\ntry: sys.exit(7)\nexcept SystemExit: pass", 0),
    ],
)
def test_the_exit_status_of_a_program_is_stored(tmp_path, shared, measures, program, status):
    library = shared if measures == "native" else ""

    table = measure(tmp_path, sys.executable, program, library, prints="", status=status)

    assert (table.header.state, table.header.exit_status) == (ENDED, status)


def test_a_rank_that_restricted_itself_says_until_when_it_was_measured():
    head = EMPTY_HEADER._replace(
        stopped=b"it restricted its system calls (seccomp)".ljust(64, b"\0")
    )

    ((code, text),) = find_problems(head, rank_end(0, head))

    assert code == "measuring-stopped"
    assert "until it restricted its system calls (seccomp);" in text


@pytest.mark.parametrize(
    ("name", "advises"),
    [
        (b"", True),
        (b"libsolver.so.3", True),
        (b"ld-linux-x86-64.so.2", False),
        (b"libc.so.6", False),
    ],
)
def test_only_objects_of_the_user_are_to_be_compiled_with_unwind_tables(name, advises):
    head = EMPTY_HEADER._replace(stacks_unread=15, unread_object=name.ljust(40, b"\0"))

    ((code, text),) = find_problems(head, rank_end(0, head))

    assert code == "stacks-unread"
    assert ("compile it" in text) == advises


@pytest.mark.parametrize(
    ("taken", "timing", "budget", "text"),
    [
        (1000, 200, 0.02, "20% (18% to 23%)"),
        (1000, 25, 0.02, ""),  # perhaps 1.7 %
        (1000, 200, 0.25, ""),  # as the user allows
        (50, 40, 0.02, ""),  # half a second
        (0, 0, 0.02, ""),
    ],
)
def test_timing_that_certainly_takes_more_than_the_budget_is_a_finding(taken, timing, budget, text):
    head = EMPTY_HEADER._replace(
        state=ENDED, samples_taken=taken, samples_timing=timing, budget=budget
    )

    found = dict(find_problems(head, rank_end(0, head)))

    assert ("timing-costly" in found) == bool(text)
    assert text in found.get("timing-costly", "")
