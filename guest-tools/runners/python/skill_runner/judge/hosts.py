"""Finds the hosts of requests in the code of a script."""

import ast
import os
import re
from urllib.parse import urlsplit

from ..network import RULES_VARIABLE

METHODS = ("get", "post", "put", "patch", "delete", "head", "options")
# The clients that send requests with their methods.
CLIENTS = ("requests.Session", "requests.session", "requests.sessions.Session", "httpx.Client", "httpx.AsyncClient")
# The calls that send a request, by their full names, and the position of their URL.
REQUESTS = {
    **{f"{module}.{method}": 0 for module in ("requests", "httpx") for method in METHODS},
    **{f"{client}().{method}": 0 for client in CLIENTS for method in METHODS},
    **{f"{client}().{method}": 1 for client in CLIENTS for method in ("request", "stream")},
    "requests.request": 1, "httpx.request": 1, "httpx.stream": 1,
    "urllib3.request": 1, "urllib3.PoolManager().request": 1, "urllib3.PoolManager().urlopen": 1,
    "urllib.request.urlopen": 0, "urllib.request.urlretrieve": 0, "urllib.request.build_opener().open": 0,
    "http.client.HTTPSConnection().request": None, "http.client.HTTPConnection().request": None,
}
# The calls that only make a client. Its use is possible, and cannot always be followed.
OPENERS = {
    **dict.fromkeys(CLIENTS), "urllib3.PoolManager": None, "urllib.request.build_opener": None,
    "http.client.HTTPSConnection": 0, "http.client.HTTPConnection": 0, "xmlrpc.client.ServerProxy": 0,
}
# The calls that make a connection to a host, and its scheme.
CONNECTIONS = {"http.client.HTTPSConnection": "https", "http.client.HTTPConnection": "http"}
# The error of a request that is denied, by the first part of the call's name.
ERRORS = {
    "requests": "requests.exceptions.ConnectionError", "httpx": "httpx.ConnectError",
    "urllib": "urllib.error.URLError", "urllib3": "urllib3.exceptions.HTTPError",
}
# The functions and methods that keep the host of their first argument, or of their object.
PASSING = {"Request", "urljoin", "str", "quote", "urlparse", "urlsplit", "URL"}
PASSING_METHODS = {"format", "rstrip", "strip", "lstrip", "replace", "lower"}
ENVIRONMENT = {"os.environ.get", "os.getenv", "environ.get", "getenv"}
# Hosts in names of XML and JSON, to which nobody sends requests.
NAMES_ONLY = {
    "www.w3.org", "schemas.openxmlformats.org", "schemas.microsoft.com", "purl.org", "json-schema.org",
    "www.sitemaps.org", "schema.org", "ns.adobe.com",
}
# The maximum number of steps from a call to the text with its host. Guards against: a script that takes too long.
MAX_STEPS = 6
# The maximum number of hosts in a verdict.
MAX_HOSTS = 5
MAX_PORT = 65535
HOST = re.compile(r"(https?)://([A-Za-z0-9.-]+|\[[0-9a-fA-F:]+\])(?::([0-9]{1,5}))?(.?)", re.DOTALL)


def origin(text, is_whole=True):
    """Returns the scheme, host and port of a URL, or None. If the text is only the start of a URL, something
    must follow the host: the rest could be part of it."""
    found = HOST.match(text)
    if found is None:
        return None
    scheme, host, port, after = found.groups()
    if after not in ("/", "?", "#", "") or not after and not is_whole or host in NAMES_ONLY:
        return None
    port = int(port or (443 if scheme == "https" else 80))
    return (scheme, host.lower(), port) if 0 < port <= MAX_PORT else None


def written(source):
    """Returns the origins of the URLs in a file."""
    origins = (origin(text, False) or origin(text) for text in source.urls)
    return {found: None for found in origins if found}


class Hosts:
    """Finds the origins of requests in one script."""

    def __init__(self, names):
        self._names = names

    def of_call(self, scope, node, name):
        """Returns the origins to which a call sends, and whether the call says them. If it does not, they are
        those of its file."""
        found = self._of_url(scope, node, name)
        if not found and "()." in name:
            # The client may have them.
            client, _, _ = name.partition("().")
            found = [it for made in self._makers(scope, node) for it in self._of_url(*made, client)]
        return list(dict.fromkeys(found or written(scope.source)))[:MAX_HOSTS], bool(found)

    def _of_url(self, scope, node, name):
        url = self._argument(node, REQUESTS.get(name, OPENERS.get(name)))
        if name in CONNECTIONS:
            return self._of_connection(node, url, CONNECTIONS[name])
        return self.of(scope, url) if url is not None else []

    @staticmethod
    def _makers(scope, node):
        """Returns the calls that made the object of a method's call, with their scopes."""
        match node.func:
            case ast.Attribute(value=ast.Call() as made):
                return [(scope, made)]
            case ast.Attribute(value=ast.Name(id=name)):
                meanings = scope.find(name) or ()
                return [it for it in meanings if isinstance(it, tuple) and isinstance(it[1], ast.Call)]
        return []

    @staticmethod
    def _argument(node, position):
        for keyword in node.keywords:
            if keyword.arg in ("url", "host", "base_url", "fullurl"):
                return keyword.value
        return node.args[position] if position is not None and len(node.args) > position else None

    @staticmethod
    def _of_connection(node, host, scheme):
        port = ""
        match node.args:
            case [_, ast.Constant(value=int(number)), *_]:
                # Python refuses to write an integer of thousands of digits.
                if not 0 < number <= MAX_PORT:
                    return []
                port = f":{number}"
        match host:
            case ast.Constant(value=str(name)):
                found = origin(f"{scheme}://{name}{port}")
                return [found] if found else []
        return []

    def of(self, scope, node, steps=MAX_STEPS):
        """Returns the origins that an expression may begin with."""
        if steps == 0:
            return []

        def follow(*nodes):
            return [found for it in nodes for found in self.of(scope, it, steps - 1)]

        match node:
            case ast.Constant(value=str(text)):
                found = origin(text)
                return [found] if found else []
            case ast.JoinedStr(values=[ast.Constant(value=str(text)), *rest]):
                found = origin(text, not rest)
                return [found] if found else []
            case ast.JoinedStr(values=[ast.FormattedValue(value=value), *_]) | ast.NamedExpr(value=value):
                return follow(value)
            case ast.BinOp(left=ast.Constant(value=str(text))):
                found = origin(text, False)
                return [found] if found else []
            case ast.BinOp(left=value):
                return follow(value)
            case ast.BoolOp(values=values):
                return follow(*values)
            case ast.IfExp(body=first, orelse=second):
                return follow(first, second)
            case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in PASSING_METHODS:
                return follow(value)
            case ast.Call(func=function, args=[first, *others]):
                name = ast.unparse(function)
                if name in ENVIRONMENT:
                    return follow(*others[:1])
                return follow(first) if name.rpartition(".")[2] in PASSING else []
            case ast.Name(id=name):
                return self._of_meanings(scope.find(name) or (), steps)
        return []

    def _of_meanings(self, meanings, steps):
        origins = []
        for meaning in meanings:
            if isinstance(meaning, tuple):
                origins += self.of(*meaning, steps - 1)
            elif isinstance(meaning, str):
                # A name from another file of the skill.
                module, _, name = meaning.rpartition(".")
                source = self._names.loaded(module) if module else None
                if source is not None:
                    origins += self._of_meanings(source.scope.names.get(name, ()), steps - 1)
        return origins


class Granted:
    """The origins that the tool's grant allows, as the host tells them."""

    def __init__(self):
        rules = os.environ.get(RULES_VARIABLE, "").split("\n")
        # The last word of a rule is its URL. The words before are methods.
        self._rules = [urlsplit(rule.split(" ")[-1]) for rule in rules if rule.strip()]

    def allows(self, origins, is_said):
        """Returns whether rules allow some request to each origin. If the call does not say its origins, one of
        them suffices, and if none is known, any rule."""
        allowed = [any(_fits(rule, it) for rule in self._rules) for it in origins]
        if not is_said:
            return bool(self._rules) and (any(allowed) or not origins)
        return all(allowed)


def _fits(rule, found):
    scheme, host, port = found
    if rule.scheme != scheme or (rule.port or (443 if scheme == "https" else 80)) != port:
        return False
    pattern, labels = (rule.hostname or "").split("."), host.strip("[]").split(".")
    return len(pattern) == len(labels) and all(want in ("*", label) for want, label in zip(pattern, labels))


def address(found):
    """Returns an origin as a host, with its port if it is unusual."""
    scheme, host, port = found
    return host if port == (443 if scheme == "https" else 80) else f"{host}:{port}"


def rule(found):
    """Returns the rule that an operator can grant for an origin."""
    return f"{found[0]}://{address(found)}/*"
