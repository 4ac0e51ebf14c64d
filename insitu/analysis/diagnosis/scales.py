"""The number of ranks that a diagnosis asks to measure next."""

import numpy as np

from insitu.analysis.diagnosis.budget import at_text
from insitu.entities import RANKS
from insitu.modeling.measurement import FloatArray
from insitu.modeling.rank_counts import next_accepted


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
