"""What the ranks of a pilot run passed to MPI, from tables whose every value is known."""

import os

from insitu.collectors.pilot_calls import read_pilot_calls
from insitu.collectors.table import MPI, PROGRAM, PYTHON, Row
from insitu.collectors.table_directory import user_directory
from tests.collectors.built_table import TIMES, build_table

KINDS = dict.fromkeys(TIMES, "all") | {
    "bytes_sent": "mpi",
    "bytes_received": "mpi",
    "comm_ranks": "mpi",
}
ROWS = [
    Row(0, PROGRAM, "app", "", 0),
    Row(0, PYTHON, "halo", "app.py", 1),
    Row(1, MPI, "MPI_Send", "", 0),
    Row(1, MPI, "MPI_Send", "", 0),  # of another thread, with the same call path
    Row(0, MPI, "MPI_Allreduce", "", 0),
    Row(0, MPI, "MPI_Init", "", 0),
]


def values(factor):
    return [
        {"visits": 1},
        {"visits": 4, "bytes_sent": 999},  # other memory, as this is no call of MPI
        {"visits": 4 * factor, "bytes_sent": 80},
        {"visits": 1, "bytes_sent": 16, "bytes_received": 24},
        {"visits": 2, "comm_ranks": 6},
        {"visits": 1},
    ]


def run_folder(base, name):
    path = base / os.path.basename(user_directory("")) / name
    path.mkdir(parents=True)
    return path


def test_bytes_count_in_words_and_rows_of_one_call_path_are_added(tmp_path):
    build_table(run_folder(tmp_path, "run"), ROWS, values(3), kinds=KINDS, rank=0, size=1)

    (counts,) = read_pilot_calls(str(tmp_path))

    # Both directions of a message count as the same words.
    assert counts == {
        ("app->halo->MPI_Send", "visits"): 13.0,
        ("app->halo->MPI_Send", "words"): 15.0,
        ("app->halo->MPI_Send", "ranks"): 0.0,
        ("app->MPI_Allreduce", "visits"): 2.0,
        ("app->MPI_Allreduce", "words"): 0.0,
        ("app->MPI_Allreduce", "ranks"): 6.0,
    }


def test_the_ranks_of_all_runs_are_counted_each_by_itself(tmp_path):
    for name, factors in (("b", (7,)), ("a", (3, 5))):
        folder = run_folder(tmp_path, name) if not (tmp_path / name).exists() else tmp_path / name
        for rank, factor in enumerate(factors):
            build_table(
                folder,
                ROWS,
                values(factor),
                kinds=KINDS,
                name=f"rank-{rank:06d}-1.table",
                rank=rank,
                size=len(factors),
            )

    visits = [counts["app->halo->MPI_Send", "visits"] for counts in read_pilot_calls(str(tmp_path))]

    assert visits == [13.0, 21.0, 29.0]


def test_columns_that_a_table_lacks_are_not_counted(tmp_path):
    kinds = dict.fromkeys(TIMES, "all") | {"bytes_sent": "mpi"}
    build_table(run_folder(tmp_path, "run"), ROWS, values(1), kinds=kinds, rank=0, size=1)

    (counts,) = read_pilot_calls(str(tmp_path))

    assert counts == {
        ("app->halo->MPI_Send", "visits"): 5.0,
        ("app->halo->MPI_Send", "words"): 12.0,
    }


def test_a_program_without_mpi_leaves_nothing(tmp_path):
    assert read_pilot_calls(str(tmp_path)) == []
