"""The Python SDK's own OAuth client: logs in and calls. Argument: the server's address."""
import asyncio
import sys
import urllib.parse

import httpx2
from mcp import Client
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientMetadata

PATIENCE = 60
REDIRECT = "http://127.0.0.1:9/callback"


class Storage:
    def __init__(self):
        self.tokens = self.client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client):
        self.client = client


class Browser:
    """Follows a login, with its cookies, until it leads back."""

    def __init__(self):
        self.query = None

    async def open(self, address):
        async with httpx2.AsyncClient(timeout=PATIENCE) as client:
            for _ in range(20):
                answer = await client.get(address)
                assert "location" in answer.headers, (answer.status_code, answer.text)
                address = urllib.parse.urljoin(str(answer.url), answer.headers["location"])
                if address.startswith(REDIRECT):
                    query = urllib.parse.urlsplit(address).query
                    self.query = dict(urllib.parse.parse_qsl(query))
                    return
        raise AssertionError("the login does not end")

    async def result(self):
        return AuthorizationCodeResult(
            code=self.query["code"], state=self.query.get("state"), iss=self.query.get("iss"))


async def main(url):
    browser, storage = Browser(), Storage()
    metadata = OAuthClientMetadata(
        client_name="tests", redirect_uris=[REDIRECT],
        grant_types=["authorization_code", "refresh_token"], response_types=["code"],
        token_endpoint_auth_method="none")
    auth = OAuthClientProvider(url, metadata, storage, browser.open, browser.result)
    http = httpx2.AsyncClient(auth=auth, timeout=httpx2.Timeout(PATIENCE))
    async with Client(streamable_http_client(url, http_client=http)) as client:
        tools = await client.list_tools()
        assert [tool.name for tool in tools.tools] == ["read_skill"], tools
        read = await client.call_tool("read_skill", {"skill_name": "calculator"})
        assert "# Calculator" in read.content[0].text, read
        hidden = await client.call_tool("read_skill", {"skill_name": "data_analysis"})
        assert hidden.is_error, hidden
    assert storage.tokens.access_token


asyncio.run(main(sys.argv[1]))
