"""A wheel, a wheel from the source distribution, an editable install and a bare checkout all work.

One wheel serves every Python: its library needs no header of Python's. Each install is proved by a
rank: a program that starts under the collectors, as insitu.run starts it, and leaves a table.
"""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

from insitu.collectors.table import TableReader
from tests.support.interpreters import OWN_FIRST, find_python, why_missing
from tests.support.parameters import first_plain

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]
HOOKS = {True: ("evaluator", "monitoring"), False: ("setprofile",)}
BUILD = {
    **os.environ,
    "PYTHONPATH": sysconfig.get_path("purelib"),  # pip, the build's back end, cmake
    "SKBUILD_CMAKE_BUILD_TYPE": "Debug",  # in a third of the time; bootstrap.py optimises
}
PROGRAM = """
import json, os, sys
import insitu, insitu.server
from insitu.collectors import library

def work():
    refused = []
    for name in ("collectors", "server"):
        package = insitu.__path__[0]
        sys.path[:0] = [package, os.path.dirname(package)]
        try:
            __import__(name)
        except ImportError as error:
            refused.append(str(error))
    return refused

print(json.dumps({"insitu": insitu.__file__, "library": library.find(), "refused": work()}))
"""


FULL = pytest.mark.full


@pytest.fixture(params=first_plain(OWN_FIRST))
def python(request, tmp_path):
    """A new virtual environment with nothing in it."""
    found = find_python(request.param)
    if not found:
        pytest.skip(why_missing(request.param))
    run([found, "-m", "venv", "--without-pip", tmp_path / "environment"], cwd=tmp_path)
    return tmp_path / "environment" / "bin" / "python"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy of this checkout without anything built."""
    if importlib.util.find_spec("scikit_build_core") is None:
        pytest.skip("scikit-build-core is not installed: pip install -e .[dev]")
    path = tmp_path_factory.mktemp("checkout") / "insitu"
    left_out = shutil.ignore_patterns(
        ".*_cache", ".venv*", ".git", ".hypothesis", "build", "*.so", "__pycache__", "*.insitu"
    )
    shutil.copytree(ROOT, path, symlinks=True, ignore=left_out)
    return path


@pytest.fixture(scope="module")
def wheel(checkout, tmp_path_factory):
    return build_wheel(checkout, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def sdist(checkout, tmp_path_factory):
    folder = tmp_path_factory.mktemp("sdist")
    build = "import sys; from scikit_build_core.build import build_sdist; build_sdist(sys.argv[1])"
    run([sys.executable, "-c", build, folder], cwd=checkout)
    (path,) = folder.glob("insitu-*.tar.gz")
    return path


@pytest.fixture(scope="module")
def wheel_from_sdist(sdist, tmp_path_factory):
    return build_wheel(sdist, tmp_path_factory.mktemp("wheel"))


def build_wheel(source: Path, folder: Path) -> Path:
    options = ["--no-deps", "--no-build-isolation", "--wheel-dir", folder]
    run([sys.executable, "-m", "pip", "wheel", *options, source], cwd=folder)
    (path,) = folder.glob("insitu-*.whl")
    return path


def run(command: list, *, cwd: Path, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=env or BUILD,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def run_rank(python: Path, home: Path, folder: Path) -> dict:
    """Start a program as one rank of a run; what it says of the insitu in `home`, and its hook."""
    (folder / "program.py").write_text(PROGRAM)
    collectors = home / "insitu" / "collectors"
    library = collectors / "libinsitu.so"
    tables = folder / "tables"  # a checkout has tables of its own, among its tests
    tables.mkdir(mode=0o700)
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(collectors / "site"),
        "INSITU_PYTHONPATH": str(home),
        "INSITU_RUN": "0" * 32,
        "INSITU_HOME": str(home),
        "INSITU_META": "{}",
        "INSITU_SINGLE": "1",
        "INSITU_AGENT": "off",
        "INSITU_TABLES": str(tables),
        "INSITU_LIBRARY": str(library) if library.exists() else "",
        "INSITU_TROUBLE": str(folder / "trouble"),
    }
    said = json.loads(run([python, "program.py"], cwd=folder, env=environment))
    assert not (folder / "trouble").exists(), (folder / "trouble").read_text()
    (path,) = tables.rglob("*.table")
    table = TableReader(str(path))
    assert "work" in [row.name for row in table.new_rows()]
    hook = table.header.hook.rstrip(b"\0").decode()
    table.close()
    return {**said, "hook": hook}


def has_compiler() -> bool:
    return any(shutil.which(name) for name in (os.environ.get("CC", "cc"), "gcc", "clang"))


# A build takes a minute.
BUILT_FROM = [pytest.param(name, marks=FULL) for name in ("wheel", "wheel_from_sdist")]


@pytest.mark.parametrize("built_from", BUILT_FROM)
def test_a_wheel_holds_what_runs_and_nothing_else(built_from, request):
    path = request.getfixturevalue(built_from)

    names = zipfile.ZipFile(path).namelist()

    assert path.name.startswith("insitu-") and "-py3-none-" in path.name
    assert len(names) == len(set(names))
    entries = ("collectors/site/sitecustomize", "collectors/site/start_in_rank", "server/__init__")
    assert {f"insitu/{entry}.py" for entry in entries} <= set(names)
    assert {
        f"insitu/views/web/static/{name}" for name in ("index.html", "page.js", "page.css")
    } <= set(names)
    assert [name.partition(".data/")[2] for name in names if name.endswith("/insitu.1")] == [
        "data/share/man/man1/insitu.1"
    ]
    assert ("insitu/collectors/libinsitu.so" in names) == has_compiler()
    assert {name.split("/")[0].split("-")[0] for name in names} == {"insitu"}
    # For programs, and to be built with them; those of the library stay behind.
    sources = ["insitu/collectors/insitu.h", "insitu/collectors/insitu_taint.c"]
    assert sorted(name for name in names if name.endswith((".c", ".h", ".def"))) == sources


def test_a_source_distribution_holds_each_file_once(sdist):
    with tarfile.open(sdist) as archive:
        links = {member.name: member.linkname for member in archive if member.issym()}
        names = archive.getnames()

    top = sdist.name.removesuffix(".tar.gz")
    assert links == {
        f"{top}/insitu/collectors": "../collectors",
        f"{top}/insitu/server": "../server",
    }
    assert f"{top}/collectors/agent.py" in names
    assert f"{top}/insitu/collectors/agent.py" not in names


@pytest.mark.full
def test_a_wheel_from_the_source_distribution_holds_the_same(wheel, wheel_from_sdist):
    held = [
        {member.filename: member.CRC for member in zipfile.ZipFile(path).infolist()}
        for path in (wheel, wheel_from_sdist)
    ]

    assert held[0].keys() == held[1].keys()
    differ = {name for name in held[0] if held[0][name] != held[1][name]}
    assert {Path(name).name for name in differ} <= {"libinsitu.so", "RECORD"}


@pytest.mark.parametrize("built_from", BUILT_FROM)
def test_an_installed_wheel_measures_a_rank(built_from, request, python, tmp_path):
    path = request.getfixturevalue(built_from)
    run([python, "-m", "pip", "install", "--no-deps", "--no-index", path], cwd=tmp_path)

    home = (
        python.parents[1]
        / "lib"
        / next((python.parents[1] / "lib").iterdir()).name
        / "site-packages"
    )
    said = run_rank(python, home, tmp_path)

    assert Path(said["insitu"]).is_relative_to(home)
    assert bool(said["library"]) == has_compiler()
    assert said["hook"] in HOOKS[has_compiler()]
    assert len(said["refused"]) == 2


@pytest.mark.full  # bootstrap.py makes one for the tests themselves
def test_an_editable_install_measures_a_rank(python, checkout, tmp_path):
    options = ["--no-deps", "--no-build-isolation", "--editable", tmp_path / "insitu"]
    shutil.copytree(checkout, tmp_path / "insitu", symlinks=True)
    run([python, "-m", "pip", "install", *options], cwd=tmp_path)

    said = run_rank(python, tmp_path / "insitu", tmp_path)

    assert Path(said["insitu"]).is_relative_to(tmp_path / "insitu")
    assert bool(said["library"]) == has_compiler()
    assert said["hook"] in HOOKS[has_compiler()]
    assert len(said["refused"]) == 2


def test_a_bare_checkout_measures_a_rank_in_python(python, checkout, tmp_path):
    said = run_rank(python, checkout, tmp_path)

    assert Path(said["insitu"]).is_relative_to(checkout)
    assert said["library"] == ""
    assert said["hook"] in HOOKS[False]
    assert len(said["refused"]) == 2
