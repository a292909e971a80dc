"""A server for the same reads over MCP, on the official Python SDK and without a sandbox.
`skillhost serve` is compared with it. The function is asynchronous, because the SDK would run a
synchronous one in a thread, which takes longer. Like skillhost, it sends the text once, not also
as structured content. It logs nothing."""
import socket
import sys

from mcp.server.mcpserver import MCPServer
from mcp.types import CallToolResult, TextContent

from contract import Refused, Skills

server = MCPServer("reads", log_level="CRITICAL")
skills = Skills(sys.argv[1])


@server.tool(structured_output=False)
async def read_file_in_skill(skill_name: str, file_path: str) -> CallToolResult:
    """Read any file within a skill's folder."""
    try:
        text, _, _ = skills.read(skill_name, file_path)
    except Refused as refused:
        text = TextContent(type="text", text="ERROR: %s" % refused)
        return CallToolResult(content=[text], is_error=True)
    return CallToolResult(content=[TextContent(type="text", text=text)])


def serve_over_http():
    """Prints the address, and serves without sessions, like skillhost."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    print("http://127.0.0.1:%d/mcp" % port, flush=True)
    server.run("streamable-http", port=port, stateless_http=True, json_response=True)


if __name__ == "__main__":
    if sys.argv[2:] == ["http"]:
        serve_over_http()
    else:
        server.run()
