import json

import numpy as np
import pytest

from insitu.entities import TIME, CallPath, RunKey
from insitu.errors import UsageError
from insitu.modeling.measurement import RunTable
from insitu.server.discovery import WriterLock
from insitu.workflows.import_ import merge_tables
from tests.cli.conftest import Insitu


def lines(*rows: dict[str, object]) -> bytes:
    return "\n".join(map(json.dumps, rows)).encode()


def growing(metric: str = "time") -> bytes:
    return lines(
        *(
            {"callpath": "main", "metric": metric, "params": {"p": p}, "ranks": [2.0 * p] * p}
            for p in (1, 2, 4, 8, 16)
        )
    )


def model_texts(insitu: Insitu, campaign: str) -> dict[str, str]:
    rows = map(json.loads, insitu("models", campaign, "--json").lines)
    return {row["metric"]: row["text"] for row in rows}


def test_an_import_makes_the_campaign_and_its_models(insitu: Insitu):
    answer = insitu("import", "a.insitu", "-", given=growing())

    assert answer.code == 0
    assert "5 runs imported; 1 model, 1 class over p" in answer.out
    assert model_texts(insitu, "a.insitu") == {"time": "2 * p"}


def test_to_import_twice_does_no_harm(insitu: Insitu):
    insitu("import", "a.insitu", "-", given=growing())
    first = insitu("export", "a.insitu", "--to", "jsonl").out

    insitu("import", "a.insitu", "-", given=growing())

    assert insitu("export", "a.insitu", "--to", "jsonl").out == first


def test_metrics_may_come_in_files_of_their_own(insitu: Insitu):
    insitu("import", "a.insitu", "-", given=growing())

    insitu("import", "a.insitu", "-", given=growing("visits"))

    assert model_texts(insitu, "a.insitu") == {"time": "2 * p", "visits": "2 * p"}


def profile(seconds: float, metric: str = "time") -> bytes:
    """The json-split of Caliper of one rank."""
    data = {
        "columns": ["path", metric],
        "column_metadata": [{"is_value": False}, {"is_value": True}],
        "nodes": [{"label": "main"}],
        "data": [[0, seconds]],
    }
    return json.dumps(data).encode()


def test_profiles_that_do_not_say_which_repetition_they_are_are_repetitions(
    insitu: Insitu, tmp_path
):
    files = [tmp_path / name for name in ("a.json", "b.json", "c.json")]
    for number, file in enumerate(files):
        file.write_bytes(profile(1.0 + number))
    options = ("--from", "caliper-json")

    insitu("import", "a.insitu", str(files[0]), *options)
    both = insitu("import", "a.insitu", *map(str, files[1:]), *options)
    files[1].write_bytes(profile(7.0))
    again = insitu("import", "a.insitu", *map(str, files), *options)
    exported = insitu("export", "a.insitu", "--to", "jsonl").lines

    values = [json.loads(line)["ranks"] for line in exported if '"ranks"' in line]
    assert both.out.startswith("a.insitu: 2 runs imported")
    assert again.out.startswith("a.insitu: 3 runs imported")
    assert values == [[1.0], [7.0], [3.0]]
    assert "p=1#1 was imported before, with other values, which are replaced" in again.err


def test_a_profile_with_other_metrics_belongs_to_the_same_run(insitu: Insitu, tmp_path):
    (tmp_path / "a.json").write_bytes(profile(1.0))
    (tmp_path / "b.json").write_bytes(profile(4.0, "PAPI_TOT_INS"))
    files = [str(tmp_path / name) for name in ("a.json", "b.json")]

    insitu("import", "a.insitu", *files, "--from", "caliper-json")

    runs = [json.loads(line) for line in insitu("runs", "a.insitu", "--json").lines]
    assert [run["run"] for run in runs] == ["p=1#0"]


def test_replaced_values_of_another_file_are_noted(insitu: Insitu):
    row = {"callpath": "main", "params": {"p": 4}}
    insitu("import", "a.insitu", "-", given=lines(row | {"value": 1.0}))

    same = insitu("import", "a.insitu", "-", given=lines(row | {"value": 1.0}))
    other = insitu("import", "a.insitu", "-", given=lines(row | {"value": 2.0}))

    assert "imported before" not in same.err
    assert "p=4#0 was imported before, with other values" in other.err


def test_a_file_that_cannot_be_read_leaves_the_campaign_as_it_was(insitu: Insitu, tmp_path):
    (tmp_path / "a.json").write_bytes(profile(1.0))

    answer = insitu("import", "a.insitu", str(tmp_path / "a.json"), "b.json", "-f", "caliper-json")

    assert answer.code == 2
    assert "b.json: cannot be read" in answer.err
    assert not (tmp_path / "a.insitu").exists()


def test_exclusive_times_of_another_tool_are_imported_as_such(insitu: Insitu):
    rows = [
        {"callpath": path, "params": {"p": p}, "value": seconds * p}
        for p in (1, 2, 4)
        for path, seconds in (("main", 0.5), ("main->solve", 8.0))
    ]

    answer = insitu("import", "a.insitu", "-", "--exclusive", given=lines(*rows))
    models = [json.loads(line) for line in insitu("models", "a.insitu", "--json").lines]

    assert "is longer than that of its caller" not in answer.err
    assert {model["metric"] for model in models} == {"time_exclusive"}


def test_an_exported_campaign_imports_as_it_was(insitu: Insitu, heat: str):
    text = insitu("export", heat, "--to", "jsonl").out

    insitu("import", "again.insitu", "-", given=text.encode())

    assert insitu("models", "again.insitu", "--json").out == insitu("models", heat, "--json").out


def test_a_campaign_with_one_value_per_run_is_exported_for_another_import(insitu: Insitu):
    rows = [
        {"callpath": path, "params": {"p": p}, "value": float(p)}
        for p in (4, 8, 16)
        for path in ("main", "main->solve")
    ]
    insitu("import", "a.insitu", "-", given=lines(*rows))

    for file in ("a.jsonl", "a.parquet"):
        insitu("export", "a.insitu", "--output", file)
        answer = insitu("import", f"{file}.insitu", file)

        assert (answer.code, answer.err) == (0, "")
        assert model_texts(insitu, f"{file}.insitu") == {"time": "1 * p"}


def test_bad_lines_are_told_and_the_good_ones_kept(insitu: Insitu):
    answer = insitu("import", "a.insitu", "-", given=growing() + b"\n{oops\n" + b'{"value": "x"}\n')

    assert answer.code == 2
    assert "-: line 6: not JSON" in answer.err
    assert "-: line 7: \"value\" holds 'x', which is not a number" in answer.err
    assert "2 of 7 lines were skipped" in answer.err
    assert model_texts(insitu, "a.insitu") == {"time": "2 * p"}


def test_a_file_without_any_good_line_makes_no_campaign(insitu: Insitu):
    answer = insitu("import", "a.insitu", "-", given=b"p,time\n1,2\n")

    assert answer.code == 2
    assert "has no line that can be read; nothing was imported" in answer.err
    assert insitu("models", "a.insitu").code == 3


def test_another_number_of_ranks_than_before_is_refused(insitu: Insitu):
    insitu("import", "a.insitu", "-", given=lines({"params": {"p": 4}, "ranks": [1, 2, 3, 4]}))

    answer = insitu("import", "a.insitu", "-", given=lines({"params": {"p": 4}, "ranks": [1, 2]}))

    assert answer.code == 2
    assert "line 1: has values of 2 ranks, but p is 4" in answer.err


def test_an_import_of_an_older_version_with_other_ranks_is_not_mixed():
    """That took any number of values for a value of p."""
    path = (CallPath.parse("main"),)
    older, newer = (
        RunTable(path, (TIME,), {TIME.name: np.ones((1, n_ranks))}) for n_ranks in (2, 4)
    )

    with pytest.raises(UsageError, match="run p=4#0 has 4 ranks here, 2 in an earlier import"):
        merge_tables(older, newer, key=RunKey.of({"p": 4}), file="a.jsonl")


def test_too_few_scales_are_told(insitu: Insitu):
    insitu("import", "a.insitu", "-", given=lines({"params": {"p": 4}, "value": 1.0}))

    answer = insitu("models", "a.insitu")

    assert answer.code == 3  # as for every command that needs models
    assert answer.out == ""
    assert "models need 3 values of p, 1 measured so far" in answer.err


def test_refit_makes_the_same_models_again(insitu: Insitu):
    insitu("import", "a.insitu", "-", given=growing())
    before = insitu("models", "a.insitu", "--json").out

    answer = insitu("refit", "a.insitu", "--json")

    assert json.loads(answer.out) == {"models": 1, "classes": 1, "parameters": ["p"]}
    assert insitu("models", "a.insitu", "--json").out == before


def test_an_import_into_a_campaign_that_an_aggregator_has_is_refused(insitu: Insitu):
    insitu("import", "a.insitu", "-", given=growing())

    with WriterLock("a.insitu"):
        answer = insitu("import", "a.insitu", "-", given=growing("visits"))

    assert answer.code == 3
    assert "a.insitu" in answer.err
    assert model_texts(insitu, "a.insitu") == {"time": "2 * p"}


def regions(p: int) -> bytes:
    times = {"main()": 10 + p, "loop": 9 + p, "read": 1, "sort": 8 + p}
    return lines(
        *({"callpath": name, "params": {"p": p}, "value": value} for name, value in times.items())
    )


def test_a_flat_list_of_regions_is_stored_below_its_program(insitu: Insitu):
    answer = insitu("import", "a.insitu", "-", given=b"\n".join(map(regions, (4, 8, 16))))

    assert "by its times, main() contains the other regions" in answer.err
    assert set(model_texts_by_path(insitu, "a.insitu")) == {
        "(whole run)",
        "main()",
        "main()->read",
        "main()->loop",
        "main()->loop->sort",
    }
    assert model_texts_by_path(insitu, "a.insitu")["(whole run)"] == "10 + 1 * p"


def test_later_files_follow_the_call_paths_of_the_first_one(insitu: Insitu):
    insitu("import", "a.insitu", "-", given=regions(4))
    alone = {"callpath": "sort", "params": {"p": 8}, "value": 1}
    new = {"callpath": "write", "params": {"p": 8}, "value": 1}

    insitu("import", "a.insitu", "-", given=lines(alone, new))

    exported = map(json.loads, insitu("export", "a.insitu", "--to", "jsonl").lines)
    values = [row for row in exported if "callpath" in row]
    assert {row["callpath"] for row in values if row["params"]["p"] == 8} == {
        "main()->loop->sort",
        "main()->write",
    }


def model_texts_by_path(insitu: Insitu, campaign: str) -> dict[str, str]:
    rows = map(json.loads, insitu("models", campaign, "--json").lines)
    return {row["callpath"]: row["text"] for row in rows}


def test_times_without_those_of_called_functions_are_noted(insitu: Insitu):
    rows = [{"callpath": name, "params": {"p": 2}, "value": 2} for name in ("main", "main->a")]
    rows[1]["value"] = 3

    answer = insitu("import", "a.insitu", "-", given=lines(*rows))

    assert "the time of a is longer than that of its caller main; if" in answer.err


def test_imported_runs_have_no_duration(insitu: Insitu):
    insitu("import", "a.insitu", "-", given=regions(4))

    assert insitu("runs", "a.insitu").lines[0].endswith("complete")
    assert json.loads(insitu("runs", "a.insitu", "--json").lines[0])["seconds"] is None


def test_a_file_of_another_format_is_refused_in_a_few_lines(insitu: Insitu, tmp_path):
    (tmp_path / "notes.md").write_text("some words\n" * 50)

    answer = insitu("import", "a.insitu", "notes.md")

    assert answer.code == 2
    assert len(answer.err.splitlines()) == 5
    assert "47 more such lines" in answer.err


def test_exclusive_times_that_were_imported_as_inclusive_give_no_run_time(insitu: Insitu):
    rows = [
        {"callpath": path, "params": {"p": p}, "value": seconds * p}
        for p in (1, 2, 4, 8)
        for path, seconds in (("main", 0.5), ("main->solve", 8.0))
    ]
    insitu("import", "a.insitu", "-", given=lines(*rows))

    diagnosis = insitu("diagnose", "a.insitu").out
    predicted = insitu("predict", "a.insitu", "--at", "p=64").out

    assert "run time 4" not in diagnosis
    assert "solve takes longer than its caller main" in " ".join(diagnosis.split())
    assert "(whole run)" not in predicted


def test_mpi_calls_beside_the_program_do_not_hide_the_run_time(insitu: Insitu):
    """As in profiles of Caliper, whose outermost region begins after MPI_Init."""
    rows = [
        {"callpath": path, "params": {"p": p}, "value": seconds}
        for p in (1, 2, 4)
        for path, seconds in (("main", 50.0), ("main->solve", 49.0), ("MPI_Comm_dup", 2.0))
    ]
    insitu("import", "a.insitu", "-", given=lines(*rows))

    assert "run time 52 s at p = 4" in insitu("diagnose", "a.insitu").out


def test_a_run_time_names_the_values_of_all_parameters(insitu: Insitu):
    rows = [
        {"callpath": "main", "params": {"p": p, "n": n}, "value": p + 100.0 * n}
        for p in (1, 2, 4, 8, 16)
        for n in (1, 2, 4, 8, 16)
    ]
    insitu("import", "a.insitu", "-", given=lines(*rows))

    text = " ".join(insitu("diagnose", "a.insitu", "--at", "p=32,n=1000").out.split())

    assert "run time 1616 s at p = 16, n = 16 (without start-up)" in text
    assert "predicted: 1632 s at p = 32, n = 16" in text


def test_values_where_parameters_part_that_changed_together_are_unclear(insitu: Insitu):
    rows = [
        {"callpath": path, "params": {"p": p, "n": 10 * p}, "value": seconds}
        for p in (1, 2, 4, 8, 16)
        for path, seconds in (("main", 5.0 + p), ("main->solve", p), ("main->setup", 5.0))
    ]
    insitu("import", "a.insitu", "-", given=lines(*rows))

    apart = insitu("predict", "a.insitu", "--at", "p=16,n=10")
    together = insitu("predict", "a.insitu", "--at", "p=32,n=320")

    assert "unclear: p and n changed together" in apart.out
    assert "5.00 s" in apart.out or "5 s" in apart.out  # what nothing changes
    assert "predict p=16 with n=160" in apart.err
    assert "unclear" not in together.out
    assert "changed together" not in together.err


def test_a_point_may_name_a_parameter_that_never_changed_with_its_value_only(insitu: Insitu):
    rows = [
        {"callpath": "main", "params": {"p": p, "threads": 4}, "value": 3.0 * p}
        for p in (1, 2, 4, 8, 16)
    ]
    insitu("import", "a.insitu", "-", given=lines(*rows))

    same = insitu("predict", "a.insitu", "--at", "p=32,threads=4")
    other = insitu("predict", "a.insitu", "--at", "p=32,threads=8")
    unknown = insitu("predict", "a.insitu", "--at", "p=32,q=8")

    assert (same.code, other.code, unknown.code) == (0, 2, 2)
    assert "96" in same.out
    assert "threads was 4 in all runs, so no model knows what threads=8 changes" in other.err
    assert "the models have no parameter 'q'" in unknown.err
