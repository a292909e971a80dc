"""Looks at itself."""
import ast
import inspect
import sys


def documented(a: int, *, b: str = "x") -> None:
    """Does nothing."""


print(inspect.signature(documented), inspect.getdoc(documented), inspect.getsource(documented).count("\n"))
tree = ast.parse(open(__file__).read())
print([node.name for node in tree.body if isinstance(node, ast.FunctionDef)], ast.unparse(tree.body[-1])[:5])
print(sys.modules["__main__"].documented is documented, __doc__, __spec__, sorted(set(vars()) & {"__file__", "__name__", "__builtins__"}))
