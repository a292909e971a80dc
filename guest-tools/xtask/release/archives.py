"""Writes reproducible archives: the same contents give the same bytes, because entries are sorted
and have the same time. A tree is a dict from paths to Files and Folders."""
import dataclasses
import gzip
import io
import tarfile
import time
import zipfile

# Zip stores no earlier time.
EARLIEST_ZIP_TIME = (1980, 1, 1, 0, 0, 0)


@dataclasses.dataclass
class File:
    data: bytes
    mode: int = 0o644


@dataclasses.dataclass
class Folder:
    """A folder that is empty, or has another mode or owner. A tree needs no entry for others."""
    mode: int = 0o755
    owner: int = 0


def tar(tree, epoch, prefix=""):
    """Returns a tar archive of a tree, with the folders that its paths need."""
    entries = dict(tree)
    for path in tree:
        for end in (index for index, letter in enumerate(path) if letter == "/"):
            entries.setdefault(path[:end], Folder())
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path, entry in sorted(entries.items()):
            info = tarfile.TarInfo(prefix + path)
            info.mtime, info.mode = epoch, entry.mode
            if isinstance(entry, Folder):
                info.type = tarfile.DIRTYPE
                info.uid = info.gid = entry.owner
                archive.addfile(info)
            else:
                info.size = len(entry.data)
                archive.addfile(info, io.BytesIO(entry.data))
    return out.getvalue()


def compress(data):
    """Returns the data as a gzip file without a name and a time."""
    return gzip.compress(data, compresslevel=9, mtime=0)


def zip_file(tree, epoch):
    moment = max(time.gmtime(epoch)[:6], EARLIEST_ZIP_TIME)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path, entry in sorted(tree.items()):
            info = zipfile.ZipInfo(path, moment)
            # The type of a regular file, for installers that copy modes.
            info.create_system, info.external_attr = 3, (0o100000 | entry.mode) << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, entry.data, compresslevel=9)
    return out.getvalue()


def ar(members, epoch):
    """Returns an ar archive in the form that dpkg reads, with the members in this order."""
    out = [b"!<arch>\n"]
    for name, data in members:
        out.append(b"%-16s%-12d%-6d%-6d%-8o%-10d`\n" % (
            name.encode(), epoch, 0, 0, 0o100644, len(data)))
        out += [data, b"\n" * (len(data) % 2)]
    return b"".join(out)
