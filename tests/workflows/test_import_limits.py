"""Files that become far larger in memory than on disk are refused, whichever format they have."""

import gzip
import io
import json
import struct
import subprocess
import sys
import tarfile
import zipfile
import zlib
from pathlib import Path

import pytest

LIMIT_BYTES = 256 << 20  # of the memory that reading may take here
MAX_RESIDENT_BYTES = LIMIT_BYTES + (160 << 20)  # with Python, numpy, pyarrow and insitu
IMPORT = """
import sys
from insitu.cli import main
from insitu.formats import reading
reading.MIN_MEMORY_BYTES = int(sys.argv[1])
try:
    main(["import", *sys.argv[2:]])
finally:
    with open("/proc/self/status") as status:
        print(next(line.split()[1] for line in status if line.startswith("VmHWM")))
"""
LARGE_MEBIBYTES = 300  # of what the files below become in memory, at least
ZEROS = bytes(1 << 20)

METRIC = (
    '<metric id="0" type="EXCLUSIVE"><uniq_name>time</uniq_name><dtype>DOUBLE</dtype>'
    "<uom>sec</uom></metric>"
)
SYSTEM = (
    '<systemtreenode Id="0" class="machine"><name>m</name><locationgroup Id="0"><name>r</name>'
    '<rank>0</rank><type>process</type><location Id="0"><name>t</name><rank>0</rank>'
    "<type>thread</type></location></locationgroup></systemtreenode>"
)
REGION = '<region id="0" begin="-1" end="-1"><name>main</name></region><cnode id="0" calleeId="0"/>'
ANCHOR = (
    f'<?xml version="1.0"?><cube><metrics>{METRIC}</metrics><program>{REGION}</program>'
    f"<system>{SYSTEM}</system></cube>"
)
INDEX = b"CUBEX.INDEX" + struct.pack("<ihci", 1, 0, b"\x00", 1) + struct.pack("<i", 0)
CALI_HEADER = """\
__rec=node,id=20,attr=10,data=276,parent=3
__rec=node,id=21,attr=8,data=function,parent=20
__rec=node,id=22,attr=10,data=85,parent=5
__rec=node,id=23,attr=8,data=sum#time.duration,parent=22
__rec=node,id=24,attr=10,data=85,parent=1
__rec=node,id=25,attr=8,data=mpi.rank,parent=24
"""


def write_cube(file: Path, members: dict[str, bytes]) -> Path:
    """Write an archive as Score-P does."""
    with tarfile.open(file, "w") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return file


def cube_values(folder: Path, mebibytes: int) -> Path:
    """Compressed values of one metric."""
    blocks = [zlib.compress(ZEROS)] * mebibytes
    headers = b"".join(struct.pack("<qqq", 0, 0, len(block)) for block in blocks)
    data = b"ZCUBEX.DATA" + struct.pack("<q", mebibytes) + headers + b"".join(blocks)
    members = {"anchor.xml": ANCHOR.encode(), "0.index": INDEX, "0.data": data}
    return write_cube(folder / "heat.cubex", members)


def cube_description(folder: Path, mebibytes: int) -> Path:
    """A compressed call tree, in which a function has a long name."""
    head, tail = ANCHOR.encode().split(b"main")
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=1) as stream:
        stream.write(head)
        for _ in range(mebibytes):
            stream.write(b"x" * len(ZEROS))
        stream.write(tail)
    return write_cube(folder / "heat.cubex", {"anchor.xml": packed.getvalue()})


def cali_paths(folder: Path, mebibytes: int) -> Path:
    """A deep call path, of which each part has a value: n (n + 1) / 2 names of five characters."""
    lines = CALI_HEADER.splitlines()
    depth = int((2 * mebibytes * len(ZEROS) / 7) ** 0.5)  # with two characters of an arrow
    lines.append("__rec=node,id=10000,attr=21,data=10000")
    for number in range(10_001, 10_000 + depth):
        lines.append(f"__rec=node,id={number},attr=21,data={number},parent={number - 1}")
        lines.append(f"__rec=ctx,ref={number},attr=23,data=1.0")
    (folder / "heat.cali").write_text("\n".join(lines) + "\n")
    return folder / "heat.cali"


def cali_ranks(folder: Path, mebibytes: int) -> Path:
    """Few values, of the first and of the last of millions of ranks: 30 MiB a function."""
    lines = CALI_HEADER.splitlines()
    for number in range(100, 100 + max(mebibytes // 30, 1)):
        lines.append(f"__rec=node,id={number},attr=21,data=f{number}")
        for rank in (0, 3_999_999 if mebibytes > 30 else 3):
            lines.append(f"__rec=ctx,ref={number},attr=23=25,data=1.0={rank}")
    (folder / "heat.cali").write_text("\n".join(lines) + "\n")
    return folder / "heat.cali"


def parquet_rows(folder: Path, mebibytes: int) -> Path:
    """Equal rows, which take at least 128 bytes each once they are lists."""
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    count = mebibytes << 13
    integer = pyarrow.scalar(0, pyarrow.int32())
    columns = {"p": pyarrow.repeat(2.0, count), "repetition": pyarrow.repeat(integer, count)}
    for name, word in (("callpath", "main"), ("metric", "time"), ("unit", "s")):
        columns[name] = pyarrow.repeat(word, count)
    columns |= {"rank": pyarrow.repeat(integer, count), "value": pyarrow.repeat(1.0, count)}
    parquet.write_table(pyarrow.table(columns), folder / "heat.parquet", row_group_size=count)
    return folder / "heat.parquet"


def parquet_words(folder: Path, mebibytes: int) -> Path:
    """A call path with a long name."""
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    words = {"callpath": "x" * (mebibytes * len(ZEROS)), "metric": "time", "unit": "s"}
    columns = {name: pyarrow.array([word]) for name, word in words.items()}
    columns |= {"p": pyarrow.array([2.0]), "value": pyarrow.array([1.0])}
    columns |= {name: pyarrow.array([0], pyarrow.int32()) for name in ("repetition", "rank")}
    plain = {"use_dictionary": False, "write_statistics": False}
    table = pyarrow.table(columns)
    parquet.write_table(table, folder / "heat.parquet", compression="zstd", **plain)
    return folder / "heat.parquet"


def extrap_zip(folder: Path, mebibytes: int) -> Path:
    """A long description in a zip archive."""
    with (
        zipfile.ZipFile(folder / "heat.extra-p", "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("experiment.json", "w") as content,
    ):
        content.write(b"[")
        for _ in range(mebibytes):
            content.write(b"0," * (len(ZEROS) // 2))
    return folder / "heat.extra-p"


def hatchet_ranks(folder: Path, mebibytes: int) -> Path:
    """Few values, of the first and of the last of millions of ranks: 30 MiB a function."""
    records = []
    nodes = {}
    for node in range(max(mebibytes // 30, 1)):
        nodes[str(node)] = {"data": {"name": f"f{node}"}, "children": []}
        for rank in (0, 3_999_999 if mebibytes > 30 else 3):
            records.append({"node": node, "rank": rank, "name": f"f{node}", "time": 1.0})
    document = {"graph": [nodes], "dataframe": records, "exclusive_metrics": ["time"]}
    text = json.dumps(document | {"inclusive_metrics": []})
    (folder / "heat.json").write_text(text)
    return folder / "heat.json"


FULL = pytest.mark.full  # the second kind of a format
FORMATS = [
    pytest.param(cube_description, "pycubexr", "cube", id="cube-description"),
    pytest.param(cube_values, "pycubexr", "cube", id="cube-values", marks=FULL),
    pytest.param(cali_paths, "caliperreader", "caliper", id="cali-paths"),
    pytest.param(cali_ranks, "caliperreader", "caliper", id="cali-ranks", marks=FULL),
    pytest.param(parquet_rows, "pyarrow", "parquet", id="parquet-rows"),
    pytest.param(parquet_words, "pyarrow", "parquet", id="parquet-words", marks=FULL),
    pytest.param(extrap_zip, "json", "extra-p", id="zip"),
    pytest.param(hatchet_ranks, "json", "hatchet", id="hatchet-ranks", marks=FULL),
]


def run_import(folder: Path, file: Path, form: str) -> tuple[int, str, int]:
    """Exit code, errors and peak of resident memory of `insitu import` with a small limit."""
    campaign = str(folder / "heat.insitu")
    process = subprocess.run(
        [sys.executable, "-c", IMPORT, str(LIMIT_BYTES), campaign, str(file), "--from", form],
        capture_output=True,
        text=True,
        check=False,
    )
    return process.returncode, process.stderr, int(process.stdout.split()[-1]) << 10


@pytest.mark.parametrize(("make", "package", "form"), FORMATS)
def test_a_file_that_needs_far_more_memory_than_its_size_is_refused(make, package, form, tmp_path):
    pytest.importorskip(package)
    file = make(tmp_path, LARGE_MEBIBYTES)
    assert file.stat().st_size < LIMIT_BYTES // 32

    code, errors, resident = run_import(tmp_path, file, form)

    assert (code, "Traceback" in errors) == (2, False), errors
    assert f"{file}: reading it needs more than {LIMIT_BYTES >> 20} MiB of memory" in errors
    assert resident < MAX_RESIDENT_BYTES
    assert not (tmp_path / "heat.insitu").exists()


@pytest.mark.full
@pytest.mark.parametrize(("make", "package", "form"), FORMATS)
def test_a_small_file_of_the_same_kind_is_read_with_the_same_limit(make, package, form, tmp_path):
    pytest.importorskip(package)

    _, errors, _ = run_import(tmp_path, make(tmp_path, 1), form)

    assert "MiB of memory" not in errors


def test_entities_in_a_cube_file_are_not_expanded_without_end(tmp_path):
    pytest.importorskip("pycubexr")
    entities = "".join(f'<!ENTITY e{i} "{f"&e{i - 1};" * 10}">' for i in range(1, 12))
    text = ANCHOR.replace("<cube>", f'<!DOCTYPE c [<!ENTITY e0 "x">{entities}]><cube>')
    content = text.replace("main", "&e11;").encode()
    file = write_cube(tmp_path / "heat.cubex", {"anchor.xml": content})

    code, errors, resident = run_import(tmp_path, file, "cube")

    assert (code, "Traceback" in errors) == (2, False), errors
    assert resident < MAX_RESIDENT_BYTES
