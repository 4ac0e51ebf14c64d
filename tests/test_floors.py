"""The house rules that a machine can check: floors, sizes, what is caught, what a rank loads.

The rules are in pyproject.toml, [tool.insitu.floors] and [tool.insitu.limits].
"""

import ast
import gc
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
RULES = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["insitu"]
FOLDERS = {"insitu": "insitu", "collectors": "insitu.collectors", "server": "insitu.server"}
HEAVY = (
    "numpy",
    "scipy",
    "asyncio",
    "mpi4py",
    "zmq",
    "msgpack",
    "ctypes",
    "click",
    "rich",
    "psutil",
)


@dataclass(frozen=True)
class Source:
    """A Python file of the project, under the name it is imported by."""

    module: str
    path: Path
    tree: ast.Module


@cache
def sources(root: Path) -> tuple[Source, ...]:
    """The files below a folder, which are parsed once.

    Without the garbage collector, which finds nothing in new trees but goes through all of them
    again and again: 1.5 s of a processor instead of 4 to 8.
    """
    gc.disable()
    try:
        return tuple(parse_sources(root))
    finally:
        gc.enable()


def parse_sources(root: Path) -> Iterator[Source]:
    for folder, package in FOLDERS.items():
        for path in sorted((root / folder).rglob("*.py")):
            inside = path.relative_to(root / folder)
            if folder == "insitu" and inside.parts[0] in ("collectors", "server"):
                continue  # symbolic links to the other two folders
            names = [*package.split("."), *inside.with_suffix("").parts]
            if names[-1] == "__init__":
                names.pop()
            yield Source(".".join(names), path, ast.parse(path.read_text(encoding="utf-8")))


def imports(tree: ast.Module, rooms: Collection[str] = ()) -> Iterator[tuple[int, str]]:
    """Every module that is imported anywhere: in functions and for type checkers, too.

    `from package import module` counts as an import of the module where that is a room of its own.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level:
            yield node.lineno, "." * node.level + (node.module or "")
        elif isinstance(node, ast.ImportFrom) and node.module == "insitu":
            yield from ((node.lineno, f"insitu.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                target = f"{node.module}.{alias.name}"
                yield node.lineno, target if target in rooms else node.module


def modules_of(source: Source, known: set[str]) -> set[str]:
    """The modules of the project that one imports, those from a room as `from room import module`
    too."""
    found = {target for _, target in imports(source.tree)}
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return (found & known) - {source.module}


def circle(root: Path) -> list[str]:
    """Modules that import each other, one after the other back to the first; [] where none do."""
    every = sources(root)
    known = {source.module for source in every}
    try:
        TopologicalSorter({source.module: modules_of(source, known) for source in every}).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def room_of(module: str, floors: dict) -> tuple[str, int] | None:
    for height, rooms in enumerate(floors["order"]):
        for room in rooms:
            if module == room or module.startswith(room + "."):
                return room, height
    return None


def wrong_imports(root: Path, floors: dict) -> list[str]:
    """Imports that go up or sideways, or out to a package that the room may not use."""
    complaints = []
    rooms = {room for floor in floors["order"] for room in floor}
    for source in sources(root):
        if source.module in floors["open"]:
            continue
        here = room_of(source.module, floors)
        if here is None:
            complaints.append(f"{source.module}: has no floor; give it one in pyproject.toml")
            continue
        for line, target in dict.fromkeys(imports(source.tree, rooms)):
            reason = why_wrong(here, target, floors)
            if reason:
                complaints.append(f"{source.module}:{line}: imports {target}: {reason}")
    return complaints


def why_wrong(here: tuple[str, int], target: str, floors: dict) -> str:
    room, height = here
    if target.startswith("."):
        return "write the whole name"
    package = target.partition(".")[0]
    if package != "insitu":
        allowed = floors["foreign"].get(room)
        if allowed is None or package in sys.stdlib_module_names or package in allowed:
            return ""
        return f"{room} may use {', '.join(allowed) or 'only the standard library'}"
    if target in ("insitu", "insitu.__version__"):
        return ""
    there = room_of(target, floors)
    if there is None:
        return "a public name; import it from the module that defines it"
    if there[0] == room:
        return ""
    if there[1] >= height:
        return f"{there[0]} is not below {room}"
    if room in floors["only"] and there[0] not in floors["only"][room]:
        return f"{room} may see only {', '.join(floors['only'][room])}"
    return ""


def too_long(root: Path, limits: dict) -> list[str]:
    complaints = []
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".py", ".c", ".h"):
                lines = len(path.read_text(encoding="utf-8").splitlines())
                if lines > limits["module_lines"]:
                    complaints.append(f"{path.relative_to(root)}: {lines} lines")
    for source in sources(root):
        for node in ast.walk(source.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > limits["function_lines"]:
                    complaints.append(f"{source.module}.{node.name}: {lines} lines")
    return complaints


def caught_blindly(root: Path, limits: dict) -> list[str]:
    """Handlers of any exception that do not raise it again; modules in `catch_all` may have one."""
    complaints = []
    for source in sources(root):
        blind = [
            node.lineno
            for node in ast.walk(source.tree)
            if isinstance(node, ast.ExceptHandler)
            and is_blind(node.type)
            and not is_raised_again(node.body[-1])
        ]
        allowed = 1 if source.module in limits["catch_all"] else 0
        complaints += [f"{source.module}:{line}: catches everything" for line in blind[allowed:]]
    return complaints


def is_blind(caught: ast.expr | None) -> bool:
    names = caught.elts if isinstance(caught, ast.Tuple) else [caught]
    return any(
        name is None or (isinstance(name, ast.Name) and name.id in ("Exception", "BaseException"))
        for name in names
    )


def is_raised_again(last: ast.stmt) -> bool:
    return isinstance(last, ast.Raise) and last.exc is None


def test_imports_go_down_only():
    assert wrong_imports(ROOT, RULES["floors"]) == []


def test_no_modules_import_each_other():
    assert circle(ROOT) == []


def test_the_architecture_page_has_the_floors():
    page = ROOT / "docs" / "explanation" / "architecture.md"
    text = page.read_text(encoding="utf-8")
    (drawn,) = re.findall(r"^## Floors$.*?^```$(.*?)^```$", text, re.M | re.S)
    lines = [line for line in drawn.splitlines() if line]

    floors = [
        {room.removeprefix("insitu.") for room in rooms} for rooms in RULES["floors"]["order"]
    ]

    assert [set(re.sub(r"\(.*?\)", "", line).split()[1:]) for line in reversed(lines)] == floors


def test_modules_and_functions_are_short():
    assert too_long(ROOT, RULES["limits"]) == []


def test_exceptions_are_caught_by_name():
    assert caught_blindly(ROOT, RULES["limits"]) == []


@pytest.mark.parametrize("library", ["native", "twin"])
def test_a_rank_loads_nothing_heavy(library, tmp_path):
    from insitu.collectors import library as native

    path = native.find() if library == "native" else ""
    if library == "native" and not path:
        pytest.skip("the native library was not built")
    program = tmp_path / "program.py"
    program.write_text("import json, sys\nprint(json.dumps(sorted(sys.modules)))\n")
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT / "collectors" / "site"),
        "INSITU_RUN": "0" * 32,
        "INSITU_HOME": str(ROOT),
        "INSITU_META": "{}",
        "INSITU_SINGLE": "1",
        "INSITU_AGENT": "off",
        "INSITU_TABLES": str(tmp_path),
        "INSITU_LIBRARY": path,
        "INSITU_TROUBLE": str(tmp_path / "trouble"),
    }

    output = subprocess.run(
        [sys.executable, program], env=environment, capture_output=True, text=True, check=True
    )

    loaded = set(json.loads(output.stdout))
    assert not (tmp_path / "trouble").exists(), (tmp_path / "trouble").read_text()
    assert list(tmp_path.rglob("*.table")), "the rank has no table: nothing was measured"
    assert loaded.isdisjoint(HEAVY)


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("insitu.run.supervise", {"numpy", "asyncio", "zmq", "msgpack", "importlib.metadata"}),
        ("insitu.collectors.agent", {"numpy", "asyncio", "ssl"}),
        ("insitu.server.loop", {"scipy", "insitu.analysis.board", "insitu.modeling.pipeline"}),
        ("insitu.modeling.pipeline", {"scipy"}),
    ],
)
def test_what_a_run_starts_with_is_light(module, absent):
    code = f"import sys, {module}; print(*sys.modules)"

    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert absent.isdisjoint(done.stdout.split())


# The checker itself, on a small tree of files.

SMALL_FLOORS = {
    "order": [
        ["insitu.errors"],
        ["insitu.wire"],
        ["insitu.collectors", "insitu.server"],
        ["insitu.run"],
    ],
    "only": {"insitu.collectors": ["insitu.errors"]},
    "open": ["insitu"],
    "foreign": {"insitu.errors": [], "insitu.wire": ["msgpack"]},
}


@pytest.fixture
def tree(tmp_path):
    for name in (
        "insitu/__init__.py",
        "insitu/errors.py",
        "insitu/wire/__init__.py",
        "insitu/wire/codec.py",
        "insitu/run.py",
        "collectors/__init__.py",
        "collectors/agent.py",
        "server/__init__.py",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    return tmp_path


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("insitu/run.py", "import insitu.wire.codec, insitu.server, numpy"),
        ("insitu/wire/codec.py", "import os, msgpack\nfrom insitu.errors import WireError"),
        ("insitu/wire/codec.py", "import insitu.wire\nfrom insitu import __version__"),
        ("insitu/__init__.py", "from insitu.run import main"),
        ("collectors/agent.py", "from insitu import errors\nimport numpy"),
    ],
)
def test_imports_downwards_are_right(tree, file, text):
    (tree / file).write_text(text)

    assert wrong_imports(tree, SMALL_FLOORS) == []


@pytest.mark.parametrize(
    ("file", "text", "complaint"),
    [
        ("insitu/errors.py", "import insitu.wire", "insitu.wire is not below insitu.errors"),
        (
            "insitu/errors.py",
            "def f():\n    from insitu import wire",
            "errors:2: imports insitu.wire",
        ),
        (
            "insitu/wire/codec.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from insitu.run import main",
            "codec:3: imports insitu.run: insitu.run is not below insitu.wire",
        ),
        (
            "collectors/agent.py",
            "from insitu.wire.codec import encode",
            "may see only insitu.errors",
        ),
        ("collectors/agent.py", "import insitu.server", "insitu.server is not below"),
        ("insitu/run.py", "from insitu import fit", "a public name"),
        ("insitu/wire/codec.py", "from . import other", "write the whole name"),
        ("insitu/wire/codec.py", "import numpy.linalg", "insitu.wire may use msgpack"),
        ("insitu/errors.py", "import msgpack", "insitu.errors may use only the standard library"),
        ("insitu/utils.py", "", "insitu.utils: has no floor"),
    ],
)
def test_other_imports_are_found(tree, file, text, complaint):
    (tree / file).write_text(text)

    (found,) = wrong_imports(tree, SMALL_FLOORS)

    assert complaint in found


def test_circles_of_imports_are_found(tree):
    (tree / "insitu" / "errors.py").write_text("def f():\n    from insitu.wire import codec\n")
    (tree / "insitu" / "wire" / "codec.py").write_text("import insitu.errors\nimport insitu.run")

    assert set(circle(tree)) == {"insitu.errors", "insitu.wire.codec"}


def test_long_modules_and_functions_are_found(tree):
    limits = {"module_lines": 12, "function_lines": 10}
    (tree / "collectors" / "hook.c").write_text("\n" * 13)
    (tree / "insitu" / "run.py").write_text("def f():\n" + "    f()\n" * 10)

    assert too_long(tree, limits) == ["collectors/hook.c: 13 lines", "insitu.run.f: 11 lines"]


@pytest.mark.parametrize(
    "caught", ["", " Exception", " BaseException as e", " (OSError, Exception)"]
)
def test_blind_handlers_are_found(tree, caught):
    text = f"try:\n    pass\nexcept{caught}:\n    pass\n"
    (tree / "insitu" / "run.py").write_text(text)
    (tree / "collectors" / "agent.py").write_text(
        text + "try:\n    pass\nexcept OSError:\n    pass\n"
    )

    found = caught_blindly(tree, {"catch_all": ["insitu.collectors.agent"]})

    assert found == ["insitu.run:3: catches everything"]


def test_cleaning_up_and_raising_again_is_no_blind_handler(tree):
    (tree / "insitu" / "run.py").write_text("try:\n    pass\nexcept BaseException:\n    raise\n")

    assert caught_blindly(tree, {"catch_all": []}) == []
