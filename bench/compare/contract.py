"""The contract of `read_file_in_skill` in plain Python, without a sandbox. skillhost is
compared with it. It does only what the contract requires: one `resolve()`, one
`is_relative_to()`, one read, one decoding. As a program, it is the counterpart of `driver/`
and answers the same orders."""
import json
import pathlib
import sys
import time

OUTSIDE = "Path traversal detected: cannot access files outside skill folder"
UTF_16 = (b"\xff\xfe", b"\xfe\xff")


class Refused(Exception):
    """An error of the contract, with its message."""


class Skills:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder).resolve()

    def read(self, skill_name, file_path):
        """Returns the text of a file, its size in bytes, and its encoding."""
        if not skill_name or skill_name == "." or any(
                mark in skill_name for mark in ("/", "\\", "..")):
            raise Refused("Invalid skill name: must not contain special characters")
        if not file_path:
            raise Refused("Cannot read file '': the path is empty")
        folder = self.folder / skill_name
        # A backslash is a separator too.
        file = (folder / file_path.replace("\\", "/")).resolve()
        if not file.is_relative_to(folder):
            raise Refused(OUTSIDE)
        try:
            data = file.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            if not folder.is_dir():
                raise Refused("Skill '%s' not found in skills folder" % skill_name) from None
            raise Refused(
                "File '%s' not found in skill '%s'" % (file_path, skill_name)) from None
        except OSError as error:
            raise Refused("Cannot read file '%s': %s" % (file_path, error.strerror)) from None
        try:
            text, encoding = decoded(data)
        except UnicodeDecodeError as error:
            raise Refused("Cannot read file '%s': %s" % (file_path, error.reason)) from None
        return text, len(data), encoding

    def record(self, skill_name, file_path):
        """Returns the contract's answer as an object."""
        request = {"skill_name": skill_name, "file_path": file_path}
        try:
            text, size, encoding = self.read(skill_name, file_path)
        except Refused as refused:
            return {"success": False, **request, "error": str(refused)}
        return {"success": True, **request, "content": text, "size_bytes": size,
                "encoding": encoding}


def decoded(data):
    """Decodes UTF-8, else UTF-16 with a byte order mark, else Windows-1252."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        if data.startswith(UTF_16):
            return data.decode("utf-16"), "utf-16"
        return data.decode("cp1252"), "windows-1252"
    return text.removeprefix("\ufeff"), "utf-8"


def timed(skills, arguments, times):
    nanoseconds = []
    for _ in range(times):
        start = time.perf_counter_ns()
        message = json.dumps(skills.record(**arguments))
        nanoseconds.append(time.perf_counter_ns() - start)
    return {"nanoseconds": nanoseconds, "last": message}


def main():
    skills = Skills(sys.argv[1])
    print("1", flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        print(json.dumps(timed(skills, order["arguments"], order["times"])), flush=True)


if __name__ == "__main__":
    main()
