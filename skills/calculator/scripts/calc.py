"""Evaluate one arithmetic expression exactly, in decimal.

    python3 scripts/calc.py "19.99 * 3"
    python3 scripts/calc.py --places 2 "100 / 7"
    python3 scripts/calc.py --check examples/cases.csv

The expression is parsed, never executed: only the operators and functions in
the tables below exist. Exit status: 0 result printed, 1 the expression is
wrong or a check failed, 2 wrong usage.
"""

import argparse
import ast
import csv
import decimal
import json
import operator
import pathlib
import sys
from decimal import Decimal

CONFIG = pathlib.Path(__file__).resolve().parent.parent / "config.json"

BINARY = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
UNARY = {ast.UAdd: operator.pos, ast.USub: operator.neg}


def whole(rounding):
    return lambda x: x.to_integral_value(rounding=rounding)


FUNCTIONS = {
    "abs": (abs, 1, 1),
    "min": (min, 1, None),
    "max": (max, 1, None),
    "sum": (lambda *xs: sum(xs, Decimal(0)), 1, None),
    "mean": (lambda *xs: sum(xs, Decimal(0)) / len(xs), 1, None),
    "sqrt": (Decimal.sqrt, 1, 1),
    "floor": (whole(decimal.ROUND_FLOOR), 1, 1),
    "ceil": (whole(decimal.ROUND_CEILING), 1, 1),
}


class Wrong(Exception):
    """The expression cannot be evaluated; the text says why."""


def load_context():
    config = json.loads(CONFIG.read_text(encoding="utf-8"))
    context = decimal.Context(
        prec=config["significant_digits"],
        rounding=config["rounding"],
        Emax=config["largest_exponent"],
        Emin=-config["largest_exponent"],
        traps=[decimal.DivisionByZero, decimal.InvalidOperation, decimal.Overflow],
    )
    return context, config["longest_expression"]


def evaluate(source, longest):
    if len(source) > longest:
        raise Wrong(f"the expression is longer than {longest} characters")
    try:
        tree = ast.parse(source.strip(), mode="eval")
        return value_of(tree.body, source.strip())
    except (SyntaxError, ValueError):
        raise Wrong("this is not an arithmetic expression") from None
    except decimal.DivisionByZero:
        raise Wrong("division by zero") from None
    except decimal.Overflow:
        raise Wrong("the result is too large") from None
    except decimal.InvalidOperation:
        raise Wrong("this operation has no result for these numbers") from None


def value_of(node, source):
    if isinstance(node, ast.Constant):
        # The literal's own text, so that 0.1 never passes through a float.
        literal = ast.get_source_segment(source, node) or ""
        try:
            return Decimal(literal.replace("_", ""))
        except decimal.InvalidOperation:
            raise Wrong(f"not a decimal number: {literal}") from None
    if isinstance(node, ast.BinOp) and type(node.op) in BINARY:
        left, right = value_of(node.left, source), value_of(node.right, source)
        return BINARY[type(node.op)](left, right)
    if isinstance(node, ast.UnaryOp) and type(node.op) in UNARY:
        return UNARY[type(node.op)](value_of(node.operand, source))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return call(node, source)
    if isinstance(node, ast.Name):
        raise Wrong(f"unknown name '{node.id}'")
    raise Wrong(f"not supported: {ast.get_source_segment(source, node)}")


def call(node, source):
    name = node.func.id
    if name not in FUNCTIONS or node.keywords:
        raise Wrong(f"unknown name '{name}'")
    function, least, most = FUNCTIONS[name]
    if len(node.args) < least or (most is not None and len(node.args) > most):
        raise Wrong(f"{name}() takes {least if most else f'{least} or more'} argument(s)")
    return function(*(value_of(argument, source) for argument in node.args))


def show(value, places=None):
    if places is not None:
        # Half up is what people expect of prices, whatever the context uses.
        value = value.quantize(Decimal(1).scaleb(-places), rounding=decimal.ROUND_HALF_UP)
        return f"{value:f}"
    text = f"{value:f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def check(path, longest):
    failures = 0
    with open(path, encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            try:
                got = show(evaluate(row["expression"], longest))
            except Wrong as wrong:
                got = f"error: {wrong}"
            if got != row["result"]:
                failures += 1
                print(f"{row['expression']}: expected {row['result']}, got {got}")
    print("all cases pass" if failures == 0 else f"{failures} case(s) failed")
    return 1 if failures else 0


def main():
    parser = argparse.ArgumentParser(description="Evaluate one arithmetic expression in decimal.")
    parser.add_argument("expression", nargs="?")
    parser.add_argument("--places", type=int, choices=range(0, 21), metavar="0-20")
    parser.add_argument("--check", metavar="CSV")
    options = parser.parse_args()
    context, longest = load_context()
    decimal.setcontext(context)
    if options.check:
        return check(options.check, longest)
    if options.expression is None:
        parser.error("an expression is needed")
    try:
        value = evaluate(options.expression, longest)
        inexact = context.flags[decimal.Inexact]
        print(show(value, options.places))
    except Wrong as wrong:
        print(f"error: {wrong}", file=sys.stderr)
        return 1
    except decimal.InvalidOperation:
        print("error: the result is too large for that many places", file=sys.stderr)
        return 1
    if inexact:
        print(f"note: rounded to {context.prec} significant digits", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
