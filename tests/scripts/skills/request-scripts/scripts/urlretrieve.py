import os, sys, urllib.request
path, headers = urllib.request.urlretrieve(sys.argv[1] + "/file", "copy.bin")
print(path, headers["Content-Length"], os.path.getsize(path))
