"""The user's own, found through PYTHONPATH."""

import sys

sys.own_site = True
