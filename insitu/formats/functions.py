"""Models as functions to call: a Python module, a C header; as expressions, and as a table.

A function answers what `insitu predict` says: the most likely value, in the metric's base unit.
"""

import io
import json
import keyword
import re
from collections.abc import Sequence
from typing import BinaryIO

from insitu import __version__
from insitu.modeling.algebra import latex_of, sympy_of
from insitu.modeling.base import Model, ModelSet, SeriesModel
from insitu.modeling.measurement import Experiment
from insitu.modeling.pmnf import Function

NAME_LENGTH = 60
PYTHON_HEAD = '''"""Models of a campaign, by insitu {version}: seconds, bytes, counts per rank."""

import math


def _power(x, exponent):
    return x**exponent


def _log(x, exponent):
    return math.log2(max(x, 1.0)) ** exponent


def _exp(x, factor):
    return 2.0 ** (factor * x)

'''
C_HEAD = """/* Models of a campaign, by insitu {version}: seconds, bytes, counts per rank. */
#ifndef INSITU_MODELS_H
#define INSITU_MODELS_H
#include <math.h>

static inline double insitu_power(double x, double exponent) {{ return pow(x, exponent); }}
static inline double insitu_log(double x, double exponent)
{{
    return pow(log2(fmax(x, 1.0)), exponent);
}}
static inline double insitu_exp(double x, double factor) {{ return exp2(factor * x); }}

"""
C_TABLE = """struct insitu_model {
    const char *callpath, *metric, *unit, *behaviour, *parameters;
    double (*value)(const double *at); /* values of the parameters, in their order */
};

static const struct insitu_model insitu_models[] = {
"""


class PythonModule:
    """A module without dependencies: a function per model, and MODELS by name."""

    name = "python"
    suffix = ".py"

    def write(self, experiment: Experiment, models: ModelSet, out: BinaryIO) -> None:
        """See Exporter."""
        text = io.TextIOWrapper(out, encoding="utf-8", newline="\n", write_through=True)
        text.write(PYTHON_HEAD.format(version=__version__))
        table = []
        for index, one in enumerate(models.models):
            name = _identifier(index, one)
            arguments = [n + "_" * keyword.iskeyword(n) for n in one.model.parameters]
            value = _expression(one.model, arguments, "_", "{1} if {0} else {2}")
            body = f"max({value}, 0.0)" if (one.model.values >= 0).all() else value
            said = ascii(f"{one.key.callpath}: {one.key.metric} [{one.metric.unit}]")
            text.write(f"\ndef {name}({', '.join(arguments)}):\n    {said}\n    return {body}\n\n")
            key = (str(one.key.callpath), one.key.metric, one.key.behaviour)
            table.append(f"    {key!a}: {name},\n")
        text.write(f"\n# (call path, metric, class)\nMODELS = {{\n{''.join(table)}}}\n")
        text.detach()


class CHeader:
    """A C99 header: a function per model, and a table of them."""

    name = "c"
    suffix = ".h"

    def write(self, experiment: Experiment, models: ModelSet, out: BinaryIO) -> None:
        """See Exporter."""
        text = io.TextIOWrapper(out, encoding="ascii", newline="\n", write_through=True)
        text.write(C_HEAD.format(version=__version__))
        table = []
        for index, one in enumerate(models.models):
            name = f"insitu_{_identifier(index, one)}"
            arguments = [f"at[{i}]" for i in range(len(one.model.parameters))]
            value = _expression(one.model, arguments, "insitu_", "({0} ? {1} : {2})")
            body = f"fmax({value}, 0.0)" if (one.model.values >= 0).all() else value
            unused = "" if "at[" in body else "    (void)at;\n"
            text.write(f"static inline double {name}(const double *at)\n{{\n{unused}")
            text.write(f"    return {body};\n}}\n\n")
            names = (
                str(one.key.callpath),
                one.key.metric,
                one.metric.unit,
                one.key.behaviour,
                ",".join(one.model.parameters),
            )
            table.append(f"    {{{', '.join(map(_c_string, names))}, {name}}},\n")
        text.write(f"{C_TABLE}{''.join(table)}    {{0, 0, 0, 0, 0, 0}},\n}};\n#endif\n")
        text.detach()


class Latex:
    """A table of all models for a paper; needs booktabs, longtable and amsmath."""

    name = "latex"
    suffix = ".tex"

    def write(self, experiment: Experiment, models: ModelSet, out: BinaryIO) -> None:
        """See Exporter."""
        text = io.TextIOWrapper(out, encoding="utf-8", newline="\n", write_through=True)
        text.write("\\begin{longtable}{llll}\n\\toprule\n")
        text.write("Call path & Metric & Class & Model \\\\\n\\midrule\n\\endhead\n")
        for one in models.models:
            unit = "" if one.metric.unit in ("1", "") else f" [{one.metric.unit}]"
            cells = (str(one.key.callpath), one.key.metric + unit, one.key.behaviour)
            shown = " & ".join(map(_latex, cells))
            text.write(f"{shown} & ${latex_of(one.model)}$ \\\\\n")
        text.write("\\bottomrule\n\\end{longtable}\n")
        text.detach()


class Sympy:
    """JSON Lines, a model each, as an expression for `sympy.parse_expr`."""

    name = "sympy"
    suffix = ".sympy.jsonl"

    def write(self, experiment: Experiment, models: ModelSet, out: BinaryIO) -> None:
        """See Exporter."""
        for one in models.models:
            row = {
                "callpath": str(one.key.callpath),
                "metric": one.key.metric,
                "unit": one.metric.unit,
                "class": one.key.behaviour,
                "parameters": list(one.model.parameters),
                "expression": sympy_of(one.model),
            }
            out.write(json.dumps(row).encode() + b"\n")


def _identifier(index: int, one: SeriesModel) -> str:
    """A name of letters that is its own; the end of the call path tells most."""
    text = f"{one.key.callpath.name}_{one.key.metric}_{one.key.behaviour}"
    clean = re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_")
    return f"m{index}_{clean[:NAME_LENGTH]}"


def _expression(model: Model, names: Sequence[str], prefix: str, choice: str) -> str:
    """A model in the notation that Python and C share; `choice` of condition, then, else."""
    *before, last = [_sum(one.function, model, names, prefix) for one in model.segments]
    answer = last
    for point, text in reversed([*zip(model.change_points, before, strict=True)]):
        condition = f"{names[0]} <= {(point.low + point.high) / 2!r}"
        answer = "(" + choice.format(condition, text, answer) + ")"
    return answer


def _sum(function: Function, model: Model, names: Sequence[str], prefix: str) -> str:
    parts = [repr(float(function.constant))]
    for term in function.terms:
        factors = [repr(float(term.coefficient))]
        for factor in term.factors:
            x = names[model.parameters.index(factor.parameter)]
            for call, exponent in zip(("power", "log", "exp"), factor[1:], strict=True):
                if exponent:
                    factors.append(f"{prefix}{call}({x}, {float(exponent)!r})")
        parts.append(" * ".join(factors))
    return "(" + " + ".join(parts) + ")"


def _c_string(text: str) -> str:
    """A string literal of any text: UTF-8, what is no plain character in octal."""
    plain = (
        chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\?' else f"\\{byte:03o}"
        for byte in text.encode("utf-8", "surrogateescape")
    )
    return f'"{"".join(plain)}"'


def _latex(text: str) -> str:
    special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    plain = "".join(c if c.isprintable() else f"U+{ord(c):04X}" for c in text)
    escaped = (special.get(c) or (f"\\{c}" if c in "&%$#_{}" else c) for c in plain)
    return "".join(escaped).replace("->", r"$\to$").replace("<", r"$<$").replace(">", r"$>$")
