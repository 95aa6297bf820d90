"""Count at three sites and add the counts up at a server, over HTTP.

The sites fetch the grid and send counts per cell. No sample travels.
"""

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.error import HTTPError
from urllib.request import urlopen

from sklearn.datasets import load_digits
from sklearn.naive_bayes import GaussianNB

import cmfast


# GET gives the grid, POST takes the counts of a site
class _Centre(BaseHTTPRequestHandler):
    def do_GET(self):
        self._answer(200, grid.to_bytes())

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        # from_bytes believes nothing that it reads, and counts of another
        # grid do not add up
        try:
            received.add(cmfast.CellCounts.from_bytes(body))
            self._answer(200, b"thank you")
        except ValueError as error:
            self._answer(400, str(error).encode())

    def _answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


X, y = load_digits(return_X_y=True)
p = GaussianNB().fit(X[::2], y[::2]).predict(X)
points = cmfast.pca(X, 3).transform(X)
# of points that are public: all have to use one grid
grid = cmfast.Grid.scott(points[:500], n=len(points))
received = cmfast.CellAccumulator(grid, n_classes=10)
server = HTTPServer(("127.0.0.1", 0), _Centre)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}"

for site in range(3):  # elsewhere, each with samples of its own
    with urlopen(url) as answer:
        theirs = cmfast.Grid.from_bytes(answer.read())
    own = slice(site, None, 3)
    letter = cmfast.cell_counts(
        points[own], y[own], p[own], grid=theirs, n_classes=10
    ).to_bytes()
    urlopen(url, data=letter).close()

try:
    urlopen(url, data=letter[:-100])
except HTTPError as error:
    print(error.code, error.read().decode())
    error.close()
server.shutdown()
server.server_close()

counts = received.counts()
print(f"3 sites: {counts}")
assert counts == cmfast.cell_counts(points, y, p, grid=grid, n_classes=10)
