"""What a rank is told of its run, in the variables of its environment."""

import os
import sys

from insitu.collectors import library
from insitu.collectors.steering import VARIABLE
from insitu.run.options import Options


def meta(options: Options, run: str, campaign: str) -> dict[str, object]:
    """What every table says about its run."""
    from insitu import __version__

    return {
        "run": run,
        "campaign": campaign,
        "parameters": options.parameters,
        "command": [word[:200] for word in options.command[:50]],
        "beat": options.beat,
        "python": ".".join(map(str, sys.version_info[:3])),
        "insitu": __version__,
    }


def rank_environment(options: Options, run: str, campaign: str) -> dict[str, str]:
    """The variables that make a Python process of this run measure itself."""
    import json

    here = os.path.dirname(os.path.abspath(__file__))
    site = os.path.join(os.path.dirname(os.path.abspath(library.__file__)), "site")
    original = os.environ.get("PYTHONPATH", "")
    environment = {
        "PYTHONPATH": os.pathsep.join(filter(None, (site, original))),
        "INSITU_RUN": run,
        "INSITU_META": json.dumps(meta(options, run, campaign)),
        "INSITU_HOME": os.path.dirname(os.path.dirname(here)),
        "INSITU_LIBRARY": library.find(),
        "INSITU_PYTHON": sys.executable,
        "INSITU_AGENT": options.agent,
        "INSITU_HEAP": options.heap,
        VARIABLE: str(options.steering),
        "INSITU_TROUBLE": os.path.join(campaign, "logs", f"trouble-{run}"),
    }
    return environment | ({"INSITU_PYTHONPATH": original} if original else {})


def preload(argv: tuple[str, ...], options: Options) -> dict[str, str]:
    """The variables that make a compiled rank measure itself, and every rank its heap.

    Our own Python without its heap needs none. The dynamic linker takes neither blanks nor colons
    in a path. A program built with the address sanitizer ends at once where another library stands
    before its own, unless it is told that this is meant.
    """
    path = library.find()
    is_python = argv[0] == sys.executable
    if not path or (is_python and options.heap == "off") or set(path) & set(" \t\n:"):
        return {}
    before = os.environ.get("LD_PRELOAD", "")
    sanitizer = (os.environ.get("ASAN_OPTIONS", ""), "verify_asan_link_order=0")
    variables = {
        "LD_PRELOAD": ":".join(filter(None, (path, before))),
        "ASAN_OPTIONS": ":".join(filter(None, sanitizer)),
    }
    return variables | ({"INSITU_LD_PRELOAD": before} if before else {})


def campaign_directory(options: Options) -> str:
    """Where the campaign lies: as named, or beside the user, called like the program."""
    if options.campaign:
        return os.path.abspath(options.campaign)
    word = next((w for w in options.command if w not in ("-m", "-c")), "program")
    stem = os.path.basename(os.path.normpath(word)).removesuffix(".py") or "program"
    return os.path.abspath(f"{stem}.insitu")
