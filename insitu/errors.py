"""The tree of exceptions, each with the exit code that the command line returns for it.

    InsituError            70  a broken promise of insitu itself
    ├── UsageError          2  what the user asked for makes no sense
    ├── CampaignError       3  a campaign cannot be read or written
    ├── WireError           4  a message or a table that cannot be read
    ├── ModelingError       5  data from which no model can be made
    └── LaunchError         6  a program that could not be started (127 and 126 as in a shell)

Exit code 1 means only that an expectation was violated.
"""

from typing import ClassVar


class InsituError(Exception):
    """A broken promise of insitu; its text says what, where and what to do next."""

    exit_code: ClassVar[int] = 70


class UsageError(InsituError):
    """An option, a parameter or a file that the user named makes no sense."""

    exit_code = 2


class CampaignError(InsituError):
    """A campaign that cannot be read or written: newer format, locked, damaged, not there."""

    exit_code = 3


class WireError(InsituError):
    """A message or table file that cannot be read: truncated, oversized, of an unknown kind."""

    exit_code = 4


class ModelingError(InsituError):
    """Data from which no model can be made: wrong shapes, unknown modeler or parameter."""

    exit_code = 5


class LaunchError(InsituError):
    """A program that could not be started: no mpiexec, refused by the launcher."""

    exit_code = 6


class NotExecutableError(LaunchError):
    """The program that should be measured is a file that cannot be executed."""

    exit_code = 126


class CommandNotFoundError(LaunchError):
    """The program that should be measured does not exist."""

    exit_code = 127
