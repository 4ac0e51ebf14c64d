"""Bytes on the wire."""
