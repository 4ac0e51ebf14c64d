"""Rewriting a program's source so that it counts, and the import hook that does it."""

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
TOKEN = PREFIX + "before"  # of a function: where it was called from
# These look at the frame that calls them.
FRAME_BOUND = frozenset({"super", "locals", "globals", "vars", "dir", "eval", "exec", "breakpoint"})
Loop = ast.For | ast.While
Function = ast.FunctionDef | ast.AsyncFunctionDef
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


class Rewriter(ast.NodeTransformer):
    """Makes loops, functions, comprehensions, array operations and calls count."""

    runtime = counters  # where the functions are that rewritten code calls
    functions: tuple[str, ...] = (
        *("enter", "leave", "add", "result", "product", "iterate", "call"),
        *("start", "suspend", "resume", "end", "add_to"),
    )

    def __init__(self, module: str = "") -> None:
        self._loops = 0
        self._in_class = False
        self._in_generator = False
        self._names = [module] if module else []  # as a function's __qualname__ has them

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Count visits, and let what happens inside count for this call path."""
        return self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        """As any function."""
        return self._function(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        """A body of a class keeps its names to itself: no counters of loops there."""
        before, self._in_class = self._in_class, True
        self._names.append(node.name)
        node.body = [self.visit(one) for one in node.body]
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
        """A yield in it is its own; what it does counts where it is called."""
        before, self._in_generator = self._in_generator, False
        self.generic_visit(node)
        self._in_generator = before
        return node

    def visit_Yield(self, node: ast.Yield) -> ast.AST:
        """A generator is left while it waits to be asked."""
        self.generic_visit(node)
        return self._left_meanwhile(node)

    def visit_YieldFrom(self, node: ast.YieldFrom) -> ast.AST:
        """Whom a generator asks in its place counts where it is asked itself."""
        self.generic_visit(node)
        return self._left_meanwhile(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        """Annotations stay as they are."""
        if node.value is not None:
            node.value = self.visit(node.value)
        return node

    def visit_match_case(self, node: ast.match_case) -> ast.AST:
        """Patterns stay as they are."""
        node.guard = self.visit(node.guard) if node.guard else None
        node.body = self._body(node.body)
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        """Count the elements of a result; a product of matrices counts what it is given."""
        self.generic_visit(node)
        if isinstance(node.op, ast.MatMult):
            site = ast.Constant(f"array:{node.lineno}")
            return ast.copy_location(invoke("product", site, node.left, node.right), node)
        return _result(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        """Count the elements of a result."""
        self.generic_visit(node)
        is_constant = isinstance(node.operand, ast.Constant)
        return node if is_constant else _result(node)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """Count the elements of a result."""
        self.generic_visit(node)
        return _result(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> "ast.AST | list[ast.stmt]":
        """Count the elements of an array that is changed in place."""
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
        """Count what a function of a library is given."""
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
        node.decorator_list = [self.visit(one) for one in node.decorator_list]
        node.args.defaults = [self.visit(one) for one in node.args.defaults]
        node.args.kw_defaults = [one and self.visit(one) for one in node.args.kw_defaults]
        is_coroutine = isinstance(node, ast.AsyncFunctionDef)
        is_generator = not is_coroutine and _yields(node)
        self._in_class, self._in_generator = False, is_generator
        name = ".".join([*self._names, node.name])
        self._names += [node.name, "<locals>"]
        has_text = ast.get_docstring(node, clean=False) is not None
        text, rest = node.body[:has_text], node.body[has_text:]
        rest = self._body(rest)
        if not is_coroutine:
            first, last = ("start", "end") if is_generator else ("enter", "leave")
            begin = ast.Assign([ast.Name(TOKEN, ast.Store())], invoke(first, ast.Constant(name)))
            end: list[ast.stmt] = [ast.Expr(invoke(last, ast.Name(TOKEN, ast.Load())))]
            rest = [
                begin,
                ast.Try(body=rest or [ast.Pass()], handlers=[], orelse=[], finalbody=end),
            ]
        node.body = [*text, *rest]
        del self._names[-2:]
        self._in_class, self._in_generator = before
        return node

    def _left_meanwhile(self, node: "ast.Yield | ast.YieldFrom") -> ast.AST:
        if not self._in_generator:
            return node
        value = node.value or ast.Constant(None)
        node.value = invoke("suspend", ast.Name(TOKEN, ast.Load()), value)
        return ast.copy_location(invoke("resume", ast.Name(TOKEN, ast.Load()), node), node)

    def _body(self, body: list[ast.stmt]) -> list[ast.stmt]:
        found: list[ast.stmt] = []
        for one in body:
            new = self.visit(one)
            found += new if isinstance(new, list) else [new]
        return found

    def _loop(self, node: Loop, line: int) -> "ast.AST | list[ast.stmt]":
        if self._in_class:
            return node
        self._loops += 1
        name = f"{PREFIX}n{self._loops}"
        start = ast.Assign([ast.Name(name, ast.Store())], ast.Constant(0))
        step = ast.AugAssign(ast.Name(name, ast.Store()), ast.Add(), ast.Constant(1))
        node.body = [step, *node.body]
        how: tuple[str, list[ast.expr]] = ("add", [])
        if self._in_generator:  # which may be closed by somebody who has nothing to do with it
            how = ("add_to", [ast.Name(TOKEN, ast.Load())])
        sites = (f"loop:{line}", ast.Name(name, ast.Load())), (f"entries:{line}", ast.Constant(1))
        done: list[ast.stmt] = [
            ast.Expr(invoke(how[0], *how[1], ast.Constant(site), amount)) for site, amount in sites
        ]
        counted = ast.Try(body=[node], handlers=[], orelse=[], finalbody=done)
        return [ast.copy_location(one, node) for one in (start, counted)]

    def _with_target(self, node: ast.stmt, target: ast.expr) -> "ast.AST | list[ast.stmt]":
        """A statement, then a look at what it changed; not where looking would do more."""
        if self._in_class or may_do_more(target):
            return node
        look = _loading(target)
        site = ast.Constant(f"array:{target.lineno}")
        return [node, ast.copy_location(ast.Expr(invoke("result", site, look)), node)]

    def _comprehension(self, node: Comprehension) -> ast.AST:
        self.generic_visit(node)
        for one in node.generators:
            if not one.is_async:
                site = ast.Constant(f"loop:{node.lineno}:{one.iter.col_offset}")
                one.iter = invoke("iterate", site, one.iter)
        return node


def _result(node: ast.expr) -> ast.expr:
    """A call around an expression, which counts the elements of its value and answers it."""
    site = ast.Constant(f"array:{node.lineno}")
    return ast.copy_location(invoke("result", site, node), node)


def invoke(name: str, *args: ast.expr) -> ast.Call:
    """A call of one of the functions of the runtime."""
    return ast.Call(ast.Name(PREFIX + name, ast.Load()), list(args), [])


def may_do_more(target: ast.expr) -> bool:
    """Whether evaluating it a second time could change something."""
    return any(isinstance(one, ast.Call | ast.NamedExpr) for one in ast.walk(target))


def has_slice(target: ast.Subscript) -> bool:
    """Whether a part of an array is meant."""
    parts = target.slice.elts if isinstance(target.slice, ast.Tuple) else [target.slice]
    return any(isinstance(part, ast.Slice) for part in parts)


def _loading(target: ast.expr) -> ast.expr:
    """The same expression as a value."""
    text = ast.unparse(target)
    return ast.parse(text, mode="eval").body


def _yields(node: Function) -> bool:
    """Whether it is a generator."""
    waiting: list[ast.AST] = list(node.body)
    while waiting:
        one = waiting.pop()
        if isinstance(one, ast.Yield | ast.YieldFrom):
            return True
        if not isinstance(one, Function | ast.Lambda | ast.ClassDef):
            waiting += ast.iter_child_nodes(one)
    return False


def compile_counted(
    source: bytes | str, path: str, rewriter: type[Rewriter] = Rewriter, module: str = ""
) -> CodeType:
    """Compile a module so that it counts; its functions are called `module.name`.

    Raises:
        SyntaxError: as compile does.
    """
    tree = ast.parse(source, path)
    counters.rewritten.add(path)
    counted = ast.fix_missing_locations(rewriter(module).visit(tree))
    return compile(counted, path, "exec", dont_inherit=True)


def namespace(rewriter: type[Rewriter] = Rewriter) -> "dict[str, Any]":
    """The names that rewritten code uses."""
    return {PREFIX + name: getattr(rewriter.runtime, name) for name in rewriter.functions}


class CountedLoader(SourceFileLoader):
    """Loads a module of the program so that it counts; compiled files are neither used nor made."""

    def __init__(self, fullname: str, path: str, rewriter: type[Rewriter]) -> None:
        super().__init__(fullname, path)
        self._rewriter = rewriter

    def path_stats(self, path: str) -> "dict[str, Any]":
        """There is no compiled file to compare with.

        Raises:
            OSError: always, as where a file has no dates.
        """
        raise OSError("counted modules have no compiled file")

    def source_to_code(  # type: ignore[override]  # one of its bases has it static
        self, data: "Any", path: "Any", *, _optimize: int = -1
    ) -> CodeType:
        """Compile what counts."""
        return compile_counted(data, os.fspath(path), self._rewriter, self.name)

    def exec_module(self, module: ModuleType) -> None:
        """Run it with the names that it uses."""
        vars(module).update(namespace(self._rewriter))
        super().exec_module(module)


class CountedFinder(MetaPathFinder):
    """Finds the program's own modules, those below `top`, and lets them count."""

    def __init__(self, top: str, rewriter: type[Rewriter]) -> None:
        self._top = os.path.join(os.path.realpath(top), "")
        self._rewriter = rewriter

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """As the usual finder; others find what is not the program's."""
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or not isinstance(spec.loader, SourceFileLoader) or not spec.origin:
            return None
        place = os.path.realpath(spec.origin)
        is_library = any(part in place for part in ("site-packages", "dist-packages"))
        if is_library or not place.startswith(self._top) or fullname.startswith("insitu."):
            return None
        spec.loader = CountedLoader(fullname, spec.origin, self._rewriter)
        return spec


def install(top: str, rewriter: type[Rewriter] = Rewriter) -> None:
    """Let all modules below the folder `top` count from now on."""
    sys.meta_path.insert(0, CountedFinder(top, rewriter))
