"""Exact counts of a Python program's work per call path: what it does, not how long it takes.

    INSITU_COUNTS=DIRECTORY PYTHONPATH=…/collectors/counting/site python app.py 64

The program's own modules, those in and below the script's folder, are rewritten while they are
loaded. They count iterations, visits, elements of array operations, and the sizes of arguments of
compiled functions. Libraries are not rewritten. Counting makes a program two to six times slower,
so it is meant for small pilot runs.
"""
