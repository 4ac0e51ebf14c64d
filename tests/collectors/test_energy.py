"""Energy from recorded trees of powercap and of Cray's pm_counters."""

from array import array
from pathlib import Path

import pytest

from insitu.collectors.energy import EnergyMeter
from insitu.collectors.node import Node
from insitu.collectors.ranks import COLUMN_INDEX
from tests.collectors.test_node import rank_table

CRAY = "sys/cray/pm_counters/energy"
LIMIT_UJ = 262_143_328_850


def write(root: Path, name: str, text: object) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


def write_package(root: Path, zone: str, uj: int) -> None:
    write(root, f"sys/class/powercap/{zone}/energy_uj", uj)
    write(root, f"sys/class/powercap/{zone}/max_energy_range_uj", LIMIT_UJ)


def test_the_packages_of_a_node_are_added_without_their_subzones(tmp_path: Path):
    for zone in ("intel-rapl:0", "intel-rapl:1", "intel-rapl:0:0"):
        write_package(tmp_path, zone, 1_000_000)
    meter = EnergyMeter(str(tmp_path))

    for zone in ("intel-rapl:0", "intel-rapl:1", "intel-rapl:0:0"):
        write_package(tmp_path, zone, 6_000_000)

    assert meter.read_joules() == pytest.approx(10.0)


def test_a_counter_that_wraps_around_goes_on(tmp_path: Path):
    write_package(tmp_path, "intel-rapl:0", LIMIT_UJ - 2_000_000)
    meter = EnergyMeter(str(tmp_path))
    first = meter.read_joules()

    write_package(tmp_path, "intel-rapl:0", 3_000_000)

    assert first == 0.0
    assert meter.read_joules() == pytest.approx(5.0)
    assert meter.read_joules() == pytest.approx(5.0)


def test_the_counter_of_a_cray_node_takes_precedence(tmp_path: Path):
    write_package(tmp_path, "intel-rapl:0", 0)
    write(tmp_path, CRAY, "123456 J 1700000000 us")
    meter = EnergyMeter(str(tmp_path))

    write(tmp_path, CRAY, "123956 J 1700000001 us")

    assert meter.read_joules() == 500.0


def test_energy_that_cannot_be_read_is_absent(tmp_path: Path):
    write_package(tmp_path, "intel-rapl:0", 0)
    write(tmp_path, "sys/class/powercap/intel-rapl:1/energy_uj", "")

    assert EnergyMeter(str(tmp_path)).read_joules() is None
    assert EnergyMeter(str(tmp_path / "nothing")).read_joules() is None


def test_a_counter_that_disappears_ends_the_measurement(tmp_path: Path):
    write_package(tmp_path, "intel-rapl:0", 0)
    meter = EnergyMeter(str(tmp_path))
    (tmp_path / "sys/class/powercap/intel-rapl:0/energy_uj").unlink()

    assert meter.read_joules() is None


def test_the_ranks_of_a_node_share_its_energy(tmp_path: Path):
    write(tmp_path, CRAY, "1000 J 1700000000 us")
    tables = tmp_path / "tables"
    tables.mkdir()
    for rank in range(2):
        rank_table(tables, rank, 2, ["solve"])
    node = Node(str(tables), meter=EnergyMeter(str(tmp_path)))
    node.scan()
    write(tmp_path, CRAY, "1300 J 1700000001 us")

    groups = node.totals(1).groups

    (group,) = [group for group in groups if group.columns == (COLUMN_INDEX["energy"],)]
    assert array("d", group.matrices[0]).tolist() == [150.0, 150.0]
