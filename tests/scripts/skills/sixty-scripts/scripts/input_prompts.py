"""Asks with input()."""
name = input("Name: ")
try:
    age = int(input("Age: "))
except ValueError as error:
    print("no number:", error)
    age = None
try:
    input("More? ")
except EOFError:
    print("end of input")
print(name, age)
