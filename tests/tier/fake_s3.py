#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""fake_s3.py [CERTIFICATE KEY]: a strict S3 on loopback for the tests; prints its port. One bucket, "warm".

Unlike real engines it checks everything: the signature over all x-amz-* headers, the hash of the body, the checksum,
the clock, the conditions. GET /-/NAME=VALUE changes its behaviour, and returns how many requests of each kind came
since the last change:

    clock=SECONDS        sets its clock wrong by this
    keys=ID:SECRET[:TOKEN]   accepts only these keys
    region=NAME          the region of the bucket
    conditions=off       ignores If-Match and If-None-Match, as rclone does; 501: refuses them
    checksums=off        ignores x-amz-checksum-sha256
    deny=PUT             refuses a method
    lose=PUT             answers a method 404 NoSuchKey, as gateways do for a folder that is missing
    list=no              who asks may not list the bucket: what is absent is 403, as in Amazon's
    bucket=gone          the bucket does not exist
    answer=STATUS        answers everything with this status, such as 503 or 200, and the page of some proxy
    retry=TEXT           Retry-After of these answers
    damage=BYTE          flips this byte of each object that it returns
    hold=METHOD          does not answer this method until hold=
    issue=ID:SECRET:TOKEN:SECONDS   /container and /latest/… issue these keys, as a container's endpoint and EC2's do
    bearer=TOKEN         becomes a plain store of HTTP, for clients with this token
"""
import base64
import collections
import email.utils
import hashlib
import hmac
import http.server
import json
import ssl
import sys
import threading
import time
import urllib.parse

BUCKET = "warm"
PAGE = b"<html><body><h1>It works!</h1></body></html>"


class State:
    def __init__(self):
        self.lock = threading.Condition()
        self.objects = {}  # key -> (bytes, etag, time)
        self.count = collections.Counter()
        self.set = collections.defaultdict(str, keys="AKID:SECRET", region="us-east-1")

    def now(self):
        return time.time() + float(self.set["clock"] or 0)


STATE = State()


class Refusal(Exception):
    def __init__(self, status, code, more=""):
        super().__init__(code)
        self.status, self.code, self.more = status, code, more


def mac(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def date_time_string(self, timestamp=None):
        return email.utils.formatdate(STATE.now() if timestamp is None else timestamp, usegmt=True)

    def send(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def check_signature(self, body):
        h = self.headers
        scheme, _, rest = h.get("Authorization", "").partition(" ")
        if scheme != "AWS4-HMAC-SHA256":
            raise Refusal(403, "AccessDenied")
        parts = dict(p.strip().split("=", 1) for p in rest.split(","))
        key, day, region, service, end = parts["Credential"].split("/")
        wanted_key, secret, token = (STATE.set["keys"].split(":") + [""])[:3]
        if key != wanted_key:
            raise Refusal(403, "InvalidAccessKeyId")
        if h.get("x-amz-security-token", "") != token:
            raise Refusal(400, "InvalidToken")
        if (service, end) != ("s3", "aws4_request") or region != STATE.set["region"]:
            raise Refusal(400, "AuthorizationHeaderMalformed", f"<Region>{STATE.set['region']}</Region>")
        signed = parts["SignedHeaders"].split(";")
        must = {"host", "x-amz-date", "x-amz-content-sha256"} | {n.lower() for n in h if n.lower().startswith("x-amz-")}
        if signed != sorted(signed) or not must <= set(signed):
            raise Refusal(403, "AccessDenied", "<Message>headers are not signed</Message>")
        date = h["x-amz-date"]
        at = time.mktime(time.strptime(date, "%Y%m%dT%H%M%SZ")) - time.timezone
        if abs(at - STATE.now()) > 900:
            raise Refusal(403, "RequestTimeTooSkewed")
        path, _, query = self.path.partition("?")
        query = "&".join(sorted(urllib.parse.quote(k, "-_.~") + "=" + urllib.parse.quote(v, "-_.~")
                                for k, v in urllib.parse.parse_qsl(query, True)))
        canonical = "\n".join([self.command, path, query, *[f"{n}:{h[n].strip()}" for n in signed], "",
                               ";".join(signed), h["x-amz-content-sha256"]])
        text = "\n".join(["AWS4-HMAC-SHA256", date, f"{day}/{region}/s3/aws4_request",
                          hashlib.sha256(canonical.encode()).hexdigest()])
        k = mac(mac(mac(mac(b"AWS4" + secret.encode(), day), region), "s3"), "aws4_request")
        if date[:8] != day or not hmac.compare_digest(mac(k, text).hex(), parts["Signature"]):
            raise Refusal(403, "SignatureDoesNotMatch")
        if hashlib.sha256(body).hexdigest() != h["x-amz-content-sha256"]:
            raise Refusal(400, "XAmzContentSHA256Mismatch")

    def check_condition(self, key):
        none, match = self.headers.get("If-None-Match"), self.headers.get("If-Match")
        if STATE.set["conditions"] == "off" or not (none or match):
            return
        if STATE.set["conditions"] == "501":
            raise Refusal(501, "NotImplemented")
        there = STATE.objects.get(key)
        if none == "*" and there:
            raise Refusal(412, "PreconditionFailed")
        if match and not there:
            raise Refusal(404, "NoSuchKey")
        if match and match != there[1]:
            raise Refusal(412, "PreconditionFailed")

    def find_key(self):
        host = self.headers["Host"].split(".")[0]
        bucket, _, key = (host + self.path if host == BUCKET else self.path[1:]).partition("/")
        if bucket != BUCKET or STATE.set["bucket"] == "gone":
            raise Refusal(404, "NoSuchBucket")
        return key

    def put(self, key, body):
        said = self.headers.get("x-amz-checksum-sha256")
        if said and STATE.set["checksums"] != "off" and base64.b64decode(said) != hashlib.sha256(body).digest():
            raise Refusal(400, "BadDigest")
        with STATE.lock:
            self.check_condition(key)
            etag = f'"{hashlib.md5(body).hexdigest()}"'
            STATE.objects[key] = (body, etag, STATE.now())
        self.send(200, ETag=etag)

    def get(self, key):
        if key not in STATE.objects:
            raise Refusal(*(403, "AccessDenied") if STATE.set["list"] == "no" else (404, "NoSuchKey"))
        body, etag, at = STATE.objects[key]
        if STATE.set["damage"]:
            i = int(STATE.set["damage"])
            body = body[:i] + bytes([body[i] ^ 1]) + body[i + 1:]
        self.send(200, body, ETag=etag, Last_Modified=email.utils.formatdate(at, usegmt=True),
                  Content_Type="application/octet-stream")

    def issue(self):
        """Answers like the endpoints that issue keys. EC2's needs a session (IMDSv2)."""
        STATE.count[self.path] += 1
        folder = "/latest/meta-data/iam/security-credentials/"
        session = self.headers.get("X-aws-ec2-metadata-token")
        if self.command == "PUT" and self.path == "/latest/api/token":
            self.send(200 if self.headers.get("X-aws-ec2-metadata-token-ttl-seconds") else 400, b"session-1")
        elif self.path == "/container" and self.headers.get("Authorization") != "container-token":
            self.send(401)
        elif self.path.startswith("/latest/") and session != "session-1":
            self.send(401)
        elif self.path == folder:
            self.send(200, b"role-1")
        elif self.path in ("/container", folder + "role-1"):
            key, secret, token, seconds = STATE.set["issue"].split(":")
            until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + float(seconds)))
            self.send(200, json.dumps({"Code": "Success", "AccessKeyId": key, "SecretAccessKey": secret,
                                       "Token": token, "Expiration": until}, indent=1).encode())
        else:
            self.send(404)

    def plain(self, body):
        if self.headers.get("Authorization") != "Bearer " + STATE.set["bearer"]:
            self.send(401)
        elif self.command == "PUT":
            STATE.objects[self.path] = body
            self.send(201)
        elif self.path in STATE.objects:
            self.send(200, STATE.objects[self.path])
        else:
            self.send(404)

    def canned(self, status):
        more = {"Content_Type": "text/html"}
        if STATE.set["retry"]:
            more["Retry_After"] = STATE.set["retry"]
        if status == 301:
            more["Location"] = "http://127.0.0.1:1/elsewhere"
        self.send(status, PAGE, **more)

    def answer(self):
        if self.path.startswith("http://"):  # we are the proxy
            self.path = "/" + self.path.split("/", 3)[3]
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        if self.path.startswith("/-/"):
            name, _, value = self.path[3:].partition("=")
            with STATE.lock:
                STATE.set[name] = urllib.parse.unquote(value)
                counted = "".join(f"{k} {v}\n" for k, v in sorted(STATE.count.items())).encode()
                STATE.count.clear()
                STATE.lock.notify_all()
            self.send(200, counted)
            return
        if self.path.startswith(("/container", "/latest/")):
            self.issue()
            return
        with STATE.lock:
            STATE.count[self.command] += 1
            while STATE.set["hold"] == self.command:
                STATE.lock.wait(30)
        if STATE.set["answer"]:
            self.canned(int(STATE.set["answer"]))
            return
        if STATE.set["bearer"]:
            self.plain(body)
            return
        try:
            self.check_signature(body)
            key = self.find_key()
            if STATE.set["deny"] == self.command:
                raise Refusal(403, "AccessDenied")
            if STATE.set["lose"] == self.command:
                raise Refusal(404, "NoSuchKey")
            if self.command == "PUT":
                self.put(key, body)
            elif self.command == "DELETE":
                STATE.objects.pop(key, None)
                self.send(204)
            else:
                self.get(key)
        except Refusal as r:
            text = f'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{r.code}</Code>{r.more}</Error>'
            self.send(r.status, text.encode(), Content_Type="application/xml")

    do_GET = do_PUT = do_DELETE = answer


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = True

    def handle_error(self, *_):  # clients end connections as they like
        pass


server = Server(("127.0.0.1", 0), Handler)
if len(sys.argv) > 2:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[1], sys.argv[2])
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
print(server.server_port, flush=True)
server.serve_forever()
