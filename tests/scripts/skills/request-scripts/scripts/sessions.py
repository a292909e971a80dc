import sys, requests
with requests.Session() as session:
    print(session.get(sys.argv[1] + "/cookie").json(), dict(session.cookies))
    print(session.get(sys.argv[1] + "/echo").json()["headers"]["cookie"])
