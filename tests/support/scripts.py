"""Run the scripts of a folder one after the other, or the one that is named."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path


def run_scripts(
    folder: Path, arguments: Sequence[str], default: Sequence[str], on_request: Sequence[str]
) -> int:
    """Run `default`, or the script named by the first argument with the other arguments.

    Args:
        folder: where the scripts are.
        arguments: of the command line; empty to run all of `default`.
        default: names of scripts, without `.py`.
        on_request: names of scripts that only run when they are named.

    Returns:
        The exit code of the first script that fails, else 0; 2 for an unknown name.
    """
    if arguments and arguments[0] not in (*default, *on_request):
        print(f"usage: python -m tests.{folder.name} [NAME [OPTIONS]]")
        print("  by default: " + " ".join(default))
        print("  on request: " + " ".join(on_request))
        return 2

    for name in arguments[:1] or default:
        print(f"\n== {name}", flush=True)
        script = folder / f"{name}.py"
        code = subprocess.call([sys.executable, str(script), *arguments[1:]])
        if code:
            return code
    return 0
