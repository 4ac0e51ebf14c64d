"""Where tests of one process put what they share. pytest removes it with its own folders, also
after a session that was killed or forked, as by mutmut, and calls no exit handlers."""

path: str | None = None  # set by conftest.py; None outside of pytest: that of the system
