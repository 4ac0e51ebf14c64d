"""Rewrites the source of a program so that values carry labels, see `labels`."""

import ast

from insitu.collectors.counting import labels
from insitu.collectors.counting.rewrite import (
    Comprehension,
    Rewriter,
    as_value,
    has_side_effects,
    has_slice,
    invoke,
)

# Attributes that are a size of an array, or the same array in another shape.
SIZE_ATTRIBUTES = frozenset({"size", "shape", "nbytes", "T", "flat", "real", "imag"})
OPERATORS: dict[type, str] = {  # functions of the module operator
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "truediv",
    ast.Pow: "pow",
    ast.FloorDiv: "floordiv",
    ast.Mod: "mod",
    ast.MatMult: "matmul",
    ast.LShift: "lshift",
    ast.RShift: "rshift",
    ast.BitAnd: "and_",
    ast.BitOr: "or_",
    ast.BitXor: "xor",
    ast.USub: "neg",
    ast.UAdd: "pos",
    ast.Invert: "invert",
}


class Labeller(Rewriter):
    """Propagates labels through operators, calls, indexing, sizes of arrays, loops and branches."""

    runtime = labels
    functions = (
        "enter",
        "leave",
        "start",
        "suspend",
        "resume",
        "end",
        "attribute",
        "begin_comprehension",
        "call",
        "decide",
        "end_comprehension",
        "get",
        "iterate",
        "iterate_comprehension",
        "operate",
        "section",
    )

    def visit_For(self, node: ast.For) -> ast.AST:
        """Mark by the values that the loop iterates over."""
        self.generic_visit(node)
        node.iter = invoke("iterate", node.iter)
        return node

    def visit_While(self, node: ast.While) -> ast.AST:
        """Mark by the condition."""
        return self._decision(node)

    def visit_If(self, node: ast.If) -> ast.AST:
        """Mark by the condition."""
        return self._decision(node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        """Mark by the condition."""
        return self._decision(node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        """Give the result the labels of both operands."""
        self.generic_visit(node)
        name = ast.Constant(OPERATORS[type(node.op)])
        return ast.copy_location(invoke("operate", name, node.left, node.right), node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        """Give the result the labels of the operand."""
        self.generic_visit(node)
        if isinstance(node.operand, ast.Constant):
            return node
        if isinstance(node.op, ast.Not):
            node.operand = invoke("decide", node.operand)
            return node
        name = ast.Constant(OPERATORS[type(node.op)])
        return ast.copy_location(invoke("operate", name, node.operand), node)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """Mark by the operands."""
        self.generic_visit(node)
        node.left = invoke("decide", node.left)
        node.comparators = [invoke("decide", operand) for operand in node.comparators]
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> "ast.AST | list[ast.stmt]":
        """Give a name or attribute that is modified in place the labels of both operands."""
        target = node.target

        # Other targets are evaluated only once, by the statement itself.
        is_plain = isinstance(target, ast.Name) or (
            isinstance(target, ast.Attribute)
            and isinstance(target.value, ast.Name)
            and not target.attr.startswith("__")
        )
        if not is_plain:
            return self._marked_by_size(node, target)

        name = ast.Constant("i" + OPERATORS[type(node.op)].rstrip("_"))
        value = invoke("operate", name, as_value(target), self.visit(node.value))
        return ast.copy_location(ast.Assign([target], value), node)

    def visit_Assign(self, node: ast.Assign) -> "ast.AST | list[ast.stmt]":
        """Mark by the size of a slice that is assigned to."""
        target = node.targets[0]
        if isinstance(target, ast.Subscript) and has_slice(target):
            return self._marked_by_size(node, target)
        return self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """Give an element or a slice the labels of the container and of the index."""
        self.generic_visit(node)
        is_tuple = isinstance(node.slice, ast.Tuple)
        items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        has_star = any(isinstance(item, ast.Starred) for item in items)
        if not isinstance(node.ctx, ast.Load) or has_star:
            return node

        values = [_index_value(item) for item in items]
        index = ast.Tuple(values, ast.Load()) if is_tuple else values[0]
        return ast.copy_location(invoke("get", node.value, index), node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """Give a size the labels of the array."""
        self.generic_visit(node)
        if node.attr not in SIZE_ATTRIBUTES or not isinstance(node.ctx, ast.Load):
            return node
        return ast.copy_location(invoke("attribute", node.value, ast.Constant(node.attr)), node)

    def _decision(self, node: "ast.While | ast.If | ast.IfExp") -> ast.AST:
        self.generic_visit(node)
        node.test = invoke("decide", node.test)
        return node

    def _marked_by_size(
        self, node: "ast.Assign | ast.AugAssign", target: ast.expr
    ) -> list[ast.stmt]:
        """A statement, followed by a mark by the size of its target."""
        value = as_value(target)
        self.generic_visit(node)
        if self._in_class or has_side_effects(value):
            return [node]
        mark = ast.Expr(invoke("iterate", self.visit(value)))
        return [node, ast.copy_location(mark, node)]

    def _comprehension(self, node: Comprehension) -> ast.AST:
        """Give the length of the result the labels of what the comprehension iterates over."""
        self.generic_visit(node)
        is_lazy = isinstance(node, ast.GeneratorExp)
        function = "iterate" if is_lazy else "iterate_comprehension"
        for generator in node.generators:
            if not generator.is_async:
                generator.iter = invoke(function, generator.iter)
        if is_lazy:
            return node
        begin = invoke("begin_comprehension")
        return ast.copy_location(invoke("end_comprehension", begin, node), node)


def _index_value(index: ast.expr) -> ast.expr:
    """An index as an expression; a slice as a call that creates it."""
    if not isinstance(index, ast.Slice):
        return index
    bounds = [bound or ast.Constant(None) for bound in (index.lower, index.upper, index.step)]
    return ast.copy_location(invoke("section", *bounds), index)
