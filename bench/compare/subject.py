"""Writes the files that all compared programs read, and folders of many skills and tools."""
import pathlib
import shutil

SIZES = {"4 KB": 4096, "64 KiB": 64 << 10, "1 MiB": 1 << 20}
LINE = "A line of \"ordinary\" text, as the files of skills have them.\n"
DOCUMENT = "---\nname: %s\ndescription: Skill %d of many, with a description.\n---\nText.\n"
NAME = b"read_file_in_skill"
ERRORS = {
    "a missing file": {"skill_name": "subject", "file_path": "examples/missing.py"},
    "path traversal": {"skill_name": "subject", "file_path": "../../../etc/passwd"},
    "an unknown skill": {"skill_name": "nonexistent", "file_path": "README.md"},
}


def arguments_for(size):
    """Returns the arguments of a call that reads the file of this size."""
    return {"skill_name": "subject", "file_path": "docs/%s.md" % size.replace(" ", "-")}


def write_skills(folder, count):
    """Writes `count` skills, one of which has the files to read. Returns their folder."""
    folder = pathlib.Path(folder)
    docs = folder / "subject/docs"
    docs.mkdir(parents=True)
    (folder / "subject/SKILL.md").write_text(DOCUMENT % ("subject", 0))
    for size, length in SIZES.items():
        text = LINE * (length // len(LINE) + 1)
        (folder / "subject" / arguments_for(size)["file_path"]).write_text(text[:length])
    for number in range(1, count):
        skill = folder / ("skill-%05d" % number)
        skill.mkdir()
        (skill / "SKILL.md").write_text(DOCUMENT % (skill.name, number))
    return folder


def write_tools(folder, component, count):
    """Writes a component, and copies of it with renamed tools: `count` in all. Returns their
    folder, and the names of the tools."""
    folder = pathlib.Path(folder)
    folder.mkdir()
    shutil.copy(component, folder)
    names = [NAME.decode()]
    binary = pathlib.Path(component).read_bytes()
    for number in range(1, count):
        # The name has the same length, so that all offsets in the file stay valid.
        name = b"read_file_in_%05d" % number
        assert len(name) == len(NAME)
        (folder / ("%s.wasm" % name.decode())).write_bytes(binary.replace(NAME, name))
        names.append(name.decode())
    return folder, names
