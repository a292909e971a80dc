"""Fills a template of string.Template."""
from string import Template

text = Template("Dear $name, you owe $$${amount}.")
print(text.substitute(name="Ada", amount="3.50"))
print(text.safe_substitute(name="Bob"))
try:
    text.substitute(name="Eve")
except KeyError as error:
    print("missing", error)
