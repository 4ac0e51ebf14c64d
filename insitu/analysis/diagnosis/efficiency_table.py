"""The table of efficiencies as POP reports have it, which every view shows alike."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from insitu.analysis.diagnosis.budget import at_text
from insitu.analysis.diagnosis.efficiency import (
    COMMUNICATION,
    COMPUTATION,
    GLOBAL,
    LOAD_BALANCE,
    PARALLEL,
    TRANSFER,
    SectionEfficiency,
)
from insitu.entities import RANKS
from insitu.text import printable
from insitu.units import percent

LABELS = {  # in the order of the table; POP indents a factor below the product that it belongs to
    GLOBAL: "global efficiency",
    PARALLEL: "  parallel efficiency",
    LOAD_BALANCE: "    load balance",
    COMMUNICATION: "    communication efficiency",
    TRANSFER: "      transfer efficiency",
    COMPUTATION: "  computation scaling",
}
MAX_SCALES = 6  # columns; the smallest scale and the largest ones
UNKNOWN = "-"


@dataclass(frozen=True, slots=True)
class EfficiencyTable:
    """A section as text: the heads of the columns, and a row of cells for each efficiency."""

    name: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]


def make_tables(efficiencies: Sequence[SectionEfficiency]) -> list[EfficiencyTable]:
    """A table for each section; rows without any value are left out."""
    return [_make_table(efficiency) for efficiency in efficiencies]


def _make_table(efficiency: SectionEfficiency) -> EfficiencyTable:
    scales = efficiency.scales
    if len(scales) > MAX_SCALES:
        scales = (scales[0], *scales[1 - MAX_SCALES :])
    heads = [at_text(RANKS, scale.p) for scale in scales]
    predicted = efficiency.predicted
    if predicted is not None:
        heads.append(f"{at_text(RANKS, predicted.p)} predicted")

    rows = []
    for name, label in LABELS.items():
        if not any(name in scale.factors for scale in scales):
            continue
        cells = []
        for scale in scales:
            values = scale.factors.get(name)
            cells.append(UNKNOWN if values is None else _cell(name, values.value))
        if predicted is not None:
            values = predicted.factors.get(name)
            cells.append(
                UNKNOWN
                if values is None
                else f"{percent(values.value)} ({percent(values.low)} to {percent(values.high)})"
            )
        rows.append((label, tuple(cells)))

    section = efficiency.section
    name = section.name
    if section.path is not None and section.path.name != name:
        name += f" in {section.path.name}"
    return EfficiencyTable(name, tuple(heads), tuple(rows))


def _cell(name: str, value: float) -> str:
    if name != TRANSFER:
        return percent(value)
    return f"≤ {percent(math.ceil(100 * value) / 100)}"  # a bound is rounded away from the value


def efficiency_lines(efficiencies: Sequence[SectionEfficiency]) -> list[str]:
    """All tables as lines of text, with an empty line between them."""
    lines: list[str] = []
    for table in make_tables(efficiencies):
        lines += [""] if lines else []
        lines += _table_lines(table)
    return lines


def _table_lines(table: EfficiencyTable) -> list[str]:
    first = max(len(table.name), *(len(label) for label, _ in table.rows))
    columns = [[head] for head in table.heads]
    for _, cells in table.rows:
        for column, cell in zip(columns, cells, strict=True):
            column.append(cell)
    widths = [max(map(len, column)) for column in columns]

    lines = []
    for label, cells in ((table.name, table.heads), *table.rows):
        padded = "  ".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))
        lines.append(printable(f"{label:<{first}}  {padded}").rstrip())
    return lines
