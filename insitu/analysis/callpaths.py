"""Call paths shortened for display."""

from insitu.entities import ARROW
from insitu.text import printable

MAX_UNUSED = 6  # characters of the width that a cut between frames may leave empty


def last_frames(callpath: str, width: int) -> str:
    """Shorten a call path to `width` characters: an ellipsis, then its last frames.

    The cut is between frames where that leaves little of the width unused, else within a frame.
    """
    callpath = printable(callpath)
    if len(callpath) <= width:
        return callpath

    tail = callpath[-(width - 1) :].removeprefix(ARROW[1:]) if width > 1 else ""
    # From the second character on: an arrow at the very start would cut off nothing.
    _, arrow, frames = tail[1:].partition(ARROW)
    at_frame = f"…{ARROW}{frames}"
    has_little_unused = len(at_frame) >= width - MAX_UNUSED
    return at_frame if arrow and has_little_unused else f"…{tail}"
