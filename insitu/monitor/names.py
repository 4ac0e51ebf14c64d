"""Names that come from programs, as text that is safe and short."""

from insitu.entities import CallPath


def printable(text: str) -> str:
    """Write what a terminal would obey (control characters, direction marks) as an escape."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def last_frames(callpath: str, width: int) -> str:
    """A call path in `width` characters: its end, which tells most, behind an ellipsis."""
    callpath = printable(callpath)
    if len(callpath) <= width:
        return callpath
    frames = CallPath.parse(callpath).frames
    text = frames[-1]
    for frame in reversed(frames[:-1]):
        if len(frame) + len(text) + 5 > width:
            break
        text = f"{frame}->{text}"
    text = f"…->{text}"
    return text if len(text) <= width else "…" + text[-(width - 1) :] if width > 1 else "…"
