"""Whether the tests of a room notice small changes of its code: mutation testing with mutmut.

mutmut changes one expression at a time and runs the tests of the room that execute the changed
function. A mutant that no test notices has survived. The script works in a copy of the checkout
(build/mutate/ROOM), so that nothing here changes, and prints how many mutants were killed, and each
survivor as a difference of lines. With `--sample` it tries that many mutants, drawn with a seed
from modules of the room that are drawn before, since making the mutants of all takes longest.
Tests marked slow, mpi or full are left out.

Left out is what hardly changes what insitu computes: texts that contain blanks (messages, but also
SQL), statements that raise exceptions, and arguments for checks and warnings (`ONLY_CHECKS`). What
runs while a module is imported counts as survived, since mutmut selects the mutant afterwards.

    python3 bootstrap.py mutate wire
    python3 bootstrap.py mutate modeling --sample 200
"""

import argparse
import ast
import json
import random
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LINKED = ("collectors", "server")  # links in insitu/; mutmut wants folders
SETTINGS = """
[tool.mutmut]
source_paths = ["insitu"]
only_mutate = [{modules}]
also_copy = ["collectors", "server", "examples", "docs", "README.md"]
do_not_mutate_patterns = ['^\\s*raise ', 'cast\\(']
pytest_add_cli_args = [
    "-q", "-p", "no:cacheprovider", "-p", "tests.stress.cold_caches",
    "-m", "not slow and not mpi and not full",
]
timeout_multiplier = 5
pytest_add_cli_args_test_selection = [{tests}]
"""
# Keyword arguments whose default differs on wrong input, in another locale or in warnings alone.
ONLY_CHECKS = {
    "strict",
    "allow_nan",
    "encoding",
    "divide",
    "invalid",
    "over",
    "under",
    "stacklevel",
}
# Runs inside of measured programs, without mutmut.
ELSEWHERE = tuple(f"insitu/collectors/{name}" for name in ("counting/", "site/", "regions.py"))
SAMPLED_MODULES = 16  # that are mutated for a sample
KILLED = (1, 3)  # exit codes of pytest: a test failed, pytest itself failed
TIMED_OUT = (-24, 24, 36, 152, 255)  # a mutant that never ends is noticed as well


def main(arguments: list[str]) -> int:
    """Try the mutants of a room, print the result; 2 where mutmut is missing."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("room", help="a folder below insitu/")
    parser.add_argument("--sample", type=int, help="try that many mutants (default: all)")
    parser.add_argument("--seed", type=int, default=1, help="which mutants are drawn")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default: 2)")
    parser.add_argument("--tests", nargs="+", help="their tests (default: tests/ROOM)")
    options = parser.parse_args(arguments)
    mutmut = ROOT / ".venv" / "mutmut" / "bin" / "mutmut"
    if not mutmut.exists():
        print("mutmut is not installed: run `python3 bootstrap.py mutate ROOM`", file=sys.stderr)
        return 2
    tests = options.tests or [f"tests/{options.room}"]
    modules = (
        draw_modules(options.room, options.seed) if options.sample else find_modules(options.room)
    )
    copy = copy_checkout(options.room, tests, modules)

    # Without a matching name mutmut makes the mutants, records which test runs what, and stops.
    run_mutmut(mutmut, copy, "run", "no.such.mutant", "--max-children", str(options.jobs))
    names = sorted(read_results(copy))
    if not names:
        print((copy / "mutate.log").read_text(encoding="utf-8")[-3000:], file=sys.stderr)
        return 1
    wordings = find_wordings(copy)
    names = [name for name in names if name not in wordings]
    if options.sample and options.sample < len(names):
        names = sorted(random.Random(options.seed).sample(names, options.sample))
    run_mutmut(mutmut, copy, "run", *names, "--max-children", str(options.jobs))
    results = read_results(copy)
    if all(results[name] is None for name in names):
        print((copy / "mutate.log").read_text(encoding="utf-8")[-3000:], file=sys.stderr)
        return 1  # a test fails without any mutant
    report(mutmut, copy, options.room, names)
    return 0


def find_modules(room: str) -> list[str]:
    """The modules of a room, as paths from the checkout."""
    folder = ROOT / "insitu" / room
    files = folder.resolve().rglob("*.py")
    names = (f"insitu/{room}/{file.relative_to(folder.resolve())}" for file in files)
    return sorted(name for name in names if not name.startswith(ELSEWHERE))


def draw_modules(room: str, seed: int) -> list[str]:
    """At most `SAMPLED_MODULES` modules of a room, each as likely as any other."""
    modules = find_modules(room)
    return random.Random(seed).sample(modules, min(SAMPLED_MODULES, len(modules)))


def copy_checkout(room: str, tests: list[str], modules: list[str]) -> Path:
    """Copy the tracked files and the built library; make the linked rooms folders of insitu/."""
    copy = ROOT / "build" / "mutate" / room
    shutil.rmtree(copy, ignore_errors=True)
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True
    )
    libraries = [str(path.relative_to(ROOT)) for path in (ROOT / "collectors").glob("*.so")]
    for name in [*listed.stdout.split("\0")[:-1], *libraries]:
        if not (ROOT / name).exists():
            continue
        target = copy / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target, follow_symlinks=False)
    for name in LINKED:
        (copy / "insitu" / name).unlink()
        (copy / name).rename(copy / "insitu" / name)
        (copy / name).symlink_to(Path("insitu") / name)
    with (copy / "pyproject.toml").open("a", encoding="utf-8") as file:
        file.write(SETTINGS.format(modules=quote_names(modules), tests=quote_names(tests)))
    return copy


def quote_names(names: list[str]) -> str:
    """Names as items of a list in TOML."""
    return ", ".join(map(json.dumps, names))


def run_mutmut(mutmut: Path, copy: Path, *words: str) -> None:
    """Run mutmut in the copy; its output goes to mutate.log there."""
    with (copy / "mutate.log").open("a", encoding="utf-8") as log:
        subprocess.run([mutmut, *words], cwd=copy, stdout=log, stderr=log, check=False)


def read_results(copy: Path) -> dict[str, int | None]:
    """The exit code of pytest for each mutant; None where it was not tried."""
    results: dict[str, int | None] = {}
    for path in (copy / "mutants").rglob("*.meta"):
        results |= json.loads(path.read_text(encoding="utf-8"))["exit_code_by_key"]
    return results


def find_wordings(copy: Path) -> set[str]:
    """The names of the mutants that change nothing but messages, warnings and checks of input.

    mutmut writes each mutant as a function beside the original one, which is called the same but
    for the number: `…__mutmut_orig`, `…__mutmut_7`.
    """
    wordings = set()
    for path in (copy / "mutants" / "insitu").rglob("*.py"):
        if not Path(f"{path}.meta").exists():
            continue
        functions: dict[str, ast.AST] = {}
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
                and "__mutmut_" in node.name
            ):
                functions[node.name] = node
        module = ".".join(path.relative_to(copy / "mutants").with_suffix("").parts)
        for name, function in functions.items():
            original = functions.get(f"{name.rpartition('__mutmut_')[0]}__mutmut_orig")
            if original is not None and function is not original:
                function.name = original.name  # type: ignore[attr-defined]
                if is_wording(original, function):
                    wordings.add(f"{module}.{name}")
    return wordings


def is_wording(original: ast.AST, mutant: ast.AST) -> bool:
    """Whether two trees differ only where a message is made or input is checked."""
    if ast.dump(original) == ast.dump(mutant):
        return True
    if isinstance(original, ast.Raise):
        return True
    if isinstance(original, ast.Constant) and isinstance(original.value, str):
        return isinstance(mutant, ast.Constant) and " " in original.value.strip()
    if type(original) is not type(mutant):
        return False
    if isinstance(original, ast.Call) and isinstance(mutant, ast.Call):
        original, mutant = without_checks(original), without_checks(mutant)
    before, after = list(ast.iter_child_nodes(original)), list(ast.iter_child_nodes(mutant))
    if len(before) != len(after) or own_fields(original) != own_fields(mutant):
        return False
    return all(map(is_wording, before, after))


def without_checks(call: ast.Call) -> ast.Call:
    """A call without the arguments that only check, warn or decode."""
    keywords = [keyword for keyword in call.keywords if keyword.arg not in ONLY_CHECKS]
    return ast.Call(call.func, call.args, keywords)


def own_fields(node: ast.AST) -> list[object]:
    """The values of a node's fields that are not nodes."""
    return [value for _, value in ast.iter_fields(node) if not isinstance(value, ast.AST | list)]


def report(mutmut: Path, copy: Path, room: str, names: list[str]) -> None:
    """Print the survivors, then how many mutants were killed."""
    results = read_results(copy)
    kinds = Counter[str]()
    for name in names:
        if results[name] in KILLED or results[name] in TIMED_OUT:
            kinds["killed"] += 1
            continue
        kinds["survived"] += 1
        shown = subprocess.run(
            [mutmut, "show", name], cwd=copy, capture_output=True, text=True, check=False
        )
        print(f"survived: {name}")
        for line in shown.stdout.splitlines():
            if line.startswith(("-", "+")) and not line.startswith(("---", "+++")):
                print(f"    {line}")
    share = kinds["killed"] / len(names)
    print(f"{room}: {kinds['killed']} of {len(names)} mutants killed ({share:.0%})")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
