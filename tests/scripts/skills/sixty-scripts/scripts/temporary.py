"""Files and folders that go."""
import os
import tempfile

with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "a.txt")
    with open(path, "w") as file:
        file.write("x" * 10)
    print(os.path.getsize(path))
print(os.path.exists(folder))
with tempfile.NamedTemporaryFile("w+", suffix=".txt") as file:
    file.write("text")
    file.seek(0)
    print(file.read(), file.name.endswith(".txt"), os.path.exists(file.name))
with tempfile.SpooledTemporaryFile(max_size=4) as file:
    file.write(b"longer than four")
    file.seek(0)
    print(file.read())
for folder in [tempfile.gettempdir(), os.getcwd()]:
    os.makedirs(folder, exist_ok=True)
    try:
        os.makedirs(folder)
    except FileExistsError:
        print("exists")
