"""The documentation builds, agrees with the code, and its examples run."""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from insitu.analysis.finding_help import FINDING_HELP
from insitu.cli import COMMANDS, manual, reference
from insitu.entities import METRICS
from insitu.modeling.modelers import DEFAULT, MODELERS
from insitu.run.options import SWITCHES, USAGE, WITH_VALUE
from tests.support.docs_blocks import IMPORT, Block, Page, code_blocks, page_environment
from tests.test_floors import sources

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
FIRST_CAMPAIGN = DOCS / "tutorial" / "first-campaign.md"  # has the commands of README.md as well
EXECUTED = [*sorted((DOCS / "tutorial").glob("*.md")), *sorted((DOCS / "how-to").glob("*.md"))]
# Other tests run the commands of these pages, which take 6 to 30 s of a processor each.
RUN_ELSEWHERE = (
    *("tutorial/cluster", "tutorial/compiled-program"),
    *("how-to/campaigns", "how-to/classes", "how-to/expectations", "how-to/measure"),
    *("how-to/notebook", "how-to/report"),
)
README_LINES = 150
ROOM_README_LINES = 40


def finding_codes() -> Iterator[str]:
    """The codes that the sources give to findings: first argument of `Finding`, or of a tuple."""
    for source in sources(ROOT):
        values = {}
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                values[node.targets[0].id] = node.value

        for node in ast.walk(source.tree):
            if isinstance(node, ast.Call) and node.args:
                names = dotted_names(node.func)
                if names[-1:] == ["Finding"]:
                    yield from literals(node.args[0], values)
                elif names[-2:] == ["findings", "append"] and isinstance(node.args[0], ast.Tuple):
                    yield from literals(node.args[0].elts[0], values)


def dotted_names(node: ast.expr) -> list[str]:
    """The last names of a dotted expression: ["findings", "append"] of `(a or b).findings.append`.

    `ast.unparse` takes three seconds for all calls of the sources.
    """
    if isinstance(node, ast.Attribute):
        return [*dotted_names(node.value), node.attr]
    return [node.id] if isinstance(node, ast.Name) else []


def literals(node: ast.expr, values: dict[str, ast.expr]) -> Iterator[str]:
    """The texts that an expression can have."""
    if isinstance(node, ast.Constant):
        yield str(node.value)
    elif isinstance(node, ast.IfExp):
        yield from literals(node.body, values)
        yield from literals(node.orelse, values)
    elif isinstance(node, ast.Name) and node.id in values:
        yield from literals(values[node.id], values)


def documents() -> Iterator[Path]:
    """All Markdown files that belong to the repository."""
    for document in ROOT.rglob("*.md"):
        first = document.relative_to(ROOT).parts[0]
        if not first.startswith((".venv", ".pytest", "build")) and "node_modules" not in str(
            document
        ):
            yield document


def first_cells(page: Path) -> list[str]:
    """The words in backticks of the first column of a page's first table."""
    table = re.search(r"(?:^\|.*\n)+", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert table, f"{page} has no table"
    return re.findall(r"^\| `([^`]+)`", table[0], re.MULTILINE)


@pytest.mark.slow
def test_the_documentation_builds_without_warnings_and_loads_nothing_from_elsewhere(tmp_path):
    pytest.importorskip("mkdocs")
    site = tmp_path / "site"

    build = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(site)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert build.returncode == 0, build.stdout + build.stderr
    commands = (site / "reference" / "commands.html").read_text(encoding="utf-8")
    assert all(f"insitu {name}</h2>" in re.sub(r"<a .*?</a>", "", commands) for name in COMMANDS)
    loaded = re.compile(r'<(?:script|link rel="stylesheet"|img)[^>]+(?:src|href)="https?:')
    assert not [page.name for page in site.rglob("*.html") if loaded.search(page.read_text())]


def plain_or_full(pages: list[Path]) -> list[object]:
    """The pages as parameters of a test; those whose commands other tests run need `--full`."""
    parameters = []
    for page in pages:
        name = f"{page.parent.name}/{page.stem}"
        marks = [pytest.mark.full] if name in RUN_ELSEWHERE else []
        parameters.append(pytest.param(page, id=name, marks=marks))
    return parameters


@pytest.fixture(scope="session")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The campaign that `IMPORT` makes, with which many pages begin."""
    folder = tmp_path_factory.mktemp("imported")
    running = Page(start_page(folder), page_environment(folder / "bin", ROOT))
    running.run(Block("sh", "", IMPORT))
    return running.directory / "heat.insitu"


def start_page(folder: Path) -> Path:
    """A directory in which a page can begin: a user's, beside the examples."""
    directory = folder / "page"
    directory.mkdir()
    (directory / "examples").symlink_to(ROOT / "examples")
    return directory


@pytest.mark.slow
@pytest.mark.mpi
@pytest.mark.native
@pytest.mark.parametrize("page", plain_or_full(EXECUTED))
def test_the_examples_of_the_documentation_run(page, imported, tmp_path, monkeypatch):
    directory = start_page(tmp_path)
    monkeypatch.chdir(directory)
    monkeypatch.setattr(sys, "path", [*sys.path])
    running = Page(directory, page_environment(tmp_path / "bin", ROOT), imported)

    try:
        for block in code_blocks(page):
            running.run(block)
        running.close()
    finally:
        running.kill()

    if page == FIRST_CAMPAIGN:
        assert "models over p, 4 points (p = 1 … 8)" in running.output
        assert "stencil2d.py->main->step->exchange->MPI_Sendrecv" in running.output
        assert (directory / "heat.png").stat().st_size > 10_000


def test_the_commands_of_the_readme_are_the_first_ones_of_the_tutorial():
    commands = "".join(block.text for block in code_blocks(ROOT / "README.md"))
    tutorial = "".join(block.text for block in code_blocks(FIRST_CAMPAIGN))

    assert commands.startswith("for p in 1 2 4 8; do")
    assert tutorial.startswith(commands)


def test_every_metric_and_every_finding_has_a_description():
    assert set(reference.METRIC_DESCRIPTIONS) == {metric.name for metric in METRICS}
    assert set(FINDING_HELP) == set(finding_codes())


def test_the_reference_has_every_modeler_and_the_default():
    page = DOCS / "reference" / "modelers.md"

    assert first_cells(page) == list(MODELERS)
    assert re.findall(r"`(\w+)` \|.*\(default\)", page.read_text(encoding="utf-8")) == [DEFAULT]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name):
    text = reference.command_help(name)

    assert text.lower().startswith("usage: ")
    assert "--help" in text


def test_the_help_of_insitu_run_has_every_option():
    options = {word for word in (*WITH_VALUE, *SWITCHES) if word.startswith("--")}

    assert set(re.findall(r"^  (?:-\w, )?(--[a-z-]+)", USAGE, re.MULTILINE)) == options


def test_the_manual_page_matches_the_help():
    # If this fails, run `python -m insitu.cli.manual`.
    assert manual.FILE.read_text(encoding="utf-8").split("\n") == manual.page().split("\n")


def test_every_link_of_a_document_has_a_target():
    missing = []
    for document in documents():
        text = re.sub(r"^```.*?^```", "", document.read_text(encoding="utf-8"), flags=re.M | re.S)
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
            if not (document.parent / target).exists():
                missing.append(f"{document.relative_to(ROOT)}: {target}")

    assert missing == []


def test_every_module_that_the_architecture_names_exists():
    text = (DOCS / "explanation" / "architecture.md").read_text(encoding="utf-8")
    names = set(re.findall(r"`(?:[\w/]+/)?(\w+\.(?:py|c|h|def))`", text))
    folders = ("insitu", "collectors", "server", "tests", "examples")
    present = {path.name for folder in folders for path in (ROOT / folder).rglob("*.*")}

    assert names - present == set()


def test_every_file_that_a_benchmark_page_names_exists():
    missing = []
    for page in (DOCS / "benchmarks").glob("*.md"):
        files = re.findall(
            r"\b((?:tests|examples)/[a-z_/0-9]+\.py)\b", page.read_text(encoding="utf-8")
        )
        missing += [f"{page.name}: {file}" for file in files if not (ROOT / file).exists()]

    assert missing == []


def test_decisions_are_numbered_from_one_and_have_three_sections():
    records = sorted((DOCS / "decisions").glob("0*.md"))

    assert [int(record.stem[:4]) for record in records] == list(range(1, len(records) + 1))
    for record in records:
        text = record.read_text(encoding="utf-8")
        assert text.startswith(f"# {int(record.stem[:4])}. ")
        sections = re.findall(r"^## (.*)$", text, re.MULTILINE)
        assert sections == ["Context", "Decision", "Consequences"], record.name


def test_every_module_has_a_line_in_the_readme_of_its_room():
    missing = []
    for source in sources(ROOT):
        room = source.path.parent
        readme = room if (room / "README.md").exists() else room.parent
        text = (readme / "README.md").read_text(encoding="utf-8")
        is_command = room.name == "cli" and source.path.stem in (*COMMANDS, "import_")
        if f"{source.path.name}`" not in text and source.path.stem[:2] != "__" and not is_command:
            missing.append(source.module)
    native = ROOT / "collectors" / "native"
    text = (native / "README.md").read_text(encoding="utf-8")
    missing += [path.name for path in native.glob("*.c") if f"`{path.name}`" not in text]

    assert missing == []


def test_readmes_are_short():
    lengths = {}
    for folder in ("insitu", "collectors", "server"):
        for readme in (ROOT / folder).rglob("README.md"):
            lengths[str(readme.relative_to(ROOT))] = len(readme.read_text().splitlines())

    assert len((ROOT / "README.md").read_text().splitlines()) <= README_LINES
    assert {name: lines for name, lines in lengths.items() if lines > ROOM_README_LINES} == {}


def test_each_idea_of_the_papers_names_tests_that_exist():
    text = (DOCS / "explanation" / "papers.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    names = set(re.findall(r"`(\w+/\w+\.py)[ `]", "\n".join(row.split("|")[-2] for row in rows)))

    assert len(names) > 20
    assert [name for name in sorted(names) if not (ROOT / "tests" / name).is_file()] == []
