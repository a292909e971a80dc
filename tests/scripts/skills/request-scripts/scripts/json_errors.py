import sys, requests
for path in ("/status/404", "/status/409", "/status/500", "/page"):
    response = requests.get(sys.argv[1] + path)
    try:
        response.raise_for_status()
        response.json()
    except requests.exceptions.JSONDecodeError as error:
        print("no JSON:", error)
    except requests.HTTPError as error:
        print(error.response.status_code, error.response.reason, error.response.json()["error"]["message"])
