"""Imports modules whose bytecode is not what their source says, or has none."""
import os
import py_compile

UNCHECKED = py_compile.PycInvalidationMode.UNCHECKED_HASH


def write(name, text):
    with open(f"scripts/{name}.py", "w") as file:
        file.write(text)


write("changed", "print('from the bytecode')\n")
py_compile.compile("scripts/changed.py", "scripts/__pycache__/changed.cpython-314.pyc", invalidation_mode=UNCHECKED)
write("changed", "print('from the source')\n")
try:
    import changed  # noqa: E402, F401: it is made above
except ImportError as error:
    print(error)

write("bare", "print('from the bytecode')\n")
py_compile.compile("scripts/bare.py", "scripts/bare.pyc", invalidation_mode=UNCHECKED)
os.remove("scripts/bare.py")
import bare  # noqa: E402, F401: it is made above
