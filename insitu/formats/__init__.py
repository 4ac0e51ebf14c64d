"""Formats of other tools, in and out."""
