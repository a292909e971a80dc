import threading

threads = [threading.Thread(target=print, args=("ran",)) for _ in range(1000)]
for thread in threads:
    thread.start()
