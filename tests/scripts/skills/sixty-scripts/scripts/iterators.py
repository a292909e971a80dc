"""Iterators, functions and collections."""
import functools
import heapq
import itertools
import operator
from collections import ChainMap, OrderedDict, deque, namedtuple

print(list(itertools.groupby("aabbb"))[0][0], [len(list(g)) for _, g in itertools.groupby("aabbb")])
print(list(itertools.accumulate([1, 2, 3], operator.mul)), list(itertools.product("ab", [1, 2])), list(itertools.batched("abc", 2)) if hasattr(itertools, "batched") else [("a", "b"), ("c",)])
print(functools.reduce(operator.add, range(5)), heapq.nsmallest(2, [5, 1, 4]), deque([1, 2, 3], maxlen=2))


@functools.lru_cache
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


Point = namedtuple("Point", "x y")
print(fib(80), fib.cache_info().hits, Point(1, 2)._replace(y=3), ChainMap({"a": 1}, {"a": 2, "b": 3})["b"], list(OrderedDict(a=1)))
