"""Modeler "evidence": Bayesian model selection over functions, noise and change points.

Constants without a reference are judgements made during development. `tests/evaluation/growth.py`
measures the accuracy that results from them, on functions that were not used to choose them.
"""
