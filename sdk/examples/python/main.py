#!/usr/bin/python3
"""A native step plugin in Python, without an SDK: the wire and a step that
counts the words of a text. It needs grpcio and protobuf."""

import json
import os
import queue
import signal
import sys
import threading
from concurrent import futures

if os.environ.get("ENGINE_PLUGIN") != "step":
    sys.exit("this is a plugin of the engine; name it in a flow: plugin \"words\" { source = %r }" % sys.argv[0])

import grpc
import step_pb2 as wire  # made by protoc of step.proto

FRAME = 256 * 1024


class Failure(Exception):
    """A step's error: class, message and a JSON Pointer into the input."""

    def __init__(self, kind, message, path=""):
        super().__init__(message)
        self.error = {"class": kind, "message": message, "path": path}


class Attempt:
    """The host's side of one attempt: operations, and whether it was cancelled."""

    def __init__(self):
        self.cancelled = threading.Event()
        self.out = queue.Queue()  # frames to send; None ends the stream
        self.replies = {}
        self.calls = 0
        self.lock = threading.Lock()

    def send(self, kind, number, data):
        for at in range(0, max(len(data), 1), FRAME):
            part = data[at : at + FRAME]
            self.out.put(wire.Frame(kind=kind, id=number, more=at + FRAME < len(data), data=part))

    def call(self, operation, data=None):
        """Runs one operation; returns its "ok" and the raw bytes behind it."""
        message = json.dumps(operation, ensure_ascii=False).encode()
        reply = queue.Queue()
        with self.lock:
            self.calls += 1
            number = self.calls
            self.replies[number] = reply
        self.send(wire.CALL, number, message if data is None else message + b"\0" + data)
        head, _, body = reply.get().partition(b"\0")
        answer = json.loads(head)
        if "error" in answer:
            e = answer["error"]
            raise Failure(e["class"], e.get("message", ""))
        return answer["ok"], body

    def work(self, step, request):
        try:
            response = {"output": step(json.loads(request), self)}
        except Failure as e:
            response = {"error": e.error}
        except Exception as e:  # a bug of the step
            response = {"error": {"class": "internal", "message": "%s: %s" % (type(e).__name__, e)}}
        self.send(wire.RESPONSE, 0, json.dumps(response, ensure_ascii=False).encode())
        self.out.put(None)

    def read(self, step, frames):
        parts = {}
        try:
            for frame in frames:
                key = (frame.kind, frame.id)
                parts[key] = parts.get(key, b"") + frame.data
                if frame.more:
                    continue
                message = parts.pop(key)
                if frame.kind == wire.REQUEST:
                    threading.Thread(target=self.work, args=(step, message), daemon=True).start()
                elif frame.kind == wire.REPLY:
                    self.replies.pop(frame.id).put(message)
                elif frame.kind == wire.CANCEL:
                    self.cancelled.set()
        except grpc.RpcError:  # the host has gone
            self.cancelled.set()
            self.out.put(None)


def serve(step):
    def run(frames, _):
        attempt = Attempt()
        threading.Thread(target=attempt.read, args=(step, frames), daemon=True).start()
        yield from iter(attempt.out.get, None)

    over = threading.Event()

    def shutdown(_request, _context):
        over.set()
        return b""

    server = grpc.server(futures.ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers(
        (
            grpc.method_handlers_generic_handler(
                "engine.step.v1.Step",
                {"Run": grpc.stream_stream_rpc_method_handler(run, wire.Frame.FromString, wire.Frame.SerializeToString)},
            ),
            grpc.method_handlers_generic_handler(
                "plugin.GRPCController", {"Shutdown": grpc.unary_unary_rpc_method_handler(shutdown)}
            ),
        )
    )
    path = os.path.join(os.environ["PLUGIN_UNIX_SOCKET_DIR"], "p%d" % os.getpid())
    server.add_insecure_port("unix:" + path)
    server.start()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    print("1|1|unix|%s|grpc" % path, flush=True)
    over.wait()
    server.stop(1).wait()


def count(request, attempt):
    given = request["input"]
    text = given.get("text") if isinstance(given, dict) else None
    if not isinstance(text, str):
        raise Failure("invalid_input", "want a string", "/text")
    least = given.get("least", 1)
    if not isinstance(least, int) or isinstance(least, bool) or least < 1:
        raise Failure("invalid_input", "want a whole number from 1", "/least")
    counts = {}  # keeps the order in which words were added
    for mark in "\t\r\n":
        text = text.replace(mark, " ")
    for word in filter(None, text.split(" ")):
        counts[word] = counts.get(word, 0) + 1
    attempt.call({"op": "log", "level": "info", "message": "the words are counted"})
    words = [{"word": word, "count": n} for word, n in counts.items() if n >= least]
    return {"total": sum(counts.values()), "words": words}


if __name__ == "__main__":
    serve(count)
