"""The tables of P1 to P7, with several seeds each.

python -m tests.evaluation tables [--seeds 11 12 13] [--only P1 P6 ...] [--scale 1]

Runs the script of each protocol once per seed, with few series, and prints what it prints. --scale
multiplies the number of series, functions or campaigns.
"""

import argparse
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
SCRIPTS = {  # protocol: script, its options, the option that says how many, and how many
    "P1": ("growth", ("--only", "one"), "--count", 25),
    "P2": ("growth", ("--only", "segments"), "--count", 20),
    "P3": ("classes", (), "--campaigns", 1),
    "P4": ("several", ("--parameters", "2"), "--count", 20),
    "P5": ("expectations", ("--alone", "50", "--several", "40"), "--count", 200),
    "P6": ("noise", (), "--campaigns", 3),
    "P7": ("tail", (), "--count", 2),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[11, 12, 13])
    parser.add_argument("--only", nargs="+", choices=SCRIPTS, default=list(SCRIPTS))
    parser.add_argument("--scale", type=int, default=1)
    options = parser.parse_args()

    is_complete = True
    for protocol in options.only:
        script, fixed, amount, count = SCRIPTS[protocol]
        for seed in options.seeds:
            arguments = [*fixed, amount, str(count * options.scale), "--seed", str(seed)]
            print(f"\n{protocol}, seed {seed}: {script}.py {' '.join(arguments)}", flush=True)
            run = subprocess.run([sys.executable, HERE / f"{script}.py", *arguments], check=False)
            is_complete &= run.returncode == 0
    sys.exit(0 if is_complete else 1)


if __name__ == "__main__":
    main()
