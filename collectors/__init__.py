"""Runs in or beside the rank; imported as insitu.collectors and under no other name."""

if __name__ != "insitu.collectors":
    raise ImportError(f"this folder is insitu.collectors; it was imported as {__name__}")
