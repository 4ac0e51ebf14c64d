"""The campaign on disk: formats, journals, faults."""

import errno
import os
import sqlite3
import stat
import zlib
from dataclasses import replace

import numpy as np
import pytest

from insitu import fit
from insitu.campaign import schema, vectors
from insitu.campaign.catalogue import open_catalogue
from insitu.campaign.database import connect_to_read, explain_errors
from insitu.campaign.layout import DATABASE
from insitu.campaign.run_values import read_headers
from insitu.campaign.store import SqliteStore, open_store
from insitu.campaign.stored_values import StoredValues
from insitu.entities import TIME, CallPath, RunKey, RunRecord, RunState
from insitu.errors import CampaignError
from insitu.modeling.base import Clusters, ModelSet, SeriesModel
from insitu.modeling.measurement import RunTable, SeriesKey

MAIN = CallPath(("main",))


@pytest.fixture
def path(tmp_path: os.PathLike[str]) -> str:
    return os.path.join(tmp_path, "heat.insitu")


def record(run_id: str) -> RunRecord:
    return RunRecord(run_id, RunKey.of({"p": 4}), RunState.COMPLETE)


def table(rows: int = 1) -> RunTable:
    paths = tuple(CallPath(("main", f"f{i}")) for i in range(rows))
    values = np.random.default_rng(7).random((rows, 4))
    return RunTable(paths, (TIME,), {"time": values})


def file_of(path: str) -> str:
    return os.path.join(path, DATABASE)


def limit_pages(store: SqliteStore, pages: int) -> None:
    store._connection.execute(f"PRAGMA max_page_count = {pages}")


def test_equal_rows_of_a_run_are_decompressed_once(path: str, monkeypatch):
    counts = np.array([[1.0, 1.0, np.nan, 2.0], [3.0, 3.0, 3.0, 3.0], [1.0, 1.0, np.nan, 2.0]])
    paths = tuple(CallPath(("main", f"f{i}")) for i in range(3))
    n_unpacked = []
    unpack_row = vectors.unpack_row
    monkeypatch.setattr(
        vectors, "unpack_row", lambda blob, size: n_unpacked.append(size) or unpack_row(blob, size)
    )
    with open_store(path, create=True) as store:
        store.add_run(record("r"), RunTable(paths, (TIME,), {"time": counts}))

        read = store.table("r")

    assert n_unpacked == [4, 4]
    np.testing.assert_array_equal(read.values["time"], counts)


def test_only_the_owner_can_access_a_campaign(path: str):
    open_store(path, create=True).close()

    assert stat.S_IMODE(os.stat(path).st_mode) == 0o700
    assert stat.S_IMODE(os.stat(file_of(path)).st_mode) == 0o600


def test_a_missing_campaign_is_refused_with_a_hint(path: str):
    with pytest.raises(CampaignError, match="no campaign here; measure one with `insitu run"):
        open_store(path)

    assert not os.path.exists(path)


def test_a_campaign_without_its_ending_is_suggested(tmp_path):
    open_store(str(tmp_path / "app.insitu"), create=True).close()

    with pytest.raises(CampaignError, match=r"no campaign here; did you mean .*app\.insitu\?"):
        open_store(str(tmp_path / "app"))


def test_a_file_of_another_tool_is_to_be_imported(tmp_path):
    (tmp_path / "models.json").write_text("{}")

    with pytest.raises(CampaignError, match=r"`insitu import .*models\.insitu .*models\.json`"):
        open_store(str(tmp_path / "models.json"))

    open_store(str(tmp_path / "models.insitu"), create=True).close()
    with pytest.raises(CampaignError, match=r"not a campaign; did you mean .*models\.insitu\?"):
        open_store(str(tmp_path / "models.json"))


def test_a_file_with_the_name_of_a_campaign_is_refused(path: str):
    with open(path, "w", encoding="utf-8") as file:
        file.write("x")

    with pytest.raises(CampaignError, match="is a file; name a directory"):
        open_store(path, create=True)


def test_a_newer_format_is_refused(path: str):
    open_store(path, create=True).close()
    with sqlite3.connect(file_of(path)) as connection:
        connection.execute("PRAGMA user_version = 7")

    with pytest.raises(CampaignError) as caught:
        open_store(path)

    assert str(caught.value) == (
        f"{path}: has format 7, but this insitu reads formats up to {schema.FORMAT};"
        " update insitu to read it"
    )


@pytest.mark.parametrize("content", [b"not a database" * 100, b"\0" * 4096])
def test_a_file_that_is_not_a_campaign_is_refused(path: str, content: bytes):
    os.mkdir(path)
    with open(file_of(path), "wb") as file:
        file.write(content)

    with pytest.raises(CampaignError, match="is not a campaign, or is damaged"):
        open_store(path)


def test_the_database_of_another_program_is_refused(path: str):
    os.mkdir(path)
    with sqlite3.connect(file_of(path)) as connection:
        connection.execute("CREATE TABLE bookmarks (url TEXT)")

    with pytest.raises(CampaignError, match="is not an insitu campaign"):
        open_store(path)


def test_a_full_disk_leaves_the_stored_data_intact(path: str):
    store = open_store(path, create=True)
    store.add_run(record("a"), table())
    limit_pages(store, 40)

    with pytest.raises(CampaignError, match=r"the disk is full; .* Free some space"):
        store.add_run(record("b"), table(2000))

    assert [run.id for run in store.runs()] == ["a"]
    limit_pages(store, 100_000)
    store.add_run(record("b"), table(2000))
    assert len(store.table("b").callpaths) == 2000


def test_a_second_process_reads_while_the_first_writes(path: str):
    writer = open_store(path, create=True)
    writer.add_run(record("a"), table())

    with writer._writing(), open_store(path) as reader:
        seen = [run.id for run in reader.runs()]

    assert seen == ["a"]


def test_a_reader_notices_that_another_process_wrote(path: str):
    writer, reader = open_store(path, create=True), open_store(path)
    before = reader.changes()

    writer.add_run(record("a"), table())

    assert reader.changes() != before


def test_damaged_values_are_refused(path: str):
    with open_store(path, create=True) as store:
        store.add_run(record("a"), table())
    with sqlite3.connect(file_of(path)) as connection:
        connection.execute("UPDATE vec SET blob = ?", (zlib.compress(b"torn"),))

    with pytest.raises(CampaignError, match="run 'a' is damaged"):
        open_store(path).table("a")


def test_damaged_values_of_the_first_format_are_refused_if_they_cannot_be_read(path: str):
    with open_store(path, create=True) as store:
        store.add_run(record("a"), table())
    with sqlite3.connect(file_of(path)) as connection:
        connection.execute("UPDATE vec SET blob = ?", (zlib.compress(b"torn"),))
        connection.execute("DELETE FROM checksum")

    with pytest.raises(CampaignError, match=r"4 bytes for 4 values"):
        open_store(path).table("a")


def test_statistics_are_stored_with_the_values(path: str):
    values = np.array([[1.0, 2.0, 9.0, np.nan]])
    with open_store(path, create=True) as store:
        store.add_run(record("a"), RunTable((MAIN,), (TIME,), {"time": values}))
        rows = store._connection.execute("SELECT n, min, median, mean, max FROM vec").fetchall()

    assert rows == [(3, 1.0, 2.0, 4.0, 9.0)]


def test_a_network_file_system_gets_no_write_ahead_log(path: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("insitu.campaign.database.is_local", lambda _: False)

    with open_store(path, create=True) as store:
        (mode,) = store._connection.execute("PRAGMA journal_mode").fetchone()

    assert mode == "truncate"


def test_models_that_another_process_wrote_are_replaced(path: str):
    clusters = Clusters(MAIN, "time", RunKey.of({"p": 4}), np.zeros(4, dtype=np.intp), ("all",))
    ours, theirs = open_store(path, create=True), open_store(path)
    models = ModelSet(("p",), (), (clusters,))
    ours.put_models(models)
    theirs.put_models(ModelSet(("n",)))

    ours.put_models(models)

    assert theirs.models().parameters == ("p",)
    assert len(theirs.models().clusters) == 1


def test_a_model_takes_less_than_a_kilobyte_and_equal_classes_are_stored_once(path: str):
    x = 2.0 ** np.arange(1, 11)
    noise = np.random.default_rng(5).normal(1, 0.02, (20, 10, 3))
    models = fit(x, (3 + x**0.5)[None, :, None] * noise)
    paths = [CallPath(("main", f"module{row}", f"function{row}")) for row in range(20)]
    series = [
        SeriesModel(SeriesKey(p, "time"), TIME, m) for p, m in zip(paths, models, strict=True)
    ]
    clusters = [
        Clusters(p, "time", RunKey.of({"p": size}), np.zeros(size, dtype=np.intp), ("all",))
        for p in paths
        for size in (2, 4)
    ]

    with open_store(path, create=True) as store:
        store.put_models(ModelSet(("p",), series, clusters))
        read = store.models()
        (largest,) = store._connection.execute("SELECT max(length(body)) FROM model").fetchone()
        (distinct,) = store._connection.execute("SELECT count(*) FROM classification").fetchone()

    written = {row.key: row.model for row in series}
    assert {row.key: row.model for row in read.models} == written
    assert {(c.callpath, c.run, c.names) for c in read.clusters} == {
        (c.callpath, c.run, c.names) for c in clusters
    }
    assert largest < 1000
    assert distinct == 2


def test_functions_keep_where_they_are_defined(path: str):
    sites = {MAIN: ("main.c", 3), CallPath(("main", "a->b")): ("it's.c", 2**40)}
    with open_store(path, create=True) as store:
        store.add_run(record("r"), replace(table(), sites=sites))
        connection = store._connection
        connection.execute("INSERT INTO campaign VALUES ('site x', '{'), ('sitf', '[\"f\", 1]')")
        connection.execute("INSERT INTO campaign VALUES ('site ', '[\"f\", 1, \"00\"]')")
        connection.execute("INSERT INTO campaign VALUES ('site old', '[\"old.c\", 7]')")

        read = store.sites()

    stored_path = CallPath(("main", "a→b"))
    assert read == {
        MAIN: ("main.c", 3),
        stored_path: ("it's.c", 2**40),
        CallPath(("old",)): ("old.c", 7),
    }


def test_rows_of_stored_values_are_those_of_the_whole_table(path: str):
    whole = table(5)
    whole.values["time"][2] = np.nan
    with open_store(path, create=True) as store:
        store.add_run(record("other"), table(3))
        store.add_run(record("r"), whole)
        header = {header.run_id: header for header in read_headers(store._connection, {})}["r"]

        values = StoredValues(path, header)
        matrix = values["time"]

    assert (list(values), len(values)) == (["time"], 1)
    assert (matrix.shape, len(matrix), matrix.nbytes) == ((5, 4), 5, 160)
    np.testing.assert_array_equal(np.asarray(matrix), whole.values["time"])
    np.testing.assert_array_equal(np.asarray(matrix, dtype="f4"), whole.values["time"].astype("f4"))
    for rows in ([4, 0, 0], [2], []):
        np.testing.assert_array_equal(matrix[rows], whole.values["time"][rows].reshape(-1, 4))
    with pytest.raises(KeyError, match="visits"):
        values["visits"]


def test_stored_values_are_checked_before_the_first_row_is_used(path: str):
    with open_store(path, create=True) as store:
        store.add_run(record("r"), table(2))
        (header,) = read_headers(store._connection, {})
        store._connection.execute("DELETE FROM vec WHERE callpath = 1")
    matrix = StoredValues(path, header)["time"]

    with pytest.raises(CampaignError, match=f"{path}: run 'r' is damaged .*checksum.*differs"):
        matrix[[1]]


def test_the_catalogue_agrees_with_the_store(path: str):
    with open_catalogue(path, create=True) as catalogue:
        assert (catalogue.runs(), catalogue.metric_names()) == ([], [])
    with open_store(path) as store:
        store.add_run(record("r"), table(3))
        store.add_run(record("s"), table(2))
        runs = store.runs()

    with open_catalogue(path) as catalogue:
        assert catalogue.runs() == runs
        assert catalogue.metric_names() == ["time"]
        assert sorted(map(str, catalogue.callpaths("r"))) == ["main->f0", "main->f1", "main->f2"]
        assert len(catalogue.callpaths("s")) == 2
        assert catalogue.callpaths("t") == []
        catalogue._connection.execute("UPDATE run SET callpaths = x'00'")
        with pytest.raises(CampaignError, match=f"{path}: run 'r' is damaged"):
            catalogue.callpaths("r")
    with pytest.raises(CampaignError, match="no campaign here"):
        open_catalogue(f"{path}2")


def test_errors_of_the_system_name_the_campaign_and_what_to_do(path: str):
    errors: dict[Exception, str] = {
        OSError(errno.ENOSPC, "x"): "disk",
        OSError(errno.EDQUOT, "x"): "disk",
    }
    errors |= {
        OSError(errno.EACCES, "Permission denied"): "Permission denied",
        OSError("odd"): "odd",
        sqlite3.ProgrammingError("Cannot operate on a closed database."): "closed",
    }

    for error, text in errors.items():
        with pytest.raises(CampaignError, match=f"^{path}: .*{text}"), explain_errors(path):
            raise error


def test_whoever_reads_a_damaged_database_learns_which_it_is(path: str):
    open_store(path, create=True).close()
    with open(file_of(path), "r+b") as file:
        file.write(b"x" * 4096)

    with pytest.raises(CampaignError, match=f"^{path}: campaign.db is not a campaign"):
        connect_to_read(path)
