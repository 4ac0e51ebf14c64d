"""Exceptions and their exit codes.

    InsituError            70  an internal error in insitu
    ├── UsageError          2  an invalid option, parameter or file
    ├── CampaignError       3  a campaign that cannot be read or written
    ├── WireError           4  a message or a table that cannot be read
    ├── ModelingError       5  data that cannot be modelled
    └── LaunchError         6  a program that cannot be started (126 and 127 as in a shell)

Exit code 1 is reserved for violated expectations.
"""

from typing import ClassVar


class InsituError(Exception):
    """Base class. The text says what happened, where, and what to do next."""

    exit_code: ClassVar[int] = 70


class UsageError(InsituError):
    """An option, a parameter or a file given by the user is invalid."""

    exit_code = 2


class CampaignError(InsituError):
    """A campaign cannot be read or written: newer format, locked, damaged or missing."""

    exit_code = 3


class WireError(InsituError):
    """A message or table file cannot be decoded: truncated, oversized or of unknown type."""

    exit_code = 4


class ModelingError(InsituError):
    """Data cannot be modelled: wrong shape, unknown modeler or unknown parameter."""

    exit_code = 5


class LaunchError(InsituError):
    """A program cannot be started: no mpiexec, or the launcher refused it."""

    exit_code = 6


class NotExecutableError(LaunchError):
    """The program to be measured is not executable."""

    exit_code = 126


class CommandNotFoundError(LaunchError):
    """The program to be measured does not exist."""

    exit_code = 127
