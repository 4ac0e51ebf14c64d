"""Rewriting a program's source so that values carry labels, see `labels`."""

import ast

from insitu.collectors.counting import labels
from insitu.collectors.counting.rewrite import (
    Comprehension,
    Rewriter,
    has_slice,
    invoke,
    may_do_more,
)

SIZES = frozenset({"size", "shape", "nbytes", "T", "flat", "real", "imag"})
OPERATORS: dict[type, str] = {
    **{ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.Pow: "pow"},
    **{ast.FloorDiv: "floordiv", ast.Mod: "mod", ast.MatMult: "matmul", ast.USub: "neg"},
    **{ast.LShift: "lshift", ast.RShift: "rshift", ast.UAdd: "pos", ast.Invert: "invert"},
    **{ast.BitAnd: "and_", ast.BitOr: "or_", ast.BitXor: "xor"},
}


class Labeller(Rewriter):
    """Makes operators, calls, parts and sizes of arrays, loops and decisions pass labels on."""

    runtime = labels
    functions = (
        *(
            "enter",
            "leave",
            "start",
            "suspend",
            "resume",
            "end",
            "attribute",
            "call",
            "decide",
            "gather",
            "gathering",
            "get",
        ),
        *("iterate", "operate", "over", "section"),
    )

    def visit_For(self, node: ast.For) -> ast.AST:
        """Mark by what it runs over."""
        self.generic_visit(node)
        node.iter = invoke("iterate", node.iter)
        return node

    def visit_While(self, node: ast.While) -> ast.AST:
        """Mark by what decides."""
        return self._decision(node)

    def visit_If(self, node: ast.If) -> ast.AST:
        """Mark by what decides."""
        return self._decision(node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        """Mark by what decides."""
        return self._decision(node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        """The result has the labels of both."""
        self.generic_visit(node)
        name = ast.Constant(OPERATORS[type(node.op)])
        return ast.copy_location(invoke("operate", name, node.left, node.right), node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        """The result has the labels of the operand."""
        self.generic_visit(node)
        if isinstance(node.operand, ast.Constant):
            return node
        if isinstance(node.op, ast.Not):
            node.operand = invoke("decide", node.operand)
            return node
        name = ast.Constant(OPERATORS[type(node.op)])
        return ast.copy_location(invoke("operate", name, node.operand), node)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """Mark by what is compared."""
        self.generic_visit(node)
        node.left = invoke("decide", node.left)
        node.comparators = [invoke("decide", one) for one in node.comparators]
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> "ast.AST | list[ast.stmt]":
        """What changes in place has the labels of both, where it is a name or an attribute."""
        target = node.target
        is_plain = isinstance(target, ast.Name) or (
            isinstance(target, ast.Attribute)
            and isinstance(target.value, ast.Name)
            and not target.attr.startswith("__")
        )
        if not is_plain:
            return self._looked_at(node, target)
        name = ast.Constant("i" + OPERATORS[type(node.op)].rstrip("_"))
        before = ast.parse(ast.unparse(target), mode="eval").body
        value = invoke("operate", name, before, self.visit(node.value))
        return ast.copy_location(ast.Assign([target], value), node)

    def visit_Assign(self, node: ast.Assign) -> "ast.AST | list[ast.stmt]":
        """A slice that is assigned to is work."""
        target = node.targets[0]
        if isinstance(target, ast.Subscript) and has_slice(target):
            return self._looked_at(node, target)
        return self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """A part has the labels of the whole and of the index."""
        self.generic_visit(node)
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if not isinstance(node.ctx, ast.Load) or any(isinstance(o, ast.Starred) for o in parts):
            return node
        index = [_index(part) for part in parts]
        whole = ast.Tuple(index, ast.Load()) if isinstance(node.slice, ast.Tuple) else index[0]
        return ast.copy_location(invoke("get", node.value, whole), node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """Sizes have the labels of what they are sizes of."""
        self.generic_visit(node)
        if node.attr not in SIZES or not isinstance(node.ctx, ast.Load):
            return node
        return ast.copy_location(invoke("attribute", node.value, ast.Constant(node.attr)), node)

    def _decision(self, node: "ast.While | ast.If | ast.IfExp") -> ast.AST:
        self.generic_visit(node)
        node.test = invoke("decide", node.test)
        return node

    def _looked_at(self, node: "ast.Assign | ast.AugAssign", target: ast.expr) -> list[ast.stmt]:
        """A statement, then a mark by the size of what it changed."""
        look = ast.parse(ast.unparse(target), mode="eval").body
        self.generic_visit(node)
        if self._in_class or may_do_more(look):
            return [node]
        mark = ast.Expr(invoke("iterate", self.visit(look)))
        return [node, ast.copy_location(mark, node)]

    def _comprehension(self, node: Comprehension) -> ast.AST:
        """What it makes is as long as what it runs over."""
        self.generic_visit(node)
        is_lazy = isinstance(node, ast.GeneratorExp)
        for one in node.generators:
            if not one.is_async:
                one.iter = invoke("iterate" if is_lazy else "over", one.iter)
        if is_lazy:
            return node
        return ast.copy_location(invoke("gather", invoke("gathering"), node), node)


def _index(part: ast.expr) -> ast.expr:
    """An index as a value: slices by the name that builds them."""
    if not isinstance(part, ast.Slice):
        return part
    ends = [end or ast.Constant(None) for end in (part.lower, part.upper, part.step)]
    return ast.copy_location(invoke("section", *ends), part)
