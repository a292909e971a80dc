import socket
import ssl

client = ssl.create_default_context()
print(client.verify_mode)
ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).wrap_socket(None, server_side=True)
