"""Call paths shortened for display."""

from insitu.entities import ARROW
from insitu.text import printable

MOST_UNUSED = 6


def last_frames(callpath: str, width: int) -> str:
    """A call path in `width` characters: its end, which tells most, behind an ellipsis.

    Cut between frames where that leaves little room unused, else within one.
    """
    callpath = printable(callpath)
    if len(callpath) <= width:
        return callpath
    tail = callpath[-(width - 1) :].removeprefix(ARROW[1:]) if width > 1 else ""
    _, arrow, whole = tail[1:].partition(ARROW)  # whole frames; a cut arrow is none
    fits = f"…{ARROW}{whole}"
    return fits if arrow and len(fits) >= width - MOST_UNUSED else f"…{tail}"
