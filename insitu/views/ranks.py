"""Ranks by their value and by their place in the domain, coloured by behaviour class."""

from collections.abc import Sequence
from dataclasses import dataclass

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

MARKS = "os^Dv<>"  # so that classes are told apart without colours too
FEW = 256  # ranks that get a mark of their own in the domain
NOBODY = "#f0f0f0"
TITLE_WIDTH = 60


@dataclass(frozen=True, slots=True)
class Field:
    """The ranks of one run: a call path, one value per rank, its class, where they are.

    labels: (n_ranks,), indices into `names`, -1 where a rank has no value.
    """

    callpath: str
    metric: str
    unit: str
    run: str
    values: FloatArray
    labels: IntArray
    names: tuple[str, ...]
    domain: Domain | None


def draw_ranks(fields: Sequence[Field], *, title: str, file: str) -> None:
    """Draw two fields per call path: ranks sorted by value, and the domain where it is known.

    A class has the same colour everywhere.

    Raises:
        OSError: the file cannot be written.
    """
    names = list(dict.fromkeys(name for field in fields for name in field.names))
    place = {name: index % len(COLOURS) for index, name in enumerate(names)}
    columns = 1 if all(field.domain is None for field in fields) else 2
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(4.8 * columns, 3.1 * len(fields) + 0.5), layout="constrained")
        figure.suptitle(printable(title), x=0.01, ha="left", fontsize=12, fontweight="bold")
        grid = figure.subplots(len(fields), columns, squeeze=False)
        for row, field in zip(grid, fields, strict=True):
            _sorted_ranks(row[0], field, place)
            if field.domain is not None:
                _domain(row[1], field, field.domain, place)
            elif columns > 1:
                row[1].set_axis_off()
        figure.savefig(file, dpi=160)


def _sorted_ranks(axes: Axes, field: Field, place: dict[str, int]) -> None:
    """Ranks in the order of their values; those without a value are left out."""
    order = np.argsort(np.where(field.labels >= 0, field.values, np.inf), kind="stable")
    order = order[field.labels[order] >= 0]
    at = np.arange(len(order))
    values, labels = field.values[order], field.labels[order]
    size = 5.0 if len(order) <= FEW else 2.5
    handles: list[Line2D] = []
    for index, name in enumerate(field.names):
        mine = labels == index
        colour, mark = COLOURS[place[name]], MARKS[place[name]]
        for x, y, width, label in (
            (at[mine], values[mine], size, ""),
            ([], [], 5.0, printable(f"{name}: {int(mine.sum())}")),
        ):
            lines = axes.plot(
                x, y, mark, color=colour, markersize=width, markeredgewidth=0, label=label
            )
        handles += lines
    lowest, largest = (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)
    if lowest > 0 and WIDE <= largest / lowest <= TOO_WIDE:
        axes.set_yscale("log")
    else:
        axes.set_ylim(min(0.0, 1.1 * lowest), 1.1 * max(largest, 0.0) or 1.0)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: quantity(value, field.unit)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.set_xlabel(f"ranks at {field.run}, by {field.metric}")
    axes.set_title(
        last_frames(field.callpath, TITLE_WIDTH), loc="left", fontsize=9, fontweight="bold"
    )
    axes.legend(handles=handles[::-1], fontsize=8, frameon=False, loc="best")


def _domain(axes: Axes, field: Field, domain: Domain, place: dict[str, int]) -> None:
    """The domain, each rank a cell; more than two axes as slices beside each other."""
    sides = domain.shape if len(domain.shape) > 1 else (1, *domain.shape)
    slices = int(np.prod(sides[:-2]))
    rows, columns = sides[-2:]
    colour_of = np.array([place[name] for name in field.names] or [0])
    cells = np.full((slices, rows, columns), -1)
    there = (domain.positions[:, 0] >= 0) & (field.labels >= 0)
    flat = np.ravel_multi_index(tuple(domain.positions[there].T), domain.shape)
    cells.ravel()[flat] = colour_of[field.labels[there]]
    across = min(slices, int(np.ceil(np.sqrt(slices * rows / columns))))
    down = -(-slices // across)
    image = np.full((down * (rows + 1) - 1, across * (columns + 1) - 1), np.nan)
    for index, one in enumerate(cells):
        top, left = divmod(index, across)
        top, left = top * (rows + 1), left * (columns + 1)
        image[top : top + rows, left : left + columns] = one
    used = (NOBODY, *COLOURS)
    axes.imshow(image, cmap=ListedColormap(used), vmin=-1.5, vmax=len(COLOURS) - 0.5)
    axes.set_xticks(np.arange(image.shape[1] + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(image.shape[0] + 1) - 0.5, minor=True)
    if image.size <= 4096:
        axes.grid(which="minor", color="white", linewidth=1.0)
    axes.grid(visible=False, which="major")
    axes.tick_params(which="both", length=0, labelbottom=False, labelleft=False)
    for spine in axes.spines.values():
        spine.set_visible(False)
    size = " x ".join(map(str, domain.shape))
    names = AXES[: len(domain.shape)]
    held = f"; one field per {', '.join(names[:-2])}" if slices > 1 else ""
    axes.set_xlabel(names[-1] + " →")
    axes.set_ylabel("" if len(names) == 1 else f"← {names[-2]}")
    axes.set_title(f"the domain, {size} ranks{held}", loc="left", fontsize=9, fontweight="bold")
