"""The tool `parity`, which tests use to compare the kits of all languages."""

from typing import Annotated

from skillhost_http import HttpError, get, post, request
from skillhost_kit import Failure, Folder, Output, export, log, tool, variable

# The maximum numbers of bytes and of names that the tool asks for.
BYTES = 64
# A limit that no file reaches, because it exceeds the memory of a call.
UNLIMITED = 1 << 30
NAMES = 12


@tool(skill="skill_name", path="path")
def parity(
    folder: Folder,
    skill_name: Annotated[str, "Name of the skill"],
    action: Annotated[str, "What to do"],
    path: Annotated[str | None, "A path, or what the action is about"],
) -> Output:
    """Compare the kits."""
    path = "." if path is None else path
    match action:
        case "list":
            return "\n".join(folder.list(path, NAMES))
        case "files":
            return "\n".join(folder.files(path, NAMES))
        case "bytes":
            return " ".join(map(str, folder.read_bytes(path, BYTES)))
        case "text":
            return folder.read_text(path, BYTES)
        case "whole":
            return folder.read_text(path, UNLIMITED)
        case "answer":
            return folder.answer_file(path, BYTES)
        case "get" | "secret":
            secret = {"authorization": f"Bearer {variable('TOKEN') or ''}"} if action == "secret" else {}
            response = get(path, headers=secret)
            return f"{response.status} {response.headers.get('x-kind', '-')} {response.text()}"
        case "post":
            return post(path, json={"path": "a knot"}).json()["echo"]
        case "stream":
            chunks = request("PUT", path, body=[b"a ", b"body"], headers={"content-length": "6"}).stream()
            return f"{sum(map(len, chunks))} bytes"
        case "kind":
            try:
                return get(path).text()
            except HttpError as error:
                return error.kind
        case "record":
            return Output("a text", {"path": path})
        case "log":
            log(path)
            return "logged"
        case "variable":
            return variable(path) or "not set"
        case "invalid-arguments":
            raise Failure.invalid_arguments(path)
        case "not-found":
            raise Failure.not_found(path)
        case "refused":
            raise Failure.refused(path)
        case "unreadable":
            raise Failure.unreadable(path)
    raise Failure.failed(path)


Tools = export(parity)
