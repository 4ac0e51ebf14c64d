"""Files of Score-P: what their values become."""

import struct
import zlib
from pathlib import Path

import pytest

from insitu.errors import UsageError
from insitu.formats.base import load_importer
from tests.workflows.test_import_limits import ANCHOR, INDEX, write_cube

pytest.importorskip("pycubexr")

SECOND_RANK = (
    '<locationgroup Id="1"><name>r</name><rank>1</rank><type>process</type>'
    '<location Id="1"><name>t</name><rank>0</rank><type>thread</type></location></locationgroup>'
    "</systemtreenode>"
)


def write_profile(path: Path, *seconds: float) -> Path:
    """A function `main` that took so long in two ranks."""
    path.parent.mkdir(exist_ok=True)
    packed = zlib.compress(struct.pack("<2d", *seconds))
    data = b"ZCUBEX.DATA" + struct.pack("<q", 1) + struct.pack("<qqq", 0, 0, len(packed)) + packed
    anchor = ANCHOR.replace("</systemtreenode>", SECOND_RANK)
    return write_cube(path, {"anchor.xml": anchor.encode(), "0.index": INDEX, "0.data": data})


def rows_of(path: Path) -> list[dict[str, object]]:
    return list(load_importer("cube").rows(str(path)))


def test_each_rank_keeps_its_time_with_and_without_called_functions(tmp_path):
    rows = rows_of(write_profile(tmp_path / "heat.n64.r2.cubex", 1.5, 2.5))

    common = {"callpath": "main", "unit": "s", "params": {"p": 2.0, "n": 64.0}, "repetition": 1}
    assert rows == [
        common | {"metric": "time", "ranks": [1.5, 2.5]},
        common | {"metric": "time_exclusive", "ranks": [1.5, 2.5]},
    ]


def test_each_file_of_a_directory_is_a_run(tmp_path):
    for run, seconds in (("a", 1.0), ("b", 2.0)):
        write_profile(tmp_path / run / "profile.cubex", seconds, seconds)

    times = [row["ranks"] for row in rows_of(tmp_path) if row["metric"] == "time"]

    assert times == [[1.0, 1.0], [2.0, 2.0]]


def test_a_directory_without_profiles_and_a_damaged_file_are_named(tmp_path):
    (tmp_path / "other.txt").touch()
    with pytest.raises(UsageError, match=r"there is no \.cubex file in it"):
        rows_of(tmp_path)

    (tmp_path / "heat.cubex").write_bytes(b"no archive")
    with pytest.raises(UsageError, match=r"heat\.cubex: cannot be read as CUBE4 \(ReadError\)"):
        rows_of(tmp_path)
