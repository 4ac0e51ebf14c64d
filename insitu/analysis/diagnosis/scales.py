"""The numbers of ranks that a diagnosis has and asks to measure next."""

import numpy as np

from insitu.analysis.diagnosis.budget import at_text
from insitu.analysis.diagnosis.measurements import LAW_SCALES, Measurements
from insitu.entities import RANKS
from insitu.modeling.measurement import FloatArray
from insitu.modeling.rank_counts import next_accepted


def lacking_scales(measurements: Measurements, counted: Measurements) -> tuple[str, str]:
    """That laws need more scales, and the run that helps.

    Designs vary parameters together: the other numbers of ranks were measured with other values.

    Args:
        measurements: of one combination of the other parameters.
        counted: of all runs with what depends on p alone, or the same: see `count_over_ranks`.
    """
    p, elsewhere = measurements.p, measurements.elsewhere
    names = ", ".join(name for name, _ in measurements.fixed)
    of = "" if counted is measurements else f" of memory, times and what depends on {names}"
    text = f"growth with p{of}: {len(p)} of {LAW_SCALES} scales are measured"
    if not elsewhere or not measurements.fixed:
        return text, next_scale(p, 2.0)

    at = ", ".join(at_text(name, value) for name, value in measurements.fixed)
    ranks = ", ".join(f"{size:,}" for size in elsewhere)
    text += (
        f" at {at}; p = {ranks} with other values of {names} only: `insitu models` shows growth"
        " with both"
    )
    return text, f"{at_text(RANKS, elsewhere[len(elsewhere) // 2])}, {at}"


def next_scale(p: FloatArray, factor: float) -> str:
    """`p = 32`: about `factor` times the largest measured number, such as the program accepts.

    Where all measured numbers are cubes, squares, powers or multiples, so is the next one. But
    powers of two are also what people choose by themselves: the wanted number stands first, then
    the next power.

    Args:
        p: (n,), the measured numbers of ranks, ascending.
        factor: of the wanted number to the largest.
    """
    measured = np.rint(p).astype(int).tolist()
    wanted = round(factor * measured[-1])
    accepted = next_accepted(measured, wanted)
    if accepted is None:
        return at_text(RANKS, wanted)
    if accepted != wanted and all(size & (size - 1) == 0 for size in measured):
        return f"{at_text(RANKS, wanted)}, or {accepted:,} if it must be a power of two"
    return at_text(RANKS, accepted)
