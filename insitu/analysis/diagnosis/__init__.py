"""Diagnosis: what will limit a program on more ranks, said in order of consequence.

`diagnose.py` composes it. The values of a campaign (`measurements.py`) become growth of counts
(`laws.py`, `growth.py`), growth becomes limits with a cost (`limits.py`, `machine.py`,
`budget.py`), and limits become statements (`statements.py`). `times.py` judges times, `suspects.py`
speaks about one or two runs, `runs.py` about runs that ended abnormally or were disturbed, and
`totals.py` about the run as a whole.
"""
