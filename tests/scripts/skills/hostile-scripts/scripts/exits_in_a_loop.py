import os

while True:
    try:
        os._exit(7)
    except BaseException:
        pass
