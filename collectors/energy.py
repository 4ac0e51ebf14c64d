"""Energy of a node in joules, where the machine measures it.

Sources: Documentation/power/powercap/powercap.rst of Linux (counters of processor packages, which
wrap around at `max_energy_range_uj`; most systems let only root read them), and the pm_counters of
HPE Cray nodes (`energy` of the whole node, since it was booted).
"""

import os
import re

POWERCAP_FOLDER = "sys/class/powercap"
PACKAGE = re.compile(r"intel-rapl:\d+")  # whole packages; their subzones have a second number
CRAY_FILE = "sys/cray/pm_counters/energy"
UJ_PER_J = 1e6


class EnergyMeter:
    """Adds up what the counters of this node have advanced since the first reading.

    Cray counters measure the whole node and take precedence over those of processor packages.
    """

    def __init__(self, root: str = "/") -> None:
        """Read all counters for the first time; `root` is where /sys is."""
        self._root = root
        self._joules = 0.0
        self._latest = self._read_counters()

    def read_joules(self) -> float | None:
        """The energy since the beginning; None if this node does not measure it, or no longer."""
        latest = self._read_counters()
        if not latest or latest.keys() != self._latest.keys():
            return None

        for name, (value, limit) in latest.items():
            advance = value - self._latest[name][0]
            self._joules += advance if advance >= 0 else advance + limit
        self._latest = latest
        return self._joules

    def _read_counters(self) -> dict[str, tuple[float, float]]:
        """Each counter and the value at which it begins again, in joules; {} if there is none."""
        cray = re.match(r"(\d+) J", self._read(CRAY_FILE))
        if cray:
            return {CRAY_FILE: (float(cray[1]), 0.0)}

        counters = {}
        for zone in self._packages():
            folder = os.path.join(POWERCAP_FOLDER, zone)
            value = self._read(os.path.join(folder, "energy_uj")).strip()
            limit = self._read(os.path.join(folder, "max_energy_range_uj")).strip()
            if not value.isdigit() or not limit.isdigit():
                return {}  # energy of some packages only is no energy of the node
            counters[zone] = (int(value) / UJ_PER_J, int(limit) / UJ_PER_J)
        return counters

    def _packages(self) -> list[str]:
        try:
            zones = os.listdir(os.path.join(self._root, POWERCAP_FOLDER))
        except OSError:
            return []
        return sorted(zone for zone in zones if PACKAGE.fullmatch(zone))

    def _read(self, file: str) -> str:
        try:
            with open(os.path.join(self._root, file), encoding="ascii", errors="replace") as stream:
                return stream.read()
        except OSError:
            return ""
