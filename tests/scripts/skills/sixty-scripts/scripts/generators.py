"""Classes, generators, context managers and matching."""
import contextlib
from abc import ABC, abstractmethod
from typing import NamedTuple, Protocol


class Shape(ABC):
    @abstractmethod
    def area(self): ...


class Square(Shape):
    __slots__ = ("side",)

    def __init__(self, side):
        self.side = side

    def area(self):
        return self.side**2


class Item(NamedTuple):
    name: str
    price: float = 1.0


@contextlib.contextmanager
def tag(name):
    print(f"<{name}>")
    yield name
    print(f"</{name}>")


def kind(value):
    match value:
        case {"type": "a", **rest}:
            return rest
        case [first, *_, last]:
            return first, last
        case Item(name="x"):
            return "item"
        case _:
            return None


def countdown(n):
    while n:
        got = yield n
        n = got if got is not None else n - 1


with tag("b"), contextlib.suppress(ZeroDivisionError):
    print(Square(3).area(), kind({"type": "a", "v": 1}), kind([1, 2, 3]), kind(Item("x")))
    1 / 0
try:
    Shape()
except TypeError as error:
    print("abstract")
print(list(countdown(3)), f"{1234567.891:,.2f} {255:#x} {'a':>4} {0.5:.0%}", *sorted([(2, "b"), (1, "c")], key=lambda t: t[1]))
