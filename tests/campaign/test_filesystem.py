import os

import pytest

from insitu.campaign.filesystem import file_system, is_local


@pytest.fixture
def mounts(tmp_path: os.PathLike[str]) -> str:
    name = os.path.join(tmp_path, "mounts")
    lines = (
        "/dev/vda / ext4 rw 0 0",
        "srv:/home /home nfs4 rw 0 0",
        "mds@o2ib:/fs /home/fast\\040disk lustre rw 0 0",
        "weird /odd strangefs rw 0 0",
        "back /a\\134b\\011c xfs rw 0 0",
        "broken",
    )
    with open(name, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    return name


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/scratch/a", "ext4"),
        ("/home", "nfs4"),
        ("/home/ada/heat.insitu", "nfs4"),
        ("/homework/a", "ext4"),
        ("/home/fast disk/a", "lustre"),
        ("/a\\b\tc/d", "xfs"),
    ],
)
def test_the_deepest_mount_point_decides(path: str, kind: str, mounts: str):
    assert file_system(path, mounts) == kind


def test_an_unknown_file_system_is_not_local(mounts: str):
    assert is_local("/scratch", mounts)
    assert not is_local("/odd/a", mounts)
    assert not is_local("/scratch", mounts + ".missing")
