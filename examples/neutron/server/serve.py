"""Serves the API of Neutron or Keystone on a loopback port.

usage: serve.py neutron|keystone FOLDER PORT

FOLDER has the configuration and the data. Whoever starts this holds our standard input open: when it is closed, because
they ended in whatever way, the folder goes and so do we.

One thread answers: SQLite takes one writer at a time, and Neutron answers 500 ("database is locked") to the others.
"""

import importlib
import os
import shutil
import socket
import sys
import threading

name, folder, port = sys.argv[1], os.path.abspath(sys.argv[2]), int(sys.argv[3])


def end_with_parent():
    sys.stdin.buffer.read()
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


threading.Thread(target=end_with_parent, daemon=True).start()

os.environ[f"OS_{name.upper()}_CONFIG_DIR"] = folder
os.environ[f"OS_{name.upper()}_CONFIG_FILES"] = f"{name}.conf"
sys.argv = [name]  # The application reads the command line itself.
application = importlib.import_module(f"{name}.wsgi.api").application

import waitress  # noqa: E402

# The port is reserved by a socket of our parent's, which never listens.
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
listener.bind(("127.0.0.1", port))
listener.listen(128)
waitress.serve(application, sockets=[listener], threads=1, ident=None)
