"""Turns Markdown into HTML."""
import markdown

text = "# Head\n\nA *word* and `code`.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```py\nx = 1\n```\n"
print(markdown.markdown(text, extensions=["tables", "fenced_code"]))
md = markdown.Markdown(extensions=["toc", "meta"])
print(md.convert("Title: x\n\n# One\n\n## Two\n"), md.Meta)
