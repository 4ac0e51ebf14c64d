"""What each command does, as Python functions."""
