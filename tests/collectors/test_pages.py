"""Which slots are read-only after relocation, with pages of 4 and of 64 KiB.

Processors with pages of 64 KiB (aarch64, ppc64le) cannot be had here: the size is that of a stub.
"""

import ctypes
import mmap
import shutil
import subprocess
from pathlib import Path

import pytest

NATIVE = Path(__file__).resolve().parents[2] / "collectors" / "native"
KIB = 1024
STUB = """
#define _GNU_SOURCE
#include <sys/mman.h>
#include <unistd.h>
#include "image.h"

long page_size;
void *protected_from;
size_t protected_bytes;

static long stub_sysconf(int name) { return name == _SC_PAGESIZE ? page_size : sysconf(name); }

static int stub_mprotect(void *from, size_t bytes, int protection) {
  if (protection & PROT_WRITE) {
    protected_from = from;
    protected_bytes = bytes;
  }
  return 0;
}
#define sysconf stub_sysconf
#define mprotect stub_mprotect
#include "image.c"

/* An object with one RELRO segment at `base`. */
int read_object(struct insitu_image *image, uintptr_t base, uintptr_t at, size_t bytes) {
  ElfW(Phdr) segment = {.p_type = PT_GNU_RELRO, .p_vaddr = at, .p_memsz = bytes};
  struct dl_phdr_info object = {.dlpi_addr = base, .dlpi_phdr = &segment, .dlpi_phnum = 1};
  insitu_image_read(&object, image);
  return image->relro_from < image->relro_to;
}
"""


class Image(ctypes.Structure):
    """The first members of `struct insitu_image`, with room for the others."""

    _fields_ = (
        ("base", ctypes.c_size_t),
        ("end", ctypes.c_size_t),
        ("relro_from", ctypes.c_size_t),
        ("relro_to", ctypes.c_size_t),
        ("others", ctypes.c_char * 256),
    )


@pytest.fixture(scope="module")
def native(tmp_path_factory):
    """image.c with a page size of the test's choice."""
    compiler = shutil.which("cc") or pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("pages")
    (folder / "stub.c").write_text(STUB)
    words = [compiler, "-std=gnu11", "-O1", "-shared", "-fPIC", f"-I{NATIVE}", f"-I{NATIVE.parent}"]
    words += ["-o", folder / "pages.so", folder / "stub.c", "-Wl,--unresolved-symbols=ignore-all"]
    subprocess.run(words, check=True)
    library = ctypes.CDLL(str(folder / "pages.so"), mode=1)  # RTLD_LAZY: the rest is not called
    library.read_object.argtypes = [
        ctypes.POINTER(Image),
        ctypes.c_size_t,
        ctypes.c_size_t,
        ctypes.c_size_t,
    ]
    library.insitu_image_patch.argtypes = [
        ctypes.POINTER(Image),
        ctypes.c_size_t,
        ctypes.c_size_t,
    ]
    return library


def read(native, page_kib, at, to):
    """The image of an object at 1 GiB whose RELRO segment spans these offsets."""
    ctypes.c_long.in_dll(native, "page_size").value = page_kib * KIB
    image = Image()
    has_relro = native.read_object(ctypes.byref(image), 1 << 30, at, to - at)
    return image, has_relro


@pytest.mark.parametrize(
    ("page_kib", "bounds"),
    [(4, (0x1FD000, 0x200000)), (64, (0x1F0000, 0x200000))],
)
def test_a_segment_that_ends_with_a_page_is_sealed_as_a_whole(native, page_kib, bounds):
    image, has_relro = read(native, page_kib, at=0x1FDD90, to=0x200000)

    assert has_relro
    assert (image.relro_from - (1 << 30), image.relro_to - (1 << 30)) == bounds


def test_with_larger_pages_the_last_one_stays_writable_in_objects_linked_for_small_ones(native):
    small, has_small = read(native, 4, at=0x1D90, to=0x3000)
    _, has_large = read(native, 64, at=0x1D90, to=0x3000)

    assert has_small
    assert small.relro_to - small.relro_from == 0x2000
    assert not has_large


@pytest.mark.parametrize("page_kib", [4, 64])
def test_a_patch_unprotects_whole_pages_up_to_the_end_of_the_slot(native, page_kib):
    page = page_kib * KIB
    memory = mmap.mmap(-1, 4 * 64 * KIB)
    first = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    start = (first + 64 * KIB - 1) // (64 * KIB) * (64 * KIB)
    ctypes.c_long.in_dll(native, "page_size").value = page
    image = Image(relro_from=start, relro_to=start + 2 * 64 * KIB)
    slot = start + page + 0x128

    is_patched = native.insitu_image_patch(ctypes.byref(image), slot, 4711)

    assert is_patched
    assert ctypes.c_size_t.from_address(slot).value == 4711
    assert ctypes.c_void_p.in_dll(native, "protected_from").value == start + page
    assert ctypes.c_size_t.in_dll(native, "protected_bytes").value == 0x128 + 8
