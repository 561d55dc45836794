"""Tests of server.py: python3 -m unittest, in this folder."""

import http.client
import json
import os
import pathlib
import tempfile
import threading
import time
import unittest
import http.server

import server

HERE = pathlib.Path(__file__).parent
VECTORS = json.loads(pathlib.Path(os.environ.get("VECTORS", HERE / "../../clients/webhook/testdata/signatures.json")).read_text(encoding="utf-8"))


class Signatures(unittest.TestCase):
    def test_vectors(self):
        for v in VECTORS["vectors"]:
            body, at = v["body"].encode(), str(v["timestamp"])
            if v["kind"] == "request":
                got = server.sign_request(VECTORS["key"], VECTORS["secret"], v["method"], v["target"], at, v["nonce"], body)
            else:
                got = server.sign_answer(VECTORS["key"], VECTORS["secret"], v["status"], at, v["nonce"], v["etag"], body)
            self.assertEqual(got, v["signature"], v["name"])


class Nonces(unittest.TestCase):
    def test_first(self):
        nonces, window = server.Nonces(), server.WINDOW
        self.assertTrue(nonces.first("a", 0))
        self.assertTrue(nonces.first("b", 1))
        # From a clock that is a window ahead a request is taken until two windows later.
        self.assertFalse(nonces.first("a", 2 * window))
        self.assertTrue(nonces.first("a", 2 * window + 0.5))
        self.assertFalse(nonces.first("b", 2 * window + 0.5))
        self.assertEqual(list(nonces.seen), ["b", "a"])

    def test_a_request_costs_the_same_however_many_came_before(self):
        nonces, looked = server.Nonces(), [0]

        class Counted(type(nonces.seen)):
            def values(self):
                for value in super().values():
                    looked[0] += 1
                    yield value

            def items(self):
                for item in super().items():
                    looked[0] += 1
                    yield item

        nonces.seen = Counted()
        for i in range(5000):
            self.assertTrue(nonces.first(str(i), i / 1000))
        self.assertLess(looked[0], 3 * 5000)
        self.assertIsInstance(nonces.seen, Counted)

    def test_they_are_bounded(self):
        nonces = server.Nonces()
        self.assertEqual(sum(nonces.first(str(i), 0) for i in range(100_010)), 100_000)


class Requests(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        keys = pathlib.Path(folder.name, "keys")
        keys.write_text(f"{VECTORS['key']}:{VECTORS['secret']}\n")

        class Handler(server.Handler):
            workers = server.Workers(os.path.join(folder.name, "jobs"), 3, 0.01)
            key_file, nonces = str(keys), server.Nonces()

        self.addCleanup(Handler.workers.stop)
        self.workers = Handler.workers
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=self.server.serve_forever)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        self.nonce = 0

    def ask(self, method="GET", path="/targets", body=b"", changes=None):
        self.nonce += 1
        nonce, at = f"{self.nonce:032x}", str(int(time.time()))
        headers = {"Setpoint-Key": VECTORS["key"], "Setpoint-Timestamp": at, "Setpoint-Nonce": nonce}
        headers.update(changes or {})
        signed = server.sign_request(VECTORS["key"], VECTORS["secret"], method, path, headers["Setpoint-Timestamp"], headers["Setpoint-Nonce"], body)
        headers.setdefault("Setpoint-Signature", signed)
        connection = http.client.HTTPConnection(*self.server.server_address)
        self.addCleanup(connection.close)
        connection.request(method, path, body or None, headers)
        answer = connection.getresponse()
        return answer, answer.read()

    def test_refused(self):
        for changes in (
            {"Setpoint-Key": "other"},
            {"Setpoint-Signature": "v1=" + 64 * "0"},
            {"Setpoint-Signature": "v1=\u00e9"},
            {"Setpoint-Signature": ""},
            {"Setpoint-Timestamp": str(int(time.time()) - 120)},
            {"Setpoint-Timestamp": "now"},
        ):
            answer, _ = self.ask(changes=changes)
            self.assertEqual(answer.status, 401, changes)

    def test_a_request_counts_once(self):
        nonce = {"Setpoint-Nonce": 32 * "a"}
        self.assertEqual(self.ask(changes=nonce)[0].status, 200)
        self.assertEqual(self.ask(changes=nonce)[0].status, 401)

    def test_a_list_that_has_not_changed(self):
        answer, _ = self.ask()
        again, body = self.ask(changes={"If-None-Match": answer.getheader("ETag")})
        self.assertEqual((again.status, body), (304, b""))

    def test_bodies(self):
        for body in (b"", b"{", b"[]", b"{}", b'{"namespace": "demo"}'):
            self.assertEqual(self.ask("POST", "/observe", body)[0].status, 400, body)
        self.assertEqual(self.ask("POST", "/observe", b'{"namespace": "demo", "name": "others"}')[0].status, 404)
        self.assertEqual(self.ask("POST", "/other", b"{}")[0].status, 404)
        for length in ("", "-1", "\u00b2", str(1 << 21), 5000 * "9"):
            self.assertEqual(self.ask("POST", "/observe", b"{}", {"Content-Length": length})[0].status, 413, length)

    def test_apply(self):
        def apply(current, desired, recommendation):
            body = {
                "namespace": "demo", "name": "workers", "uid": self.workers.uid, "version": str(self.workers.version),
                "currentReplicas": current, "desiredReplicas": desired, "recommendationId": recommendation,
            }
            return self.ask("POST", "/apply", json.dumps(body).encode())[0].status

        self.assertEqual(apply(1, 3, "a"), 200)
        self.assertEqual(len(self.workers.processes), 3)
        self.assertEqual(apply(1, 3, "a"), 200)  # once more
        self.assertEqual(apply(1, 2, "b"), 409)
        self.assertEqual(apply(3, 4, "c"), 422)
        self.assertEqual(len(self.workers.processes), 3)


if __name__ == "__main__":
    unittest.main()
