"""Hands connections on: forward.py ADDRESS:PORT PORT, from a fixed address to a free port of 127.0.0.1 that a peer has taken."""
import socket
import sys
import threading


def hand_on(source, sink):
    try:
        while data := source.recv(1 << 16):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        source.close()
        sink.close()


address, port = sys.argv[1].rsplit(":", 1)
with socket.create_server((address, int(port))) as listener:
    print("ready", flush=True)
    while True:
        client, _ = listener.accept()
        server = socket.create_connection(("127.0.0.1", int(sys.argv[2])))
        for pair in ((client, server), (server, client)):
            threading.Thread(target=hand_on, args=pair, daemon=True).start()
