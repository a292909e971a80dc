import zipfile

with zipfile.ZipFile("bomb.zip") as archive:
    print(len(archive.read("zeros")))
