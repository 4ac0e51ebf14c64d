"""Shows where Python looks for modules, here and in a child."""

import os
import sys

if "child" not in sys.argv:
    print(os.environ.get("PYTHONPATH"), flush=True)
print(sys.path, flush=True)
if "child" not in sys.argv:
    os.system(f"echo $PYTHONPATH; {sys.executable} {sys.argv[0]} child")
