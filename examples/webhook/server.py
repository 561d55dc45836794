#!/usr/bin/env python3
"""A webhook server for setpoint-webhook, with nothing but Python's standard library.

It runs worker processes that take jobs from a folder, and has their number decided by Setpoint: the
longer the queue, the more workers. It answers the three calls of clients/webhook/openapi.yaml;
docs/guides/webhook.md explains them. To scale something else, write another Workers.

    echo "k1:$(openssl rand -hex 32)" >keys
    python3 server.py --key-file keys --folder jobs --port 8000
    setpoint-webhook agent --cluster=demo --insecure --webhook-url=http://127.0.0.1:8000 --webhook-key-file=keys
"""

import argparse
import collections
import datetime
import hashlib
import hmac
import http.server
import json
import os
import re
import signal
import ssl
import subprocess
import sys
import threading
import time
import urllib.parse

WINDOW = 60  # seconds that clocks may differ
MAX_BODY = 1 << 20


# --- signatures: the same for every server ---


def sign(secret, *lines):
    """Signs lines of text, as docs/guides/webhook.md says."""
    text = "\n".join(("setpoint-webhook-v1",) + lines)
    return "v1=" + hmac.new(secret.encode(), text.encode(), hashlib.sha256).hexdigest()


def sign_request(name, secret, method, target, timestamp, nonce, body):
    return sign(secret, "request", name, method, target, timestamp, nonce, hashlib.sha256(body).hexdigest())


def sign_answer(name, secret, status, timestamp, nonce, etag, body):
    return sign(secret, "answer", name, str(status), timestamp, nonce, etag, hashlib.sha256(body).hexdigest())


def read_keys(file):
    """Returns the secrets of a file of lines NAME:SECRET, by name."""
    with open(file, encoding="ascii") as lines:
        pairs = [line.strip().split(":", 1) for line in lines if line.strip() and not line.startswith("#")]
    if any(len(pair) != 2 or len(pair[1]) < 32 for pair in pairs):
        raise SystemExit(f"{file}: each line must be NAME:SECRET, the secret at least 32 characters")
    return dict(pairs)


class Nonces:
    """The nonces of the last minutes, so that nobody sends a request a second time.

    They are this process's. Where several processes answer they must share them, and which recommendations
    were applied, for example in Redis (SET nonce 1 NX EX 120).
    """

    def __init__(self):
        self.lock, self.seen = threading.Lock(), collections.OrderedDict()  # when each came, oldest first

    def first(self, nonce, now):
        """Tells whether a nonce comes for the first time. Now is a clock that does not go back."""
        with self.lock:
            while self.seen and now - next(iter(self.seen.values())) > 2 * WINDOW:
                self.seen.popitem(last=False)
            if nonce in self.seen or len(self.seen) >= 100_000:
                return False
            self.seen[nonce] = now
            return True


# --- what is scaled: yours will be another one ---


class Workers:
    """Processes that take jobs from a folder: files, which a worker removes when it has done them."""

    namespace, name = "demo", "workers"

    def __init__(self, folder, maximum, seconds):
        self.folder, self.maximum, self.seconds = folder, maximum, seconds
        self.lock = threading.Lock()
        self.uid = f"{os.getpid()}-{time.time_ns()}"  # these workers, and not those of a server before this one
        self.processes, self.version, self.started, self.applied = [], 0, 0, []
        os.makedirs(folder, exist_ok=True)
        self.set(1)

    def set(self, count):
        """Starts or ends workers until there are so many."""
        while len(self.processes) < count:
            self.started += 1
            process = subprocess.Popen([sys.executable, os.path.abspath(__file__), "--work", self.folder, "--seconds", str(self.seconds)])
            self.processes.append((f"worker-{self.started}", process, now_text()))
        for _, process, _ in self.processes[count:]:
            process.terminate()  # it finishes the job that it has
        self.processes = self.processes[:count]
        self.version += 1

    def stop(self):
        with self.lock:
            processes = self.processes
            self.set(0)
        for _, process, _ in processes:
            process.wait()

    def target(self):
        """What is wanted: the spec is that of a HorizontalPodAutoscaler."""
        at_once = {"stabilizationWindowSeconds": 0, "policies": [{"type": "Pods", "value": 100, "periodSeconds": 1}]}
        return {
            "namespace": self.namespace,
            "name": self.name,
            "uid": self.uid,
            "period": "1s",
            "spec": {
                "minReplicas": 1,
                "maxReplicas": self.maximum,
                "metrics": [{"type": "External", "external": {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "5"}}}],
                "behavior": {"scaleUp": at_once, "scaleDown": at_once},
            },
            "stages": {"windowThroughFailures": True},  # what follows an outage of metrics is not obeyed at once
        }

    def observe(self):
        """What a decision goes by, of one instant."""
        with self.lock:
            pods = [{"name": name, "phase": "Running" if process.poll() is None else "Failed", "startTime": started} for name, process, started in self.processes]
            queue = sum(1 for name in os.listdir(self.folder) if name.endswith(".job"))
            return {
                "version": str(self.version),
                "request": {
                    "scale": {"specReplicas": len(pods), "statusReplicas": len(pods)},
                    "pods": pods,
                    "externalMetrics": [{"metric": {"name": "queue"}, "value": str(queue), "timestamp": now_text()}],
                },
            }

    def apply(self, wanted):
        """Sets the count, once for each recommendation, and only where it is still what was observed."""
        with self.lock:
            if wanted["recommendationId"] in self.applied:
                return 200, {}
            if wanted["currentReplicas"] != len(self.processes) or wanted.get("version") != str(self.version):
                return 409, {"error": f"there are {len(self.processes)} workers"}
            if not 1 <= wanted["desiredReplicas"] <= self.maximum:
                return 422, {"error": f"there may be 1 to {self.maximum} workers"}
            self.set(wanted["desiredReplicas"])
            self.applied = self.applied[-99:] + [wanted["recommendationId"]]
            print(f"{wanted['currentReplicas']} -> {wanted['desiredReplicas']} workers: {wanted.get('reason', '')}", flush=True)
            return 200, {}


def now_text():
    return datetime.datetime.now(datetime.timezone.utc).isoformat()


def work(folder, seconds):
    """A worker: takes a job by renaming its file, so that nobody else does, and removes it when it is done."""
    ended = []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(True))  # no Event: its lock may be held where a signal comes
    while not ended:
        for name in sorted(os.listdir(folder)):
            if not name.endswith(".job"):
                continue
            mine = os.path.join(folder, f"{name}.{os.getpid()}")
            try:
                os.rename(os.path.join(folder, name), mine)
            except FileNotFoundError:
                continue  # another worker was quicker
            time.sleep(seconds)
            os.remove(mine)
            break
        else:
            time.sleep(0.1)


# --- the three calls ---


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60  # of a connection that says nothing
    workers = key_file = nonces = None

    def do_GET(self):
        self.answer(b"")

    def do_POST(self):
        length = self.headers.get("Content-Length", "")
        if not re.fullmatch("[0-9]{1,9}", length) or int(length) > MAX_BODY:
            self.send_error(413)
            return
        self.answer(self.rfile.read(int(length)))

    def answer(self, body):
        name, timestamp, nonce = (self.headers.get("Setpoint-" + h, "") for h in ("Key", "Timestamp", "Nonce"))
        secret = read_keys(self.key_file).get(name)  # read each time, so that keys may be replaced
        problem = self.verify(name, secret, timestamp, nonce, body)
        if problem and secret is None:
            self.send_error(401, problem)  # there is no key to sign with
            return
        etag = ""
        if problem:
            status, said = 401, {"error": problem}
        else:
            status, said, etag = self.call(body)
        text = b"" if status == 304 else json.dumps(said).encode()
        at = str(int(time.time()))
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        if etag:
            self.send_header("ETag", etag)
        self.send_header("Setpoint-Key", name)
        self.send_header("Setpoint-Timestamp", at)
        self.send_header("Setpoint-Signature", sign_answer(name, secret, status, at, nonce, etag, text))
        self.end_headers()
        self.wfile.write(text)

    def verify(self, name, secret, timestamp, nonce, body):
        """Returns why a request is not the agent's, or nothing."""
        if secret is None:
            return "there is no such key"
        want = sign_request(name, secret, self.command, self.path, timestamp, nonce, body)
        if not hmac.compare_digest(want.encode(), self.headers.get("Setpoint-Signature", "").encode()):
            return "the signature is wrong"
        if not timestamp.isdigit() or abs(time.time() - int(timestamp)) > WINDOW:
            return f"the clocks differ by more than {WINDOW} s"
        if not self.nonces.first(nonce, time.monotonic()):
            return "this request was sent before"
        return None

    def call(self, body):
        """Returns status, answer and ETag of a call."""
        path = urllib.parse.urlsplit(self.path).path
        try:
            if (self.command, path) == ("GET", "/targets"):
                page = {"targets": [self.workers.target()]}
                etag = '"' + hashlib.sha256(json.dumps(page).encode()).hexdigest()[:16] + '"'
                return (304 if self.headers.get("If-None-Match") == etag else 200), page, etag
            if self.command == "POST" and path in ("/observe", "/apply"):
                asked = json.loads(body)
                if (asked["namespace"], asked["name"], asked.get("uid")) != (self.workers.namespace, self.workers.name, self.workers.uid):
                    return 404, {"error": "there is no such target"}, ""
                if path == "/observe":
                    return 200, self.workers.observe(), ""
                return *self.workers.apply(asked), ""
        except (ValueError, KeyError, TypeError) as problem:
            return 400, {"error": f"the request can't be read: {problem!r}"}, ""
        return 404, {"error": "there is no such call"}, ""

    def log_message(self, *_):
        pass


def serve(options):
    Handler.workers = Workers(options.folder, options.max, options.seconds)
    Handler.key_file, Handler.nonces = options.key_file, Nonces()
    server = http.server.ThreadingHTTPServer((options.host, options.port), Handler)
    if options.cert:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(options.cert, options.cert_key)
        if options.client_ca:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(options.client_ca)
        # The handshake is the connection's own thread's: who connects and says nothing holds up nobody.
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    print(f"listening on {'https' if options.cert else 'http'}://{options.host}:{server.server_address[1]}", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
    finally:
        Handler.workers.stop()


def main():
    flags = argparse.ArgumentParser(description="Runs workers, as many as setpoint-webhook says.")
    flags.add_argument("--folder", default="jobs", help="folder of the jobs, files that end with .job")
    flags.add_argument("--key-file", default="keys", help="file of signing keys, NAME:SECRET a line")
    flags.add_argument("--host", default="127.0.0.1")
    flags.add_argument("--port", type=int, default=8000, help="0: any that is free")
    flags.add_argument("--max", type=int, default=10, help="most workers")
    flags.add_argument("--seconds", type=float, default=1, help="what a job takes")
    flags.add_argument("--cert", help="certificate of this server, PEM")
    flags.add_argument("--cert-key", help="its key, PEM")
    flags.add_argument("--client-ca", help="authorities that sign the certificates of clients, which must have one")
    flags.add_argument("--work", metavar="FOLDER", help=argparse.SUPPRESS)
    options = flags.parse_args()
    if options.work:
        work(options.work, options.seconds)
    else:
        read_keys(options.key_file)
        serve(options)


if __name__ == "__main__":
    main()
