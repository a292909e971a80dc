import zipfile

zipfile.ZipFile("bomb.zip").extractall("out")
