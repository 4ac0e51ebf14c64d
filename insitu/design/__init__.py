"""What to run next: which call path depends on what, and the fewest experiments that show it."""
