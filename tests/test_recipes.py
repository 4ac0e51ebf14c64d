"""The recipes of `examples/packages` ask for what pyproject.toml asks for."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ROOT / "examples" / "packages"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CONDA = {"msgpack": "msgpack-python"}  # names that differ there
BUNDLED = {"numpy": "SciPy-bundle", "scipy": "SciPy-bundle", "pyzmq": "PyZMQ"}


def requirements() -> list[tuple[str, str]]:
    """Name and lowest version of each dependency, Python's own included."""
    pairs = []
    for text in (*PROJECT["dependencies"], "python" + PROJECT["requires-python"]):
        name, version = text.split(">=")
        pairs.append((name, version))
    return pairs


@pytest.mark.parametrize(("name", "version"), requirements())
def test_recipes_have_each_dependency_in_its_lowest_version(name: str, version: str):
    spack = (PACKAGES / "spack/packages/py-insitu/package.py").read_text(encoding="utf-8")
    conda = (PACKAGES / "conda/recipe.yaml").read_text(encoding="utf-8")
    [easyconfig] = PACKAGES.glob("*.eb")

    prefix = "" if name == "python" else "py-"
    assert f'depends_on("{prefix}{name}@{version}:"' in spack
    assert f"- {CONDA.get(name, name)} >={version}\n" in conda
    bundle = BUNDLED.get(name, name)
    assert re.search(rf'\("{bundle}", "', easyconfig.read_text(encoding="utf-8"), re.IGNORECASE)


def test_recipes_are_of_this_version():
    version = PROJECT["version"]

    assert f'version: "{version}"' in (PACKAGES / "conda/recipe.yaml").read_text(encoding="utf-8")
    assert [path.name.split("-")[1] for path in PACKAGES.glob("*.eb")] == [version]


def test_the_easyconfig_has_the_locked_version_of_each_package_it_downloads():
    lock = (ROOT / "requirements-dev.lock").read_text(encoding="utf-8").lower().replace("_", "-")
    locked = dict(re.findall(r"^([\w.-]+)==([\w.]+)", lock, re.MULTILINE))
    [easyconfig] = PACKAGES.glob("*.eb")
    extensions = easyconfig.read_text(encoding="utf-8").partition("exts_list = ")[2]

    downloaded = dict(re.findall(r'\("([\w.-]+)", "([\w.]+)"\)', extensions))

    assert len(downloaded) > 10
    assert downloaded == {name: locked.get(name) for name in downloaded}
