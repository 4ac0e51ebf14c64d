"""Files in a diagnosis: planted growth is found with its law, healthy programs have none."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from insitu.analysis.diagnosis.lines import diagnosis_lines, last_lines, machine_line
from tests.analysis.programs import Vector, diagnose, on_rank_0, only_limit

ONCE: Mapping[str, Vector] = {"visits": lambda p: 1, "time_exclusive": lambda p: 1e-6}


def calls(**values: object) -> dict[str, Vector]:
    """The values of a call of a file: numbers, or functions of p."""
    given = {"files_opened": 0, "bytes_written": 0, "bytes_read": 0, "time_exclusive": 1e-6}
    vectors: dict[str, Vector] = {}
    for name, value in (given | values).items():
        vectors[name] = value if callable(value) else lambda p, value=value: value
    return vectors


def test_rank_0_that_writes_a_file_per_rank_is_a_limit():
    plan = {
        "app->main->checkpoint": ONCE,
        "app->main->checkpoint->open": calls(
            visits=lambda p: on_rank_0(10 * p, p), files_opened=lambda p: on_rank_0(10 * p, p)
        ),
        "app->main->checkpoint->write": calls(
            visits=lambda p: on_rank_0(10 * p, p), bytes_written=lambda p: on_rank_0(8000 * p, p)
        ),
    }

    limit = only_limit(diagnose(plan, crowded=True))

    assert (limit.kind, limit.name, limit.ranks) == ("files", "checkpoint", "rank 0")
    assert limit.text.startswith("rank 0 opens 10 p files")
    assert limit.seconds == pytest.approx(10 * 65_536 * 1e-3)


def test_a_rank_that_opens_the_files_of_all_others_is_a_limit_on_all_ranks():
    plan = {
        "app->main->restart": ONCE,
        "app->main->restart->open": calls(visits=lambda p: p, files_opened=lambda p: p),
    }

    diagnosis = diagnose(plan)
    limit = only_limit(diagnosis)

    assert (limit.kind, limit.ranks, limit.law) == ("files", "all", "p")
    assert " 1 ms to open a file, " in machine_line(diagnosis)
    assert "file" not in machine_line(diagnose({}))


def test_ranks_that_each_read_a_file_up_to_their_own_entry_are_a_limit_of_the_last_one():
    def read(p: int) -> np.ndarray:
        entries = 612_000 * np.arange(1, p + 1)
        in_buffers = np.ceil(entries / 491_520) * 491_520
        in_buffers[-1] = entries[-1]  # the end of the file
        return in_buffers

    plan = {
        "app->main->forcing": {"visits": lambda p: 60, "time_exclusive": lambda p: 1e-6},
        "app->main->forcing->read": calls(
            visits=lambda p: np.ceil(read(p) / 8192), bytes_read=read
        ),
    }

    limit = only_limit(diagnose(plan, (2, 4, 8, 12, 16), crowded=True))

    assert (limit.kind, limit.name, limit.law) == ("files", "forcing", "612 kB * p")
    assert limit.text.startswith("last rank reads 612 kB * p from files")


def test_files_that_each_rank_reads_for_all_others_are_told_on_four_scales_with_a_doubt():
    plan = {
        "app->main->restart": ONCE,
        "app->main->restart->read": calls(visits=lambda p: p, bytes_read=lambda p: 1e6 * p),
    }

    (statement,) = diagnose(plan, (1, 2, 4, 8)).statements

    assert (statement.kind, statement.status, statement.law) == ("files", "unclear", "1 MB * p")
    assert "unless these are files of neighbours in a grid: run p = " in statement.text


def test_rank_0_that_writes_the_data_of_all_ranks_is_a_limit_by_its_bytes():
    plan = {
        "app->main->write_output->write": calls(
            visits=lambda p: on_rank_0(20, p), bytes_written=lambda p: on_rank_0(4e6 * p, p)
        ),
    }

    limit = only_limit(diagnose(plan))

    assert (limit.kind, limit.name, limit.metric) == ("files", "write_output", "bytes_written")
    assert limit.text.startswith("rank 0 writes 4 MB * p to files")


@pytest.mark.parametrize("scales", [(1, 2, 3, 4), (1, 2, 3, 4, 6, 8)])
def test_one_file_more_in_each_run_may_be_what_earlier_runs_left(scales):
    def opened(p: int) -> np.ndarray:
        return on_rank_0(5 + scales.index(p), p)

    plan = {"app->main->backup": ONCE, "app->main->backup->fopen": calls(files_opened=opened)}

    in_order = diagnose(plan, scales)
    from_largest = diagnose(plan, scales[::-1])

    (statement,) = [entry for entry in in_order.statements if entry.kind == "files"]
    again = f"p = {scales[0]} again"
    assert (statement.status, statement.exact, statement.run) == ("unclear", False, again)
    assert statement.text.endswith(f", such as a numbered backup: run {again}")
    assert not any("backup: run" in entry.text for entry in from_largest.statements)


def test_files_that_do_not_grow_are_fine():
    plan = {
        "app->main->log->open": calls(
            visits=lambda p: on_rank_0(1, p), files_opened=lambda p: on_rank_0(1, p)
        ),
        "app->main->log->fprintf": calls(
            visits=lambda p: on_rank_0(500, p), bytes_written=lambda p: on_rank_0(20_000, p)
        ),
        "app->main->read_input->open": calls(visits=1, files_opened=1),
        "app->main->read_input->read": calls(visits=100, bytes_read=1e6),
        "app->main->checkpoint->open": calls(visits=10, files_opened=10),
        "app->main->checkpoint->write": calls(visits=10, bytes_written=1e8),
    }

    assert diagnose(plan).limits == ()


def test_imports_open_files_before_the_program_starts():
    imports = calls(visits=lambda p: 100 * p, files_opened=lambda p: 100 * p)

    assert diagnose({"app->(import)->open": imports}).limits == ()


def test_a_file_per_rank_is_a_limit_by_the_number_of_all_files():
    plan = {
        "app->main->checkpoint": {"visits": lambda p: 2, "time_exclusive": lambda p: 1e-6},
        "app->main->checkpoint->open": calls(visits=2, files_opened=2, files_own=2),
    }

    limit = only_limit(diagnose(plan))

    assert (limit.kind, limit.name, limit.metric) == ("files", "checkpoint", "files_own")
    assert limit.text.startswith("each rank opens files of its own, 2 p in all")
    assert limit.seconds == pytest.approx(2 * 65_536 * 1e-3)


def test_a_file_that_is_opened_again_is_one_more_only_on_one_rank():
    """There, no other rank tells the files of a rank from those that it opens."""
    own = calls(visits=5, files_opened=5, files_own=lambda p: 4 if p > 1 else 0)

    limit = only_limit(diagnose({"app->main->dump->fopen": own}, (1, 2, 4, 8), crowded=True))

    assert (limit.name, limit.metric, limit.law) == ("dump", "files_own", "4 p")


def test_a_file_that_all_ranks_share_is_no_limit():
    plan = {
        "app->main->read_input->open": calls(visits=1, files_opened=1, files_shared=1, files_own=0),
    }

    assert diagnose(plan).limits == ()


def shared_log(*, opened=100, written=2980, own=0):
    """Each rank opens one file that all share, appends to it, and closes it."""
    return {
        "app->main->log": {"visits": lambda p: 100, "time_exclusive": lambda p: 1e-6},
        "app->main->log->open": calls(
            visits=opened, files_opened=opened, files_shared=lambda p: float(p > 1), files_own=own
        ),
        "app->main->log->write": calls(visits=100, bytes_written=written),
    }


@pytest.mark.parametrize("scales", [(2, 3, 4, 6, 8, 12), (1, 2, 4, 8)])
def test_a_shared_file_that_all_ranks_open_again_and_again_to_write_is_a_limit(scales):
    """stepper_log.py of tests/evaluation."""
    limit = only_limit(diagnose(shared_log(), scales, crowded=True))

    assert (limit.kind, limit.name, limit.ranks) == ("files", "log", "all")
    assert limit.text.startswith("each rank opens and writes files that ranks share, 100 p times")


@pytest.mark.parametrize("plan", [{"opened": 4}, {"written": 0}, {"own": 1}])
def test_shared_files_of_checkpoints_and_input_are_no_limit(plan):
    diagnosis = diagnose(shared_log(**plan), (2, 3, 4, 6, 8, 12), crowded=True)

    assert not any("that ranks share" in entry.text for entry in diagnosis.statements)


def test_files_that_all_ranks_open_to_write_are_unclear_where_it_is_unknown_whose_they_are():
    plan = {
        "app->main->dump": {"visits": lambda p: 10, "time_exclusive": lambda p: 1e-6},
        "app->main->dump->open": calls(visits=10, files_opened=10),
        "app->main->dump->write": calls(visits=10, bytes_written=1000),
    }

    diagnosis = diagnose(plan)

    assert diagnosis.limits == ()
    [statement] = diagnosis.statements
    assert (statement.kind, statement.status, statement.name) == ("files", "unclear", "dump")
    assert "opens files to write them, 10 p in all" in statement.text
    assert statement.text.endswith("if each rank has its own")


def test_a_file_call_of_an_unchanged_program_belongs_to_the_function_that_makes_it():
    plan = {  # visits of functions are unknown
        "app->main->write_output->fwrite": calls(
            visits=lambda p: on_rank_0(10 * (p - 1), p),
            bytes_written=lambda p: on_rank_0(4e6 * (p - 1), p),
        ),
    }

    assert only_limit(diagnose(plan)).name == "write_output"


def test_files_that_were_not_measured_are_mentioned():
    text = "files: no call was measured; none was made, or the runs had --files off"
    opening = {"app->main->save->open": calls(visits=lambda p: 1, files_opened=lambda p: 1)}

    assert text in diagnose({}).notes
    assert text not in diagnose(opening).notes


def test_a_library_function_that_the_script_calls_belongs_to_the_script():
    """Nobody can change shutil.rmtree, and its file is none of the program."""
    plan = {
        "app->shutil.rmtree": ONCE,
        "app->shutil.rmtree->shutil._rmtree_safe_fd": ONCE,
        "app->shutil.rmtree->shutil._rmtree_safe_fd->open": calls(
            visits=lambda p: on_rank_0(300 * p, p), files_opened=lambda p: on_rank_0(0, p)
        ),
    }
    library = "/usr/lib/python3.11/shutil.py"
    sites = {
        "app->shutil.rmtree": (library, 722),
        "app->shutil.rmtree->shutil._rmtree_safe_fd": (library, 640),
    }

    limit = only_limit(diagnose(plan, crowded=True, sites=sites))

    assert (limit.kind, limit.callpath) == ("files", "app")
    assert limit.text.startswith("rank 0 calls open 300 p times in shutil.rmtree: ")


def test_the_end_of_a_run_shows_what_is_told_of_several_call_paths_once():
    opened = calls(visits=lambda p: on_rank_0(10 * p, p), files_opened=1)
    plan = {
        "app->main->log->open_file": ONCE,
        "app->main->log->open_file->fopen": opened,
        "app->main->state->open_file": ONCE,
        "app->main->state->open_file->fopen": opened,
    }

    diagnosis = diagnose(plan, crowded=True)
    (statement,) = diagnosis.statements
    twin = replace(statement, callpath="app->main->state->open_file")
    twice = replace(diagnosis, statements=(statement, twin))

    assert sum("open_file: rank 0 calls" in line for line in last_lines(twice)) == 1
    whole = "\n".join(diagnosis_lines(twice))
    assert "in app->main->log" in whole
    assert "in app->main->state" in whole


def test_files_that_a_function_opens_in_several_call_paths_are_added_up():
    def opened(files: int) -> dict[str, Vector]:
        return calls(visits=files, files_opened=files, files_own=files)

    plan = {
        "app->main->log->open_file": ONCE,
        "app->main->log->open_file->fopen": opened(1),
        "app->main->state->open_file": ONCE,
        "app->main->state->open_file->fopen": opened(3),
    }

    limit = only_limit(diagnose(plan, crowded=True))

    assert (limit.kind, limit.name, limit.law) == ("files", "open_file", "4 p")
    assert limit.text.startswith("each rank opens files of its own, 4 p in all in 2 call paths: ")


def test_ranks_that_list_the_files_of_all_are_a_limit():
    """heartbeats.py of tests/evaluation."""
    plan = {
        "app->main->count_alive": {"visits": lambda p: 400},
        "app->main->count_alive->readdir": calls(
            visits=lambda p: 400 * (p + 2), time_exclusive=lambda p: 4e-5 * (p + 2)
        ),
    }

    limit = only_limit(diagnose(plan, crowded=True))

    assert (limit.kind, limit.name, limit.ranks) == ("files", "count_alive", "all")
    assert limit.text.startswith("each rank reads 400 p + 800 entries of directories: ")


def test_files_without_a_law_that_a_function_opens_in_several_call_paths_are_added_up():
    scales = (1, 2, 3, 4, 6, 8)

    def opened(first: int) -> dict[str, Vector]:
        return calls(files_opened=lambda p: on_rank_0(first + scales.index(p), p))

    plan = {
        "app->main->log->back_up": ONCE,
        "app->main->log->back_up->fopen": opened(5),
        "app->main->state->back_up": ONCE,
        "app->main->state->back_up->fopen": opened(2),
    }

    (statement,) = [entry for entry in diagnose(plan, scales).statements if entry.kind == "files"]

    assert (statement.status, statement.now) == ("unclear", 10 + 7)
    assert statement.text.startswith("rank 0 opens 17 files in 2 call paths, growing as p^")
