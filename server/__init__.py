"""Runs in the aggregator; imported as insitu.server and under no other name."""

if __name__ != "insitu.server":
    raise ImportError(f"this folder is insitu.server; it was imported as {__name__}")
