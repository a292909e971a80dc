import sys, httpx, requests


def pieces():
    for number in range(5):
        yield f"piece {number}\n".encode() * 1000


print(len(requests.put(sys.argv[1] + "/echo", data=pieces()).json()["body"]))
print(len(httpx.put(sys.argv[1] + "/echo", content=pieces()).json()["body"]))
