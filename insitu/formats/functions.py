"""Models as code: a Python module, a C header, SymPy expressions and a LaTeX table.

A function returns the same value as `insitu predict`, in the base unit of the metric.
"""

import io
import json
import keyword
import re
from collections.abc import Sequence
from typing import BinaryIO

from insitu import __version__
from insitu.formats.table import marks_of
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
        for index, series in enumerate(models.models):
            model = series.model
            name = _identifier(index, series)
            arguments = [n + "_" * keyword.iskeyword(n) for n in model.parameters]
            value = _expression(model, arguments, "_", "{1} if {0} else {2}")
            body = f"max({value}, 0.0)" if (model.values >= 0).all() else value
            docstring = ascii(_described(series))
            text.write(f"\ndef {name}({', '.join(arguments)}):\n")
            text.write(f"    {docstring}\n    return {body}\n\n")

            key = (str(series.key.callpath), series.key.metric, series.key.behaviour)
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
        for index, series in enumerate(models.models):
            model = series.model
            name = f"insitu_{_identifier(index, series)}"
            arguments = [f"at[{i}]" for i in range(len(model.parameters))]
            value = _expression(model, arguments, "insitu_", "({0} ? {1} : {2})")
            body = f"fmax({value}, 0.0)" if (model.values >= 0).all() else value
            unused = "" if "at[" in body else "    (void)at;\n"
            comment = ascii(_described(series))[1:-1].replace("/", "|")  # ends no comment
            text.write(f"/* {comment} */\n")
            text.write(f"static inline double {name}(const double *at)\n{{\n{unused}")
            text.write(f"    return {body};\n}}\n\n")

            names = (
                str(series.key.callpath),
                series.key.metric,
                series.metric.unit,
                series.key.behaviour,
                ",".join(model.parameters),
            )
            table.append(f"    {{{', '.join(map(_c_string, names))}, {name}}},\n")

        text.write(f"{C_TABLE}{''.join(table)}    {{0, 0, 0, 0, 0, 0}},\n}};\n#endif\n")
        text.detach()


class Latex:
    """A LaTeX table of all models; requires booktabs, longtable and amsmath."""

    name = "latex"
    suffix = ".tex"

    def write(self, experiment: Experiment, models: ModelSet, out: BinaryIO) -> None:
        """See Exporter."""
        text = io.TextIOWrapper(out, encoding="utf-8", newline="\n", write_through=True)
        text.write("\\begin{longtable}{llll}\n\\toprule\n")
        text.write("Call path & Metric & Class & Model \\\\\n\\midrule\n\\endhead\n")
        for series in models.models:
            key, unit = series.key, series.metric.unit
            suffix = "" if unit in ("1", "") else f" [{unit}]"
            cells = (str(key.callpath), key.metric + suffix, key.behaviour)
            text.write(" & ".join(map(_latex, cells)))
            marks = f"{_latex(marks_of(series))}: " if marks_of(series) else ""
            text.write(f" & {marks}${latex_of(series.model)}$ \\\\\n")
        text.write("\\bottomrule\n\\end{longtable}\n")
        text.detach()


class Sympy:
    """JSON Lines with an expression for `sympy.parse_expr` per model."""

    name = "sympy"
    suffix = ".sympy.jsonl"

    def write(self, experiment: Experiment, models: ModelSet, out: BinaryIO) -> None:
        """See Exporter."""
        for series in models.models:
            row = {
                "callpath": str(series.key.callpath),
                "metric": series.key.metric,
                "unit": series.metric.unit,
                "class": series.key.behaviour,
                "marks": marks_of(series),
                "parameters": list(series.model.parameters),
                "expression": sympy_of(series.model),
            }
            out.write(json.dumps(row).encode() + b"\n")


def _described(series: SeriesModel) -> str:
    """What a function returns: `main->step: time [s]; crowded`."""
    marks = marks_of(series)
    text = f"{series.key.callpath}: {series.key.metric} [{series.metric.unit}]"
    return f"{text}; {marks}" if marks else text


def _identifier(index: int, series: SeriesModel) -> str:
    """Return a unique identifier with the function, metric and class of a series."""
    text = f"{series.key.callpath.name}_{series.key.metric}_{series.key.behaviour}"
    clean = re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_")
    return f"m{index}_{clean[:NAME_LENGTH]}"


def _expression(model: Model, names: Sequence[str], prefix: str, choice: str) -> str:
    """Return a model in the notation that Python and C share.

    Args:
        model: the model.
        names: of the parameters.
        prefix: of the functions power, log and exp.
        choice: format of a conditional expression: {0} condition, {1} then, {2} else.
    """
    *earlier, last = [_sum(segment.function, model, names, prefix) for segment in model.segments]
    expression = last
    for point, text in reversed([*zip(model.change_points, earlier, strict=True)]):
        condition = f"{names[0]} <= {(point.low + point.high) / 2!r}"
        expression = "(" + choice.format(condition, text, expression) + ")"
    return expression


def _sum(function: Function, model: Model, names: Sequence[str], prefix: str) -> str:
    terms = [repr(float(function.constant))]
    for term in function.terms:
        factors = [repr(float(term.coefficient))]
        for factor in term.factors:
            x = names[model.parameters.index(factor.parameter)]
            for call, exponent in zip(("power", "log", "exp"), factor[1:], strict=True):
                if exponent:
                    factors.append(f"{prefix}{call}({x}, {float(exponent)!r})")
        terms.append(" * ".join(factors))
    return "(" + " + ".join(terms) + ")"


def _c_string(text: str) -> str:
    """Return a C string literal in UTF-8, with octal escapes for special characters."""
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
