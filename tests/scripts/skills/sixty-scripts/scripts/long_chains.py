"""Ends with long chains of objects, and writes a file."""


class Node:
    def __init__(self, parent):
        self.parent = parent


node = nested = None
for number in range(20_000):
    node, nested = Node(node), [nested]
out = open("chains.txt", "w")
out.write("written")
print("made 20000")
