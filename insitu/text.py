"""Text from programs, made safe to print."""


def printable(text: str) -> str:
    """Write what a terminal would obey (control characters, direction marks) as an escape."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
