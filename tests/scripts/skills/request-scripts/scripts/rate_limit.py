"""Respects the limits of an API: waits as long as it says, and doubles the wait otherwise."""
import functools
import random
import sys
import time

import requests


def retry(tries=5, first=0.01):
    def decorate(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            delay = first
            for number in range(1, tries + 1):
                response = function(*args, **kwargs)
                if response.status_code not in (429, 502, 503):
                    return response
                said = response.headers.get("Retry-After")
                print(f"try {number}: {response.status_code}, {'told to wait ' + said if said else 'backing off'}")
                time.sleep(float(said) if said else delay + random.uniform(0, delay))
                delay *= 2
            response.raise_for_status()
        return wrapper
    return decorate


@retry()
def get(url, **options):
    return requests.get(url, timeout=10, **options)


print(get(sys.argv[1] + "/limited", params={"q": "a"}).json())
try:
    get(sys.argv[1] + "/status/503")
except requests.exceptions.HTTPError as error:
    print("gave up:", error.response.status_code)
