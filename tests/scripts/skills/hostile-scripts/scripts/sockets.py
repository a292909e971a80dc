import socket

socket.socket().connect(("127.0.0.1", 80))
