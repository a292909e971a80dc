"""Downloads a file in pieces, and checks its digest."""
import hashlib, sys, requests
digest, size = hashlib.sha256(), 0
with requests.get(sys.argv[1] + "/file", stream=True) as response:
    response.raise_for_status()
    print(response.headers["content-type"], response.headers["content-length"])
    with open("download.bin", "wb") as file:
        for chunk in response.iter_content(chunk_size=8192):
            file.write(chunk)
            digest.update(chunk)
            size += len(chunk)
print(size, digest.hexdigest())
