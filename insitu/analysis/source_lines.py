"""Lines of compiled functions, from debug information that is still there."""

from collections.abc import Mapping
from functools import lru_cache

from insitu.analysis.diagnosis.measurements import Site
from insitu.entities import CallPath


def with_lines(sites: Mapping[CallPath, Site], measured_at: float) -> Mapping[CallPath, Site]:
    """Return sites with the lines of compiled functions.

    Args:
        sites: file and line by call path; for compiled functions the line is 0.
        measured_at: when the newest run began, in seconds since 1970; a file that is newer is not
            the one that ran.
    """
    compiled: dict[str, set[str]] = {}
    for path, (file, line) in sites.items():
        if line == 0:
            compiled.setdefault(file, set()).add(path.name)

    lines = {}
    for file, names in compiled.items():
        for name, site in _lines_of(file, frozenset(names), measured_at).items():
            lines[file, name] = site
    return {path: lines.get((site[0], path.name), site) for path, site in sites.items()}


@lru_cache(maxsize=256)  # views diagnose after each run; debug information is large
def _lines_of(file: str, names: frozenset[str], measured_at: float) -> Mapping[str, Site]:
    from insitu.collectors.symbols import find_lines

    return find_lines(file, names, before_ns=int(measured_at * 1e9))
