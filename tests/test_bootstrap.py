"""bootstrap.py: what it refuses, what it does again, and what it leaves alone."""

import importlib.metadata
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
OLD = sorted(Path("~/.pyenv/versions").expanduser().glob("3.[6-9].*/bin/python"))
OLD += sorted(Path("~/.pyenv/versions").expanduser().glob("3.10.*/bin/python"))


@pytest.fixture
def bootstrap(tmp_path, monkeypatch):
    """The module, for a small checkout in a folder of its own."""
    spec = importlib.util.spec_from_file_location("bootstrap", ROOT / "bootstrap.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (tmp_path / "collectors" / "native").mkdir(parents=True)
    (tmp_path / "insitu").mkdir()
    for name in ("pyproject.toml", "CMakeLists.txt", "requirements-dev.lock"):
        (tmp_path / name).write_text(name)
    (tmp_path / "collectors" / "native" / "hook.c").write_text("int hook;")
    for name, place in (
        ("HERE", ""),
        ("ENVIRONMENT", ".venv"),
        ("PYTHON", ".venv/bin/python"),
        ("LOCK", "requirements-dev.lock"),
        ("LOG", ".venv/bootstrap.log"),
        ("STAMP", ".venv/bootstrap.stamp"),
    ):
        monkeypatch.setattr(module, name, tmp_path / place)
    return module


@pytest.mark.parametrize("arguments", [[], ["frobnicate"]])
def test_without_a_job_it_explains_itself(arguments):
    done = subprocess.run(
        [sys.executable, ROOT / "bootstrap.py", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 2
    assert "python3 bootstrap.py demo" in done.stdout


@pytest.mark.skipif(not OLD, reason="there is no Python 3.6 to 3.10 in ~/.pyenv/versions")
def test_an_older_python_is_told_what_to_do():
    for python in OLD:
        done = subprocess.run(
            [python, ROOT / "bootstrap.py", "test"], capture_output=True, text=True, check=False
        )

        assert done.returncode == 1, python
        assert "insitu needs Python 3.11 or newer" in done.stderr, python
        assert "Traceback" not in done.stderr, python


def test_an_installed_environment_is_left_alone(bootstrap, monkeypatch):
    monkeypatch.setattr(bootstrap, "works", lambda: True)
    state = {
        "packages": bootstrap.digest([bootstrap.LOCK]),
        "insitu": bootstrap.digest([bootstrap.LOCK, *bootstrap.build_inputs()]),
    }
    bootstrap.ENVIRONMENT.mkdir()
    bootstrap.STAMP.write_text("".join(f"{name} {value}\n" for name, value in state.items()))

    bootstrap.set_up()

    assert not bootstrap.LOG.exists()


@pytest.mark.parametrize(
    ("changed", "stale"),
    [
        ("collectors/native/hook.c", {"insitu"}),
        ("CMakeLists.txt", {"insitu"}),
        ("pyproject.toml", {"insitu"}),
        ("requirements-dev.lock", {"insitu", "packages"}),
        ("insitu/new.py", {"insitu"}),
    ],
)
def test_what_changed_is_done_again(bootstrap, tmp_path, changed, stale):
    def wanted():
        return {
            "packages": bootstrap.digest([bootstrap.LOCK]),
            "insitu": bootstrap.digest(
                [bootstrap.LOCK, *bootstrap.build_inputs()], bootstrap.modules()
            ),
        }

    before = wanted()
    (tmp_path / changed).write_text("something else")

    after = wanted()
    assert {name for name in before if before[name] != after[name]} == stale


def test_a_moved_environment_does_not_work(bootstrap):
    bootstrap.PYTHON.parent.mkdir(parents=True)
    bootstrap.PYTHON.symlink_to(sys.executable)  # its prefix is another

    assert not bootstrap.works()


def test_a_failing_step_ends_with_its_last_lines(bootstrap, capsys):
    bootstrap.ENVIRONMENT.mkdir()
    command = [sys.executable, "-c", "print('no matching distribution'); raise SystemExit(1)"]

    with pytest.raises(SystemExit, match="setting up failed"):
        list(bootstrap.logged(command))

    assert "no matching distribution" in capsys.readouterr().err


def test_jobs_find_the_programs_of_the_environment_first(bootstrap):
    assert bootstrap.activated()["PATH"].split(os.pathsep)[0] == str(bootstrap.ENVIRONMENT / "bin")


def test_the_lock_names_what_its_packages_need():
    lock = (ROOT / "requirements-dev.lock").read_text(encoding="utf-8")
    pinned = re.findall(r"^([\w.-]+)==([\w.]+)(.*)$", lock, re.MULTILINE)
    versions = {canonicalize_name(name): version for name, version, _ in pinned}
    assert {rest for _, _, rest in pinned} == {" \\"}  # hashes follow

    missing = []
    for name, version in versions.items():
        installed = list(importlib.metadata.distributions(name=name))
        if not installed or installed[0].version != version:
            pytest.skip(f"{name} {version} is not installed: not an environment of bootstrap.py")
        for text in installed[0].requires or ():
            need = Requirement(text)
            if need.marker and not need.marker.evaluate({"extra": ""}):
                continue
            if versions.get(canonicalize_name(need.name)) is None:
                missing.append(f"{name} needs {text}")

    assert missing == []
