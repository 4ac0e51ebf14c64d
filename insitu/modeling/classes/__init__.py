"""Behaviour classes: which ranks behave alike, in one run and in all of them."""
