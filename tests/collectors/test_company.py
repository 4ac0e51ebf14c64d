"""The native hook beside other tools, interpreters, processes and signals: nothing breaks, and the
counts stay right."""

import os
import subprocess
import textwrap
from pathlib import Path

import coverage
import pytest

from insitu.collectors.node import Node
from insitu.collectors.table import TableReader
from tests.collectors.measured import measure, visits

HOME = Path(__file__).resolve().parents[2]
WORK = """
    import sys

    def leaf(): pass
    def numbers(n):
        for _ in range(n): yield leaf()
    def fails():
        raise ValueError
    def work():
        for _ in range(10): leaf()
        list(numbers(3))
        half = numbers(5)
        next(half); half.close()
        try: fails()
        except ValueError: pass
"""
COUNTS = {"work": 1, "work->leaf": 10, "work->numbers": 2, "work->numbers->leaf": 4}
TOOLS = {
    "cProfile": "import cProfile; p = cProfile.Profile(); p.enable(); work(); p.disable()",
    "trace": "sys.settrace(lambda *a: None); work(); sys.settrace(None)",
    "bdb": "import bdb; b = bdb.Bdb(); b.set_trace(); b.set_continue(); work()",
    "pdb": """
import io, pdb
output = io.StringIO()
pdb.Pdb(stdin=io.StringIO("step\\nup\\np 6 * 7\\nreturn\\ncontinue\\n"), stdout=output).set_trace()
work()
assert "42" in output.getvalue()
""",
    "coverage": """
sys.path.append(SITE)
import coverage
covered = coverage.Coverage(data_file=None, config_file=False, include=[__file__])
if sys.version_info >= (3, 12): covered.set_option("run:core", "sysmon")
covered.start()
work()
covered.stop()
missing = set(covered.analysis(__file__)[2])
lines = {line for *_, line in work.__code__.co_lines() if line != work.__code__.co_firstlineno}
assert lines and not lines & missing, missing
""",
    "setprofile": "sys.setprofile(lambda *a: None); work(); sys.setprofile(None)",
    "monitoring": """
if sys.version_info >= (3, 12):
    m = sys.monitoring
    m.use_tool_id(1, "coverage")
    m.register_callback(1, m.events.PY_START, lambda *a: m.DISABLE)
    m.register_callback(1, m.events.LINE, lambda *a: m.DISABLE)
    m.set_events(1, m.events.PY_START | m.events.LINE)
    work()
    m.restart_events()
    m.set_events(1, 0)
    m.free_tool_id(1)
else:
    work()
""",
    "fork": """
import os
child = os.fork()
if not child:
    work(); work()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
work()
""",
    "exec": """
import subprocess
subprocess.run([sys.executable, "-c", "def work(): pass\\nwork()"], check=True)
work()
""",
    "signals": """
import signal
def handler(*a): leaf()
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 1e-4, 1e-4)
for _ in range(20000): leaf()
signal.setitimer(signal.ITIMER_REAL, 0)
work()
""",
    "subinterpreter": """
try: import _interpreters as interpreters
except ImportError: import _xxsubinterpreters as interpreters
other = interpreters.create()
interpreters.run_string(other, "def work(): pass\\nfor _ in range(100): work()")
work()
interpreters.destroy(other)
""",
    "deep": """
sys.setrecursionlimit(20000)
def down(n): return leaf() if not n else down(n - 1)
down(9000)
work()
""",
}
TOGETHER = (
    ("cProfile", "trace", "setprofile", "monitoring", "bdb", "pdb"),
    ("coverage",),
    ("fork", "exec", "signals"),
    ("subinterpreter", "deep"),
)


@pytest.mark.native
@pytest.mark.parametrize("names", TOGETHER, ids=" ".join)
def test_nothing_breaks_beside(tmp_path, python, shared, names):
    parts = [f"def beside_{name}():\n" + textwrap.indent(TOOLS[name], "    ") for name in names]
    calls = [f"beside_{name}()" for name in names]
    site = f"SITE = {str(Path(coverage.__file__).parents[1])!r}"
    program = "\n".join([textwrap.dedent(WORK), site, *parts, *calls, "print('ended')\n"])

    counted = visits(measure(tmp_path, python, program, shared))

    for beside in calls:
        below = f"program.py->{beside.removesuffix('()')}->"
        assert {name: counted[below + name] for name in COUNTS} == COUNTS, beside


@pytest.mark.native
def test_subinterpreters_are_not_measured_and_named(tmp_path, python, shared):
    program = textwrap.dedent(WORK) + TOOLS["subinterpreter"] + "\nprint('ended')"

    table = measure(tmp_path, python, program, shared)

    here = Node(table.path.rpartition("/")[0])
    here.scan()
    ((code, text, where),) = here.bye(1, {}).findings
    assert (code, where) == ("subinterpreters", "rank 0")
    assert "1 subinterpreter:" in text
    assert visits(table)["program.py->work"] == 1


TRACED = """
import torch, torch._dynamo
def leaf(x): return torch.sin(x) + 1
def step(x): return leaf(x) * leaf(2 * x)
compiled = torch.compile(step, backend="eager", fullgraph=True)
x = torch.ones(8)
for _ in range(50): assert torch.equal(compiled(x), step(x))
assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
print("ended")
"""


@pytest.mark.native
def test_functions_that_torch_compiles_are_compiled_and_the_others_counted(
    tmp_path, python, shared
):
    if subprocess.run([python, "-c", "import torch"], capture_output=True, check=False).returncode:
        pytest.skip(f"no torch in {python}: install it, or name its folder in PYTHONPATH")

    counted = visits(measure(tmp_path, python, TRACED, shared))

    compiled = [n for path, n in counted.items() if path.endswith("compile_wrapper->step")]
    assert compiled == [50]
    assert (counted["program.py->step"], counted["program.py->step->leaf"]) == (50, 100)
    assert not any(path.endswith("compile_wrapper->step->leaf") for path in counted)


BY_HAND = """
import sys
sys.path.insert(0, {home!r})
{before}
from insitu.collectors import library
from insitu.collectors.function_timer import NativeTimer
from insitu.collectors.rank import RankInfo
from insitu.collectors.steering import Steering
timer = NativeTimer(library.load({shared!r}), {table!r}, RankInfo(0, 1), "program.py", "{{}}")
files = (sys.base_prefix + "/lib/", "", {home!r} + "/insitu/\\n" + {home!r} + "/collectors/")
timer.start(files, Steering(has_builtins={builtins}), lambda error: None)
from threading import Thread
{work}
def outer():
    work()
    sorted([3, 1, 2], key=lambda n: n)
    [].append(1)
    thread = Thread(target=work)
    thread.start()
    thread.join()
outer()
timer.end(0)
{after}
"""
EVALUATOR = """
extern void *_PyEval_EvalFrameDefault(void *, void *, int);
extern void *PyInterpreterState_Get(void);
extern void _PyInterpreterState_SetEvalFrameFunc(void *, void *(*)(void *, void *, int));
long calls;
static void *evaluate(void *state, void *frame, int is_throw) {
  calls++;
  return _PyEval_EvalFrameDefault(state, frame, is_throw);
}
void take(void) { _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(), evaluate); }
"""
ALL_TAKEN = """
if sys.version_info >= (3, 12):
    for tool in (3, 4): sys.monitoring.use_tool_id(tool, "taken")
else:
    import ctypes
    other = ctypes.PyDLL({other!r})
    other.take()
"""
OTHER_WORKS = """
if sys.version_info < (3, 12):
    assert ctypes.c_long.in_dll(other, "calls").value > 10
"""


def by_hand(tmp_path, python, shared, *, builtins=False, before="", after=""):
    """The table of a program that installs the hook itself, after `before`."""
    script, table = tmp_path / "program.py", tmp_path / "program.table"
    script.write_text(
        BY_HAND.format(
            home=str(HOME),
            before=before,
            after=after,
            shared=shared,
            table=str(table),
            builtins=builtins,
            work=textwrap.dedent(WORK),
        )
    )
    subprocess.run([python, str(script)], check=True, timeout=60, env={**os.environ})
    reader = TableReader(str(table))
    reader.new_rows()
    return reader


@pytest.mark.native
def test_the_profile_function_is_used_where_other_tools_use_the_rest(tmp_path, python, shared):
    other = build_evaluator(tmp_path)

    table = by_hand(
        tmp_path, python, shared, before=ALL_TAKEN.format(other=str(other)), after=OTHER_WORKS
    )

    counted = visits(table)
    assert table.header.hook.rstrip(b"\0") == b"profile"
    assert {name: counted[f"program.py->outer->{name}"] for name in COUNTS} == COUNTS
    assert {name: counted[f"program.py->(thread)->{name}"] for name in COUNTS} == COUNTS


@pytest.mark.native
def test_c_functions_are_leaves_with_the_option_builtins(tmp_path, python, shared):
    counted = visits(by_hand(tmp_path, python, shared, builtins=True))

    assert counted["program.py->outer->work->leaf"] == 10
    assert counted["program.py->outer->work->next->numbers"] == 1
    assert counted["program.py->outer->work->generator.close"] == 1
    assert counted["program.py->outer->sorted"] == 1
    assert counted["program.py->outer->sorted->outer.<locals>.<lambda>"] == 3
    assert counted["program.py->outer->list.append"] == 1
    assert not any("insitu" in path for path in counted)


@pytest.mark.native
@pytest.mark.parametrize("python", ["3.11"], indirect=True)
def test_an_evaluator_that_came_later_keeps_its_place(tmp_path, python, shared):
    source, other = tmp_path / "other.c", tmp_path / "other.so"
    chained = EVALUATOR.replace(
        "  return _PyEval_EvalFrameDefault(state,", "  return before(state,"
    ).replace("long calls;", "long calls;\nstatic void *(*before)(void *, void *, int);")
    chained = chained.replace(
        "void take(void) {",
        "extern void *(*_PyInterpreterState_GetEvalFrameFunc(void *))(void *, void *, int);\n"
        "void take(void) {\n"
        "  before = _PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Get());\n",
    )
    source.write_text(chained)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", other, source], check=True)
    program = textwrap.dedent(WORK) + textwrap.dedent(f"""
        import ctypes
        other = ctypes.PyDLL({str(other)!r})
        calls = lambda: ctypes.c_long.in_dll(other, "calls").value
        def down(n): return leaf() if not n else down(n - 1)
        other.take()
        sys.setrecursionlimit(20000)
        down(3000)
        before = calls()
        work()
        assert calls() > before + 10
        print("ended")
        """)

    counted = visits(measure(tmp_path, python, program, shared))

    assert {name: counted[f"program.py->{name}"] for name in COUNTS} == COUNTS


def build_evaluator(tmp_path, *more):
    """Compile a library that sets an evaluator, which counts calls, and gives the slot up again."""
    source, other = tmp_path / "other.c", tmp_path / "other.so"
    source.write_text(EVALUATOR + "".join(more))
    subprocess.run(["cc", "-shared", "-fPIC", "-o", other, source], check=True)
    return other


GIVE_UP = """
void give_up(void) {
  _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(),
                                       (void *(*)(void *, void *, int))_PyEval_EvalFrameDefault);
}
"""


@pytest.mark.native
@pytest.mark.parametrize("python", ["3.11"], indirect=True)
def test_calls_below_other_evaluators_are_counted(tmp_path, python, shared):
    other = build_evaluator(tmp_path, GIVE_UP)
    program = textwrap.dedent(f"""
        import ctypes, sys
        other = ctypes.PyDLL({str(other)!r})
        calls = lambda: ctypes.c_long.in_dll(other, "calls").value
        take, give_up = other.take, other.give_up
        def leaf(): pass
        def many():
            for _ in range(10): leaf()
        def down(n): return leaf() if not n else down(n - 1)
        for _ in range(3):
            before = calls()
            take()
            many()
            give_up()
            assert calls() == before + 11, calls()
            many()
        sys.setrecursionlimit(20000)
        take()
        down(3000)
        give_up()
        many()
        print("ended")
        """)

    table = measure(tmp_path, python, program, shared)

    counted = visits(table)
    assert counted["program.py->many"] == 7
    assert counted["program.py->many->leaf"] == 70
    assert not table.header.evaluator_replaced


@pytest.mark.native
@pytest.mark.parametrize("python", ["3.11"], indirect=True)
def test_an_evaluator_that_is_replaced_unseen_is_reported(tmp_path, python, shared):
    """The library looks the function up itself, in a way that nothing of ours sees."""
    other = build_evaluator(
        tmp_path,
        """
void take_unseen(void *set) {
  ((void (*)(void *, void *))set)(PyInterpreterState_Get(), (void *)_PyEval_EvalFrameDefault);
}
""",
    )
    program = textwrap.dedent(f"""
        import ctypes, os
        other = ctypes.PyDLL({str(other)!r})
        library = ctypes.pythonapi
        offset = {evaluator_offset(python)}
        known = ctypes.cast(library.PyInterpreterState_Get, ctypes.c_void_p).value
        other.take_unseen(ctypes.c_void_p(known + offset))
        def lost(): pass
        lost()
        print("ended")
        """)

    table = measure(tmp_path, python, program, shared)

    assert "program.py->lost" not in visits(table)
    assert table.header.evaluator_replaced


def evaluator_offset(python):
    """How far the function that sets the evaluator lies behind one that nobody replaces."""
    code = (
        "import ctypes; at = lambda name: ctypes.cast(getattr(ctypes.pythonapi, name),"
        " ctypes.c_void_p).value;"
        "print(at('_PyInterpreterState_SetEvalFrameFunc') - at('PyInterpreterState_Get'))"
    )
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    return int(done.stdout)
