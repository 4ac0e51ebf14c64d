"""Exact counts of a Python program's work per call path: what a program does, not how long.

    INSITU_COUNTS=DIRECTORY PYTHONPATH=…/collectors/counting/site python app.py 64

The program's own modules, those below the script's folder, are rewritten as they are loaded, so
that they count iterations, visits, elements of array operations and the sizes that calls of
compiled functions are given. Libraries stay as they are. A program that is counted runs two to six
times longer, so it is meant for small pilot runs.
"""
