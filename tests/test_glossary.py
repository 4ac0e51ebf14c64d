"""Names in the code follow docs/glossary.md: one word for one thing, one class for one name."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.test_floors import Source, sources

ROOT = Path(__file__).resolve().parents[1]
GLOSSARY = ROOT / "docs" / "glossary.md"
SUFFIXES = (".py", ".c", ".h", ".def", ".js", ".html")
BANNED = {"one", "told", "found", "said", "place", "way", "part"}
NUMBERS = {"ONE"}  # the constant 1 of an algebra, beside ZERO
JSON_KEYS = {  # fields whose names are keys of a JSON format
    ("insitu.analysis.board", "part"),
    ("insitu.expectations.result", "found"),
    ("insitu.workflows.doctor", "found"),
}
PAPER_NAMES = {"segmented", "Segmented"}  # the modeler of [SEG], as users and files name it
LONG_LOOP = 3  # lines of a body; in a shorter loop the whole use of the variable is in sight
# Participles alone say neither what a function does nor what a value is. Those that end in -ed are
# recognised by a rule; these irregular ones and these exceptions are listed.
IRREGULAR = {
    "asked", "begun", "bound", "bought", "broken", "brought", "built", "chosen", "done",
    "drawn", "fallen", "felt", "forgotten", "found", "given", "gone", "gotten", "grown", "heard",
    "held", "hidden", "kept", "known", "laid", "left", "lost", "made", "meant", "met", "paid",
    "said", "seen", "sent", "shown", "spent", "spoken", "stolen", "sung", "taken", "taught",
    "thought", "thrown", "told", "understood", "won", "worn", "woven", "written",
}  # fmt: skip
# English words that end in -ed, or look like participles, but are nouns, verbs or adjectives.
NOT_PARTICIPLES = {
    "embed",
    "exceed",
    "feed",
    "need",
    "proceed",
    "red",
    "seed",
    "speed",
    "succeed",
    "bed",
}

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def terms() -> list[str]:
    """The terms of the glossary, in its order."""
    return re.findall(r"^([a-z].*)\n:   ", GLOSSARY.read_text(encoding="utf-8"), re.MULTILINE)


def product_text() -> str:
    """The text of the code and of the documentation except the glossary, in lower case."""
    texts = []
    for folder in ("insitu", "collectors", "server"):
        files = (file for file in (ROOT / folder).rglob("*") if file.suffix in SUFFIXES)
        texts += [file.read_text(encoding="utf-8", errors="replace") for file in files]
    texts += [
        page.read_text(encoding="utf-8")
        for page in (ROOT / "docs").rglob("*.md")
        if page != GLOSSARY
    ]
    return re.sub(r"[\s_]+", " ", " ".join(texts)).lower()


def is_participle(name: str) -> bool:
    """Whether a name is a participle and nothing else."""
    if not re.fullmatch(r"[A-Za-z][a-z]+", name) or name.lower() in NOT_PARTICIPLES:
        return False
    return name.lower() in IRREGULAR or name.endswith("ed")


def definitions(node: ast.Module | ast.ClassDef) -> Iterator[Definition]:
    """Public functions and classes of a module, public methods of its classes."""
    for statement in node.body:
        if isinstance(statement, Definition) and not is_textual_message(statement):
            if not statement.name.startswith("_"):
                yield statement
            if isinstance(statement, ast.ClassDef):
                yield from definitions(statement)


def is_textual_message(node: Definition) -> bool:
    """Whether this is a message class of Textual, which names messages by participles."""
    return isinstance(node, ast.ClassDef) and "Message" in map(ast.unparse, node.bases)


def public_names(source: Source) -> Iterator[tuple[int, str]]:
    """The last name of the module, its public functions, classes and methods, with lines."""
    yield 0, source.module.rpartition(".")[2]
    for node in definitions(source.tree):
        yield node.lineno, node.name


def public_values(source: Source) -> Iterator[tuple[int, str]]:
    """Parameters of public functions, fields of public classes, names at the top of the module."""
    for node in (source.tree, *definitions(source.tree)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            arguments = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
            yield from ((node.lineno, argument.arg) for argument in arguments)
        else:
            for statement in node.body:
                yield from assigned_names(statement)


def assigned_names(statement: ast.stmt) -> Iterator[tuple[int, str]]:
    """The names that an assignment binds."""
    targets: list[ast.expr] = []
    if isinstance(statement, ast.AnnAssign):
        targets = [statement.target]
    elif isinstance(statement, ast.Assign):
        targets = statement.targets

    for target in targets:
        if isinstance(target, ast.Name) and not target.id.startswith("_"):
            yield statement.lineno, target.id


def loop_variables(source: Source) -> Iterator[tuple[int, str]]:
    """The variables of loops whose body is longer than `LONG_LOOP` lines."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.For | ast.AsyncFor):
            first, last = node.body[0], node.body[-1]
            if (last.end_lineno or last.lineno) - first.lineno + 1 > LONG_LOOP:
                for name in ast.walk(node.target):
                    if isinstance(name, ast.Name):
                        yield node.lineno, name.id


def test_every_term_of_the_glossary_is_used():
    text = product_text()

    unused = [term for term in terms() if not re.search(rf"\b{re.escape(term)}", text)]

    assert len(terms()) > 50
    assert unused == []


def test_terms_of_the_glossary_are_defined_once():
    names = terms()

    assert sorted(set(names)) == sorted(names)


def test_a_class_name_means_one_class():
    modules = defaultdict(list)
    for source in sources(ROOT):
        for node in ast.walk(source.tree):
            if isinstance(node, ast.ClassDef):
                modules[node.name].append(source.module)

    assert {name: where for name, where in modules.items() if len(where) > 1} == {}


def test_no_public_function_class_or_module_is_a_bare_participle():
    complaints = [
        f"{source.module}:{line}: {name}"
        for source in sources(ROOT)
        for line, name in public_names(source)
        if is_participle(name) and name not in PAPER_NAMES
    ]

    assert complaints == []


def test_no_public_name_and_no_variable_of_a_long_loop_is_a_banned_word():
    complaints = []
    for source in sources(ROOT):
        names = [*public_names(source), *public_values(source), *loop_variables(source)]
        complaints += [
            f"{source.module}:{line}: {name}"
            for line, name in names
            if name.lower() in BANNED
            and name not in NUMBERS
            and (source.module, name) not in JSON_KEYS
        ]

    assert complaints == []
