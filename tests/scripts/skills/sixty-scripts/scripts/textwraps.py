"""Wraps and indents."""
import textwrap

text = "The quick brown fox jumps over the lazy dog, and it does so again and again."
print(textwrap.fill(text, 30, subsequent_indent="  "))
print(textwrap.shorten(text, 25), textwrap.dedent("    a\n      b"), textwrap.indent("x\ny", "> "), sep="\n")
