"""The hand-written declarations of Python's ABI against the real headers, where these are
installed."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.support.interpreters import OWN_FIRST, find_python
from tests.support.parameters import first_plain

NATIVE = Path(__file__).resolve().parents[2] / "collectors" / "native"
STRUCTS = {
    "PyObject": ["ob_refcnt", "ob_type"],
    "PyMethodDef": ["ml_name", "ml_meth", "ml_flags", "ml_doc"],
    "PyModuleDef": ["m_name", "m_doc", "m_size", "m_methods", "m_slots", "m_free"],
    "PyMemberDef": ["name", "type", "offset", "flags", "doc"],
    "PyType_Slot": ["slot", "pfunc"],
    "PyType_Spec": ["name", "basicsize", "itemsize", "flags", "slots"],
}
CONSTANTS = [
    *("METH_VARARGS", "METH_NOARGS", "METH_O", "Py_tp_call", "Py_tp_members"),
    *("T_PYSSIZET", "READONLY", "Py_TPFLAGS_DEFAULT", "Py_TPFLAGS_HAVE_VECTORCALL"),
]
FRAME = [
    *("f_func", "f_globals", "f_builtins", "f_locals", "f_code", "frame_obj", "previous"),
    *("prev_instr", "stacktop", "is_entry", "owner"),
]
REAL_HEADERS = "#include <Python.h>\n#include <structmember.h>\n"
REAL_FRAME = (
    "#define Py_BUILD_CORE\n#include <Python.h>\n#include <internal/pycore_frame.h>\n"
    "#include <opcode.h>\n#define Frame311 _PyInterpreterFrame\n"
    "#define RETURN_GENERATOR_311 RETURN_GENERATOR\n"
)
OURS = f'#include "{NATIVE / "python_abi.h"}"\n'


def layout(folder: Path, name: str, headers: str, lines: list[str], include: str) -> str:
    """What a program compiled against these headers prints."""
    source, program = folder / f"{name}.c", folder / name
    prints = "\n".join(lines)
    source.write_text(
        f"{headers}#include <stddef.h>\n#include <stdio.h>\nint main(void) {{\n{prints}\n}}\n"
    )
    # Debian has the configuration beside the folder of the headers.
    folders = [f"-I{include}", "-idirafter", str(Path(include).parent)]
    command = ["cc", "-Wl,--unresolved-symbols=ignore-all", *folders, str(source)]
    subprocess.run([*command, "-o", str(program)], check=True, capture_output=True)
    return subprocess.run([program], check=True, capture_output=True, text=True).stdout


def offsets(struct: str, fields: list[str]) -> list[str]:
    return [f'printf("{struct}.{f} %zu\\n", offsetof({struct}, {f}));' for f in fields]


@pytest.fixture(params=first_plain(OWN_FIRST))
def include(request):
    """The folder of the real headers of an interpreter."""
    found = find_python(request.param)
    ask = "import sysconfig; print(sysconfig.get_path('include'))"
    answer = found and subprocess.check_output([found, "-c", ask], text=True).strip()
    if not answer or not Path(answer, "Python.h").exists():
        pytest.skip(f"no Python.h of {request.param}")
    return answer


@pytest.mark.native
def test_the_declared_opcode_is_where_the_body_of_a_function_begins(tmp_path, python):
    ask = "import opcode, sys; print(sys.hexversion, opcode.opmap['RESUME'])"
    hexversion, resume = map(int, subprocess.check_output([python, "-c", ask]).split())
    at = "311" if hexversion < 0x030D0000 else "313" if hexversion < 0x030E0000 else "314"

    ours = layout(tmp_path, "ours", OURS, [f'printf("%d", RESUME_{at});'], str(tmp_path))

    assert int(ours) == resume


@pytest.mark.native
def test_declarations_by_hand_match_the_stable_abi(tmp_path, include):
    lines = [line for struct, fields in STRUCTS.items() for line in offsets(struct, fields)]
    lines += [f'printf("{name} %ld\\n", (long)({name}));' for name in CONSTANTS]

    ours = layout(tmp_path, "ours", OURS, lines, include)
    theirs = layout(tmp_path, "theirs", REAL_HEADERS, lines, include)

    assert ours == theirs
    assert len(re.findall(r"\d+\n", ours)) == len(lines)


@pytest.mark.native
@pytest.mark.parametrize("include", ["3.11"], indirect=True)
def test_the_declared_frame_matches_python_3_11(tmp_path, include):
    lines = [line.replace("struct ", "") for line in offsets("Frame311", FRAME)]
    lines += ['printf("%d %d\\n", FRAME_OWNED_BY_GENERATOR, RETURN_GENERATOR_311);']

    ours = layout(tmp_path, "ours", OURS, lines, include)
    theirs = layout(tmp_path, "theirs", REAL_FRAME, lines, include)

    assert ours.replace("Frame311", "") == theirs.replace("Frame311", "").replace(
        "_PyInterpreterFrame", ""
    )
