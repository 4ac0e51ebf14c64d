"""Plots of all ranks of a run, sorted by value and on their grid, coloured by class."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

from insitu.analysis.callpaths import last_frames
from insitu.modeling.classes.domain import AXES, Domain
from insitu.modeling.measurement import FloatArray, IntArray
from insitu.text import printable
from insitu.units import quantity
from insitu.views.axes import WIDE
from insitu.views.plot import COLOURS, STYLE, TOO_WIDE

MARKS = "os^Dv<>"  # classes are distinguishable without colours
LARGE_MARK_RANKS = 256  # up to this number of ranks, marks are large
EMPTY = "#f0f0f0"  # cells of the grid without a rank
TITLE_WIDTH = 60
MAX_CELLS_WITH_LINES = 4096  # larger grids are drawn without lines between the cells


@dataclass(frozen=True, slots=True)
class RankValues:
    """One value per rank of a run, with classes and grid positions.

    values: (n_ranks,). labels: (n_ranks,), indices into `names`; -1 for a rank without a value.
    domain: positions of the ranks on their Cartesian grid, if known.
    """

    callpath: str
    metric: str
    unit: str
    run: str
    values: FloatArray
    labels: IntArray
    names: tuple[str, ...]
    domain: Domain | None


def draw_ranks(series: Sequence[RankValues], *, title: str, file: str) -> None:
    """Draw two panels per call path: ranks sorted by value, and their grid if it is known.

    A class has the same colour in all panels.

    Raises:
        OSError: the file cannot be written.
    """
    names = list(dict.fromkeys(name for item in series for name in item.names))
    colour_index = {name: index % len(COLOURS) for index, name in enumerate(names)}
    columns = 1 if all(item.domain is None for item in series) else 2

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(4.8 * columns, 3.1 * len(series) + 0.5), layout="constrained")
        figure.suptitle(printable(title), x=0.01, ha="left", fontsize=12, fontweight="bold")
        grid = figure.subplots(len(series), columns, squeeze=False)
        for row, item in zip(grid, series, strict=True):
            _draw_sorted(row[0], item, colour_index)
            if item.domain is not None:
                _draw_domain(row[1], item, item.domain, colour_index)
            elif columns > 1:
                row[1].set_axis_off()
        figure.savefig(file, dpi=160)


def _draw_sorted(axes: Axes, item: RankValues, colour_index: dict[str, int]) -> None:
    """Draw the ranks in the order of their values, without ranks that have no value."""
    order = np.argsort(np.where(item.labels >= 0, item.values, np.inf), kind="stable")
    order = order[item.labels[order] >= 0]
    at = np.arange(len(order))
    values, labels = item.values[order], item.labels[order]
    size = 5.0 if len(order) <= LARGE_MARK_RANKS else 2.5

    handles: list[Line2D] = []
    for index, name in enumerate(item.names):
        is_in_class = labels == index
        style: Any = {  # Any: matplotlib's keywords have many types
            "color": COLOURS[colour_index[name]],
            "marker": MARKS[colour_index[name]],
            "linestyle": "none",
            "markeredgewidth": 0,
        }
        axes.plot(at[is_in_class], values[is_in_class], markersize=size, **style)
        label = printable(f"{name}: {int(is_in_class.sum())}")
        handles += axes.plot([], [], markersize=5.0, label=label, **style)

    lowest, largest = (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)
    if lowest > 0 and WIDE <= largest / lowest <= TOO_WIDE:
        axes.set_yscale("log")
    else:
        axes.set_ylim(min(0.0, 1.1 * lowest), 1.1 * max(largest, 0.0) or 1.0)

    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: quantity(value, item.unit)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.set_xlabel(f"ranks at {item.run}, by {item.metric}")
    heading = last_frames(item.callpath, TITLE_WIDTH)
    axes.set_title(heading, loc="left", fontsize=9, fontweight="bold")
    axes.legend(handles=handles[::-1], fontsize=8, frameon=False, loc="best")


def _draw_domain(
    axes: Axes, item: RankValues, domain: Domain, colour_index: dict[str, int]
) -> None:
    """Draw the grid with a cell per rank; beyond two dimensions as slices side by side."""
    shape = domain.shape if len(domain.shape) > 1 else (1, *domain.shape)
    n_slices = int(np.prod(shape[:-2]))
    rows, columns = shape[-2:]
    class_colours = np.array([colour_index[name] for name in item.names] or [0])
    cells = np.full((n_slices, rows, columns), -1)
    has_cell = (domain.positions[:, 0] >= 0) & (item.labels >= 0)
    flat = np.ravel_multi_index(tuple(domain.positions[has_cell].T), domain.shape)
    cells.ravel()[flat] = class_colours[item.labels[has_cell]]

    # Arrange the slices so that the image is about square, with an empty line between them.
    across = min(n_slices, int(np.ceil(np.sqrt(n_slices * rows / columns))))
    down = -(-n_slices // across)
    image = np.full((down * (rows + 1) - 1, across * (columns + 1) - 1), np.nan)
    for index, cell in enumerate(cells):
        slice_row, slice_column = divmod(index, across)
        top, left = slice_row * (rows + 1), slice_column * (columns + 1)
        image[top : top + rows, left : left + columns] = cell

    colours = ListedColormap((EMPTY, *COLOURS))
    axes.imshow(image, cmap=colours, vmin=-1.5, vmax=len(COLOURS) - 0.5)
    axes.set_xticks(np.arange(image.shape[1] + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(image.shape[0] + 1) - 0.5, minor=True)
    if image.size <= MAX_CELLS_WITH_LINES:
        axes.grid(which="minor", color="white", linewidth=1.0)
    axes.grid(visible=False, which="major")
    axes.tick_params(which="both", length=0, labelbottom=False, labelleft=False)
    for spine in axes.spines.values():
        spine.set_visible(False)

    size = " x ".join(map(str, domain.shape))
    names = AXES[: len(domain.shape)]
    per_slice = f"; one panel per {', '.join(names[:-2])}" if n_slices > 1 else ""
    axes.set_xlabel(names[-1] + " →")
    axes.set_ylabel("" if len(names) == 1 else f"← {names[-2]}")
    heading = f"grid of {size} ranks{per_slice}"
    axes.set_title(heading, loc="left", fontsize=9, fontweight="bold")
