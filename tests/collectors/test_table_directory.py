"""Where the tables of a run are."""

import os
import stat

import pytest

from insitu.collectors import table_directory
from insitu.collectors.table_directory import (
    base_directories,
    directory_name,
    make_run_directory,
    remove_if_empty,
    run_directories,
    table_names,
    table_path,
    user_directory,
)


@pytest.fixture
def bases(tmp_path, monkeypatch):
    """Two base directories instead of those of the machine."""
    paths = [str(tmp_path / "first"), str(tmp_path / "second")]
    monkeypatch.delenv("INSITU_TABLES", raising=False)
    monkeypatch.setattr(table_directory, "DEFAULT_BASES", (*paths, paths[0]))
    for path in paths:
        os.mkdir(path)
    return paths


def test_the_user_may_name_the_only_base_directory(bases, monkeypatch):
    assert base_directories() == bases
    monkeypatch.setenv("INSITU_TABLES", "/scratch")

    assert base_directories() == ["/scratch"]


def test_each_user_has_a_directory():
    assert user_directory("/dev/shm") == f"/dev/shm/insitu-{os.getuid()}"


def test_the_directory_of_a_run_has_the_number_of_the_pid_namespace(tmp_path, monkeypatch):
    link = tmp_path / "pid"
    link.symlink_to("pid:[4026531836]")
    monkeypatch.setattr(table_directory, "PID_NAMESPACE", str(link))
    assert directory_name("abc") == "abc-4026531836"

    monkeypatch.setattr(table_directory, "PID_NAMESPACE", str(tmp_path / "none"))
    assert directory_name("abc") == "abc"


def test_the_directory_of_a_run_is_private_and_on_the_first_base_that_can_hold_it(bases):
    path = make_run_directory("abc")

    assert path == os.path.join(user_directory(bases[0]), directory_name("abc"))
    for directory in (path, os.path.dirname(path)):
        assert stat.S_IMODE(os.stat(directory).st_mode) == 0o700
    assert make_run_directory("abc") == path


def test_another_base_serves_where_the_first_cannot(bases):
    os.mkdir(user_directory(bases[0]))
    os.chmod(user_directory(bases[0]), 0o755)  # others can enter it

    assert make_run_directory("abc").startswith(user_directory(bases[1]))
    os.rmdir(bases[1] + f"/insitu-{os.getuid()}/{directory_name('abc')}")
    os.chmod(user_directory(bases[1]), 0o755)
    with pytest.raises(PermissionError) as raised:
        make_run_directory("abc")
    assert raised.value.filename == user_directory(bases[1])


def test_only_an_empty_directory_is_removed(tmp_path):
    empty, full = tmp_path / "empty", tmp_path / "full"
    for directory in (empty, full):
        directory.mkdir()
    (full / "rank-000000-1.table").touch()

    for directory in (empty, full, tmp_path / "none"):
        remove_if_empty(str(directory))

    assert os.listdir(tmp_path) == ["full"]


def test_the_runs_of_all_bases_are_listed_by_age(bases):
    paths = [os.path.join(user_directory(bases[i % 2]), f"run-{i}") for i in range(4)]
    for path, age in zip(paths, (30, 10, 40, 20), strict=True):
        os.makedirs(path)
        os.utime(path, (1e9 - age, 1e9 - age))
    with open(os.path.join(user_directory(bases[0]), "file"), "w", encoding="ascii"):
        os.symlink(paths[0], os.path.join(user_directory(bases[0]), "link"))

    assert run_directories() == [paths[2], paths[0], paths[3], paths[1]]


def test_bases_without_runs_are_skipped(bases):
    path = make_run_directory("abc")
    os.rename(bases[0], bases[0] + ".away")
    os.rename(bases[0] + ".away", bases[1] + "/moved")

    assert run_directories() == []
    assert path.startswith(bases[0])


def test_only_tables_are_listed_in_order(tmp_path):
    for name in ("rank-000001-5.table", "rank-000000-7.table", "agent.log", "table"):
        (tmp_path / name).touch()

    assert table_names(str(tmp_path)) == ["rank-000000-7.table", "rank-000001-5.table"]
    assert table_names(str(tmp_path / "none")) == []


def test_a_process_that_replaces_itself_gets_another_table(tmp_path):
    stem = f"rank-000012-{os.getpid()}"
    for name in (f"{stem}.table", f"{stem}-2.table", f"{stem}-3.table"):
        path = table_path(str(tmp_path), 12)
        assert path == str(tmp_path / name)
        (tmp_path / name).touch()
