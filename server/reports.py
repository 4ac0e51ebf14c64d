"""Limit messages to the log, so that a flood of one kind neither fills it nor hides the others."""

from dataclasses import dataclass, field

WINDOW_S = 3600.0
MAX_PER_KIND = 200  # different messages of a kind in a window
MAX_KINDS = 100


@dataclass(slots=True)
class _Window:
    began_at: float
    texts: set[str] = field(default_factory=set)
    n_omitted: int = 0


class ReportLimiter:
    """Admits each message once per hour, and a limited number of each kind."""

    def __init__(self) -> None:
        self._windows: dict[str, _Window] = {}

    def admit(self, kind: str, text: str, now: float) -> list[str]:
        """Return the lines to write for a message: none, the message, or a count before it.

        Args:
            kind: such as the code of a finding.
            text: the message.
            now: seconds.
        """
        if kind not in self._windows and len(self._windows) >= MAX_KINDS:
            kind = ""
        window = self._windows.setdefault(kind, _Window(now))

        lines = []
        if now - window.began_at >= WINDOW_S:
            if window.n_omitted:
                lines.append(
                    f"{window.n_omitted} more messages like this one were left out: {text}"
                )
            self._windows[kind] = window = _Window(now)

        if text in window.texts:
            return lines
        if len(window.texts) >= MAX_PER_KIND:
            window.n_omitted += 1
            return lines
        window.texts.add(text)
        return lines or [text]
