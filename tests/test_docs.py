"""What the README says there is, there is: commands, options, metrics, findings, examples."""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np
import pytest

from insitu import errors
from insitu.campaign.config import load_config
from insitu.cli import COMMANDS, group, manual
from insitu.entities import METRICS
from insitu.formats.base import EXPORTERS
from insitu.modeling.modelers import DEFAULT, MODELERS
from insitu.run.options import SWITCHES, WITH_VALUE
from tests.test_floors import sources

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
OF_RUN = {word for word in (*WITH_VALUE, *SWITCHES) if word.startswith("--")}


def section(title: str, text: str = README) -> str:
    """What stands below a heading, down to the next heading of its level or above."""
    found = re.search(rf"^(#+) {re.escape(title)}$(.*?)(?=^#{{1,2}} |\Z)", text, re.M | re.S)
    assert found, f"the README has no section '{title}'"
    return found.group(2)


def first_cells(title: str) -> list[str]:
    """The words in backticks of the first column of the section's table."""
    rows = [line for line in section(title).splitlines() if line.startswith("| `")]
    return [re.findall(r"`([^`]+)`", row.split("|")[1])[0] for row in rows]


def options_of(name: str) -> set[str]:
    """The long options that people see, without --help, which all have."""
    if name == "run":
        return OF_RUN
    command = group.get_command(click.Context(group), name)
    assert command is not None
    options = [one for one in command.params if isinstance(one, click.Option) and not one.hidden]
    return {word for one in options for word in one.opts if word.startswith("--")}


def finding_codes() -> Iterator[str]:
    """The codes that the sources give to findings: first argument of `Finding`, or of a tuple."""
    for source in sources(ROOT):
        values = {}
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                values[node.targets[0].id] = node.value
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Call) and node.args:
                called = ast.unparse(node.func)
                if called.endswith("Finding"):
                    yield from words(node.args[0], values)
                elif called.endswith("findings.append") and isinstance(node.args[0], ast.Tuple):
                    yield from words(node.args[0].elts[0], values)


def words(node: ast.expr, values: dict[str, ast.expr]) -> Iterator[str]:
    if isinstance(node, ast.Constant):
        yield str(node.value)
    elif isinstance(node, ast.IfExp):
        yield from words(node.body, values)
        yield from words(node.orelse, values)
    elif isinstance(node, ast.Name) and node.id in values:
        yield from words(values[node.id], values)


def test_the_readme_has_every_command():
    assert first_cells("Commands") == [f"insitu {name}" for name in COMMANDS]


@pytest.mark.parametrize("name", COMMANDS)
def test_the_readme_has_every_option(name):
    (row,) = [line for line in README.splitlines() if line.startswith(f"| `insitu {name}`")]

    assert set(re.findall(r"`(--[a-z-]+)`", row)) == options_of(name)


def test_the_help_of_insitu_run_has_every_option():
    from insitu.run.options import USAGE

    assert set(re.findall(r"^  (?:-\w, )?(--[a-z-]+)", USAGE, re.M)) == OF_RUN


def test_the_manual_page_says_what_help_says():
    # Where it is old, `python -m insitu.cli.manual` writes it anew.
    assert manual.FILE.read_text(encoding="utf-8").split("\n") == manual.page().split("\n")


def test_the_readme_has_every_metric_with_its_unit():
    rows = [line.split("|") for line in section("Metrics").splitlines() if line.startswith("| `")]

    assert {(row[1].strip(" `"), row[2].strip()) for row in rows} == {
        (metric.name, metric.unit) for metric in METRICS
    }


def test_the_readme_has_every_format():
    assert first_cells("Formats") == list(EXPORTERS)


def test_the_readme_has_every_modeler_and_the_default():
    assert first_cells("Modelers") == list(MODELERS)
    assert re.findall(r"`(\w+)` \|.*\(default\)", section("Modelers")) == [DEFAULT]


def test_the_readme_has_every_finding():
    assert first_cells("Findings") == sorted(set(finding_codes()))


def test_the_readme_has_every_exit_code():
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    codes = {kind.exit_code for kind in kinds if issubclass(kind, errors.InsituError)}

    documented = re.findall(r"^\| (\d+) \|", section("Exit codes"), re.M)

    assert {int(code) for code in documented} == codes | {0, 1}


def test_every_file_that_the_documents_name_is_there():
    missing = []
    for document in ROOT.rglob("*.md"):
        inside = document.relative_to(ROOT)
        if inside.parts[0].startswith(".venv") or "node_modules" in inside.parts:
            continue
        text = document.read_text(encoding="utf-8")
        targets = re.findall(r"\]\(([^)#:]+)\)", text)
        missing += [f"{inside}: {to}" for to in targets if not (document.parent / to).exists()]

    assert missing == []


def test_every_module_that_the_architecture_names_is_there():
    text = (ROOT / "insitu" / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(?:[\w/]+/)?(\w+\.(?:py|c|h|def))`", text))
    folders = ("insitu", "collectors", "server", "tests", "examples")
    present = {path.name for folder in folders for path in (ROOT / folder).rglob("*.*")}

    assert named - present == set()


def test_every_decision_has_a_number_of_its_own():
    text = (ROOT / "insitu" / "README.md").read_text(encoding="utf-8")
    numbers = re.findall(r"^- \*\*(\d+)\*\*", section("Decisions", text), re.M)

    assert sorted(map(int, numbers)) == list(range(1, len(numbers) + 1))


def test_every_module_has_a_line_in_the_readme_of_its_room():
    missing = []
    for source in sources(ROOT):
        room = source.path.parent
        readme = room if (room / "README.md").exists() else room.parent
        text = (readme / "README.md").read_text(encoding="utf-8")
        is_command = room.name == "cli" and source.path.stem in (*COMMANDS, "importing")
        if f"{source.path.name}`" not in text and source.path.stem[:2] != "__" and not is_command:
            missing.append(source.module)
    native = ROOT / "collectors" / "native"
    text = (native / "README.md").read_text(encoding="utf-8")
    missing += [path.name for path in native.glob("*.c") if f"`{path.name}`" not in text]

    assert missing == []


def test_the_python_of_the_readme_runs_and_says_what_is_written():
    (text,) = re.findall(r"```python\n(.*?)```", section("Modelers"), re.S)
    names: dict[str, object] = {}
    for line in text.splitlines():
        code, _, said = line.partition("  # ")
        if not said:
            exec(code, names)
            continue
        answer = eval(code, names)
        if isinstance(answer, str):
            assert answer == said.strip()
        else:
            assert answer == pytest.approx(np.array(ast.literal_eval(said.strip())), abs=0.01)


def test_the_campaign_file_of_the_readme_can_be_read(tmp_path):
    blocks = re.findall(r"```toml\n(.*?)```", README, re.S)
    (tmp_path / "campaign.toml").write_text("\n".join(blocks), encoding="utf-8")

    config = load_config(str(tmp_path))

    assert config.axis("n") == "n [cells]"
    assert [one.name for one in config.classes.rules[0].classes] == ["corner", "edge"]


@pytest.mark.mpi
@pytest.mark.native
@pytest.mark.slow
def test_the_first_campaign_works_when_pasted(tmp_path):
    (script,) = re.findall(r"```sh\n(.*?)```", section("A first campaign in five minutes"), re.S)
    shims = tmp_path / "bin"
    shims.mkdir()
    (shims / "insitu").write_text(f'#!/bin/sh\nexec {sys.executable} -m insitu "$@"\n')
    (shims / "insitu").chmod(0o755)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    path = os.pathsep.join((str(shims), str(Path(sys.executable).parent), os.environ["PATH"]))
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}

    pasted = subprocess.run(
        ["bash", "-euc", script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert pasted.returncode == 0, pasted.stdout + pasted.stderr
    assert "models over p, 4 points (p = 1 … 8)" in pasted.stdout
    assert "stencil2d.py->main->step->exchange->MPI_Sendrecv" in pasted.stdout
    assert (tmp_path / "heat.png").stat().st_size > 10_000
