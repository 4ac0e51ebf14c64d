"""Rewrites the source of a program so that it counts, in a hook of the import system."""

import ast
import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType

from insitu.collectors.counting import counters

TYPE_CHECKING = False  # typing is not loaded in a rank
if TYPE_CHECKING:
    from typing import Any

PREFIX = "_insitu_"
TOKEN = PREFIX + "caller"  # a local variable of each function: its caller's path
# These functions inspect the frame of their caller, so they must be called directly.
FRAME_BOUND = frozenset({"super", "locals", "globals", "vars", "dir", "eval", "exec", "breakpoint"})
Loop = ast.For | ast.While
Function = ast.FunctionDef | ast.AsyncFunctionDef
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


class Rewriter(ast.NodeTransformer):
    """Adds counting to loops, functions, comprehensions, array operations and calls."""

    runtime = counters  # the module with the functions that rewritten code calls
    functions: tuple[str, ...] = (
        "enter",
        "leave",
        "add",
        "result",
        "product",
        "iterate",
        "call",
        "start",
        "suspend",
        "resume",
        "end",
        "add_to",
    )

    def __init__(self, module: str = "") -> None:
        self._loops = 0
        self._in_class = False
        self._in_generator = False
        self._names = [module] if module else []  # the parts of __qualname__

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Count visits, and count what happens inside for this call path."""
        return self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        """Rewrite like any function."""
        return self._function(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        """Rewrite the methods; add no counters to loops, whose variables would be attributes."""
        before, self._in_class = self._in_class, True
        self._names.append(node.name)
        node.body = [self.visit(statement) for statement in node.body]
        self._names.pop()
        self._in_class = before
        return node

    def visit_For(self, node: ast.For) -> "ast.AST | list[ast.stmt]":
        """Count iterations."""
        self.generic_visit(node)
        return self._loop(node, node.lineno)

    def visit_While(self, node: ast.While) -> "ast.AST | list[ast.stmt]":
        """Count iterations."""
        self.generic_visit(node)
        return self._loop(node, node.lineno)

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        """Count what it does where it is called. A yield in it does not belong to this function."""
        before, self._in_generator = self._in_generator, False
        self.generic_visit(node)
        self._in_generator = before
        return node

    def visit_Yield(self, node: ast.Yield) -> ast.AST:
        """Suspend the generator while its caller runs."""
        self.generic_visit(node)
        return self._suspended(node)

    def visit_YieldFrom(self, node: ast.YieldFrom) -> ast.AST:
        """Suspend the generator: the inner one counts for the caller, which asks for values."""
        self.generic_visit(node)
        return self._suspended(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        """Rewrite the value, not the annotation."""
        if node.value is not None:
            node.value = self.visit(node.value)
        return node

    def visit_match_case(self, node: ast.match_case) -> ast.AST:
        """Rewrite guard and body, not the pattern."""
        node.guard = self.visit(node.guard) if node.guard else None
        node.body = self._body(node.body)
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        """Count the elements of the result, or the multiplications of a matrix product."""
        self.generic_visit(node)
        if isinstance(node.op, ast.MatMult):
            site = ast.Constant(f"array:{node.lineno}")
            return ast.copy_location(invoke("product", site, node.left, node.right), node)
        return _result(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        """Count the elements of the result."""
        self.generic_visit(node)
        is_constant = isinstance(node.operand, ast.Constant)
        return node if is_constant else _result(node)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """Count the elements of the result."""
        self.generic_visit(node)
        return _result(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> "ast.AST | list[ast.stmt]":
        """Count the elements of an array that is modified in place."""
        self.generic_visit(node)
        return self._with_target(node, node.target)

    def visit_Assign(self, node: ast.Assign) -> "ast.AST | list[ast.stmt]":
        """Count the elements of a slice that is assigned to."""
        self.generic_visit(node)
        target = node.targets[0]
        if isinstance(target, ast.Subscript) and has_slice(target):
            return self._with_target(node, target)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Count the sizes of arguments of library functions."""
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in FRAME_BOUND:
            return node
        site = ast.Constant(f"call:{node.lineno}")
        name = ast.Name(PREFIX + "call", ast.Load())
        return ast.copy_location(ast.Call(name, [site, node.func, *node.args], node.keywords), node)

    def visit_ListComp(self, node: ast.ListComp) -> ast.AST:
        """Count iterations."""
        return self._comprehension(node)

    def visit_SetComp(self, node: ast.SetComp) -> ast.AST:
        """Count iterations."""
        return self._comprehension(node)

    def visit_DictComp(self, node: ast.DictComp) -> ast.AST:
        """Count iterations."""
        return self._comprehension(node)

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> ast.AST:
        """Count iterations."""
        return self._comprehension(node)

    def _function(self, node: Function) -> ast.AST:
        before = self._in_class, self._in_generator
        # Decorators and defaults are evaluated outside the function.
        node.decorator_list = [self.visit(decorator) for decorator in node.decorator_list]
        node.args.defaults = [self.visit(default) for default in node.args.defaults]
        node.args.kw_defaults = [
            default and self.visit(default) for default in node.args.kw_defaults
        ]

        is_coroutine = isinstance(node, ast.AsyncFunctionDef)
        is_generator = not is_coroutine and _yields(node)
        self._in_class, self._in_generator = False, is_generator
        name = ".".join([*self._names, node.name])
        self._names += [node.name, "<locals>"]

        has_docstring = ast.get_docstring(node, clean=False) is not None
        docstring, body = node.body[:has_docstring], self._body(node.body[has_docstring:])
        if not is_coroutine:
            first, last = ("start", "end") if is_generator else ("enter", "leave")
            begin = ast.Assign([ast.Name(TOKEN, ast.Store())], invoke(first, ast.Constant(name)))
            end: list[ast.stmt] = [ast.Expr(invoke(last, ast.Name(TOKEN, ast.Load())))]
            counted = ast.Try(body=body or [ast.Pass()], handlers=[], orelse=[], finalbody=end)
            body = [begin, counted]
        node.body = [*docstring, *body]

        del self._names[-2:]
        self._in_class, self._in_generator = before
        return node

    def _suspended(self, node: "ast.Yield | ast.YieldFrom") -> ast.AST:
        """Call `suspend` before and `resume` after a yield."""
        if not self._in_generator:
            return node
        value = node.value or ast.Constant(None)
        node.value = invoke("suspend", ast.Name(TOKEN, ast.Load()), value)
        return ast.copy_location(invoke("resume", ast.Name(TOKEN, ast.Load()), node), node)

    def _body(self, body: list[ast.stmt]) -> list[ast.stmt]:
        rewritten: list[ast.stmt] = []
        for statement in body:
            new = self.visit(statement)
            rewritten += new if isinstance(new, list) else [new]
        return rewritten

    def _loop(self, node: Loop, line: int) -> "ast.AST | list[ast.stmt]":
        """Count iterations in a local variable, and add them when the loop ends.

        The counter is added in a `finally` block: a loop may end by break, return or an exception.
        """
        if self._in_class:
            return node

        self._loops += 1
        name = f"{PREFIX}n{self._loops}"
        start = ast.Assign([ast.Name(name, ast.Store())], ast.Constant(0))
        step = ast.AugAssign(ast.Name(name, ast.Store()), ast.Add(), ast.Constant(1))
        node.body = [step, *node.body]

        function, target = "add", []
        if self._in_generator:  # it may be closed, and its loops ended, from another call path
            function, target = "add_to", [ast.Name(TOKEN, ast.Load())]
        counts = (
            (f"loop:{line}", ast.Name(name, ast.Load())),
            (f"entries:{line}", ast.Constant(1)),
        )
        adding: list[ast.stmt] = []
        for site, amount in counts:
            adding.append(ast.Expr(invoke(function, *target, ast.Constant(site), amount)))
        counted = ast.Try(body=[node], handlers=[], orelse=[], finalbody=adding)
        return [ast.copy_location(start, node), ast.copy_location(counted, node)]

    def _with_target(self, node: ast.stmt, target: ast.expr) -> "ast.AST | list[ast.stmt]":
        """A statement, followed by a call that counts the elements of its target.

        The target is evaluated a second time, so it must have no side effects.
        """
        if self._in_class or has_side_effects(target):
            return node
        value = as_value(target)
        site = ast.Constant(f"array:{target.lineno}")
        return [node, ast.copy_location(ast.Expr(invoke("result", site, value)), node)]

    def _comprehension(self, node: Comprehension) -> ast.AST:
        self.generic_visit(node)
        for generator in node.generators:
            if not generator.is_async:
                site = ast.Constant(f"loop:{node.lineno}:{generator.iter.col_offset}")
                generator.iter = invoke("iterate", site, generator.iter)
        return node


def _result(node: ast.expr) -> ast.expr:
    """A call around an expression that counts the elements of its value."""
    site = ast.Constant(f"array:{node.lineno}")
    return ast.copy_location(invoke("result", site, node), node)


def invoke(name: str, *args: ast.expr) -> ast.Call:
    """A call of a function of the runtime module."""
    return ast.Call(ast.Name(PREFIX + name, ast.Load()), list(args), [])


def has_side_effects(target: ast.expr) -> bool:
    """Whether evaluating the expression a second time could change something."""
    return any(isinstance(node, ast.Call | ast.NamedExpr) for node in ast.walk(target))


def has_slice(target: ast.Subscript) -> bool:
    """Whether a subscript contains a slice."""
    indices = target.slice.elts if isinstance(target.slice, ast.Tuple) else [target.slice]
    return any(isinstance(index, ast.Slice) for index in indices)


def as_value(target: ast.expr) -> ast.expr:
    """The target of an assignment as an expression that is evaluated."""
    return ast.parse(ast.unparse(target), mode="eval").body


def _yields(node: Function) -> bool:
    """Whether a function is a generator."""
    pending: list[ast.AST] = list(node.body)
    while pending:
        child = pending.pop()
        if isinstance(child, ast.Yield | ast.YieldFrom):
            return True
        if not isinstance(child, Function | ast.Lambda | ast.ClassDef):
            pending += ast.iter_child_nodes(child)
    return False


def compile_counted(
    source: bytes | str, path: str, rewriter: type[Rewriter] = Rewriter, module: str = ""
) -> CodeType:
    """Compile a module with counting; its functions are named `module.name`.

    Raises:
        SyntaxError: the source is not valid.
    """
    tree = ast.parse(source, path)
    counters.rewritten.add(path)
    counted = ast.fix_missing_locations(rewriter(module).visit(tree))
    return compile(counted, path, "exec", dont_inherit=True)


def namespace(rewriter: type[Rewriter] = Rewriter) -> "dict[str, Any]":
    """The functions that rewritten code calls, by the names that it uses."""
    return {PREFIX + name: getattr(rewriter.runtime, name) for name in rewriter.functions}


class CountedLoader(SourceFileLoader):
    """Loads a module of the program with counting; reads and writes no .pyc files."""

    def __init__(self, fullname: str, path: str, rewriter: type[Rewriter]) -> None:
        super().__init__(fullname, path)
        self._rewriter = rewriter

    def path_stats(self, path: str) -> "dict[str, Any]":
        """Refuse, so that no .pyc file is used.

        Raises:
            OSError: always.
        """
        raise OSError("counted modules have no .pyc file")

    def source_to_code(  # type: ignore[override]  # static in a base class
        self, data: "Any", path: "Any", fullname: "str | None" = None, *, _optimize: int = -1
    ) -> CodeType:
        """Compile the module with counting. Python 3.15 and later also pass its name."""
        return compile_counted(data, os.fspath(path), self._rewriter, self.name)

    def exec_module(self, module: ModuleType) -> None:
        """Run the module with the functions that it calls."""
        vars(module).update(namespace(self._rewriter))
        super().exec_module(module)


class CountedFinder(MetaPathFinder):
    """Finds the program's own modules, those below `top`, and loads them with counting."""

    def __init__(self, top: str, rewriter: type[Rewriter]) -> None:
        self._top = os.path.join(os.path.realpath(top), "")
        self._rewriter = rewriter

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a module of the program; None for any other, which the next finder finds."""
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or not isinstance(spec.loader, SourceFileLoader) or not spec.origin:
            return None

        file = os.path.realpath(spec.origin)
        is_library = "site-packages" in file or "dist-packages" in file
        if is_library or not file.startswith(self._top) or fullname.startswith("insitu."):
            return None

        spec.loader = CountedLoader(fullname, spec.origin, self._rewriter)
        return spec


def install(top: str, rewriter: type[Rewriter] = Rewriter) -> None:
    """Load all modules below the folder `top` with counting from now on."""
    sys.meta_path.insert(0, CountedFinder(top, rewriter))
