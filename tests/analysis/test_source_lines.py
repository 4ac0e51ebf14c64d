"""Lines of compiled functions."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from insitu.analysis.source_lines import with_lines
from insitu.campaign.store import open_store
from insitu.entities import CallPath
from insitu.run.summary import diagnose_briefly
from tests.support.campaigns import SOLVE, heat_run

MEASURED = 1.8e9  # when `heat_run` begins, in seconds

pytestmark = pytest.mark.skipif(
    shutil.which("addr2line") is None, reason="binutils read debug information"
)


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A file with a function `solve` in line 2 of solve.c, made before it was measured."""
    (tmp_path / "solve.c").write_text("\nint solve(int x) { return 2 * x; }\n")
    words = ["cc", "-g", "-shared", "-fPIC", "-o", "solve.so", "solve.c"]
    subprocess.run(words, check=True, cwd=tmp_path)
    os.utime(tmp_path / "solve.so", (MEASURED - 1, MEASURED - 1))
    return tmp_path / "solve.so"


def test_compiled_functions_have_lines_unless_they_were_compiled_again(library: Path):
    halo = CallPath.parse("main->halo")
    sites = {SOLVE: (str(library), 0), halo: ("halo.py", 7)}

    assert with_lines(sites, MEASURED) == {
        SOLVE: (str(library.with_suffix(".c")), 2),
        halo: ("halo.py", 7),
    }
    assert with_lines(sites, MEASURED - 2) == sites


def test_a_run_of_a_compiled_program_ends_with_lines(tmp_path: Path, library: Path):
    campaign = str(tmp_path / "heat.insitu")
    with open_store(campaign, create=True) as store:
        for p in (4, 8):
            record, table = heat_run(p)
            table.sites[SOLVE] = (str(library), 0)
            store.add_run(record, table)
    rebuilt_at = record.started_at - 1  # between both runs
    os.utime(library, (rebuilt_at, rebuilt_at))

    lines = diagnose_briefly(campaign)

    assert [line for line in lines if "solve.c:2" in line]
