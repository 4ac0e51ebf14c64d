"""What people are told after a run, and the words that people of mpiexec bring along."""

from insitu.entities import CallPath, Finding
from insitu.options import parse
from insitu.telling import folded, has_only_mpi, what_next
from tests.campaigns import heat_campaign


def test_np_is_the_number_of_ranks_as_for_mpiexec():
    assert parse(["-np", "4", "a.py"]).ranks == 4


def test_before_there_are_models_it_says_how_many_scales_are_missing(tmp_path):
    told = []
    for scales in ((1, 2), (1, 2, 4)):
        path = str(tmp_path / f"heat{len(scales)}.insitu")
        with heat_campaign(path, 1, scales) as store:
            last = store.runs()[-1]
        told.append(what_next(last, path))

    assert "3 scales, 2 measured so far: run it with other numbers of ranks" in told[0]
    assert told[1].startswith("its models: insitu models")


def test_a_program_of_which_only_mpi_was_seen_is_told_from_others():
    mpi = [CallPath.parse(text) for text in ("app", "app->MPI_Init", "app->MPI_Send")]

    assert has_only_mpi(mpi)
    assert not has_only_mpi([*mpi, CallPath.parse("app->solve")])
    assert not has_only_mpi(mpi[:1])
    assert has_only_mpi([*mpi, CallPath.parse("app->(thread)")])


def test_what_many_ranks_say_is_said_once():
    alone = [Finding("mpi-singletons", "alone", f"rank {rank}") for rank in range(6)]

    lines = folded([*alone, Finding("throttled", "f")])

    assert lines == [
        "mpi-singletons: alone (rank 0, rank 1, rank 2, rank 3 and 2 more)",
        "throttled: f",
    ]
