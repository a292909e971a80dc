import sys, httpx
with httpx.Client(base_url=sys.argv[1], headers={"X-Test": "httpx"}, timeout=10) as client:
    print(client.get("/echo", params={"a": [1, 2]}).json())
    print(client.post("/echo", json={"ä": 1}).json())
    print(client.post("/echo", data={"a": "b c"}).json()["body"])
    response = client.get("/redirect")
    print(response.status_code, response.headers["location"], response.is_redirect)
    print(client.get("/redirect", follow_redirects=True).json()["query"])
    try:
        client.get("/status/404").raise_for_status()
    except httpx.HTTPStatusError as error:
        print(error.response.status_code, error.response.json())
    with client.stream("GET", "/lines") as response:
        print([line for line in response.iter_lines() if line])
