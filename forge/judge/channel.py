"""The private line between the evaluator and a worker: frames that only the two of them can make.

The worker shares its process with the submission, which can find every open descriptor and write to it, this
one included. So each frame carries an HMAC under a key that comes over the same socket before the submission
is imported, and counts up. Anything else that arrives is not a message but evidence: ChannelTampered.
"""

import hashlib
import hmac
import os
import socket
import struct
from collections.abc import Callable
from typing import Any

from forge.judge.messages import Malformed, Message, decoder, encoder

KEY_BYTES = 32
MAC_BYTES = 32
MAX_FRAME_BYTES = 64 * 2**20
_LENGTH = struct.Struct(">I")
_NUMBER = struct.Struct(">Q")

Signer = Callable[[int, bytes], bytes]


class ChannelTampered(Exception):
    """Bytes on the channel that the worker's own code did not send."""


def _signer(key: bytes) -> Signer:
    """HMAC-SHA256 of (frame number, payload), built from methods of C objects alone.

    hmac.new would do the same, but through Python functions that a submission can replace, key argument and
    all.
    """
    block = key.ljust(64, b"\0")
    inner = hashlib.sha256(bytes(b ^ 0x36 for b in block))
    outer = hashlib.sha256(bytes(b ^ 0x5C for b in block))
    pack = _NUMBER.pack

    def sign(number: int, payload: bytes) -> bytes:
        first, second = inner.copy(), outer.copy()
        first.update(pack(number))
        first.update(payload)
        second.update(first.digest())
        return second.digest()

    return sign


class FrameReader:
    """The evaluator's end: takes bytes as they come, gives the messages that are complete and genuine.

    kinds: what the worker may send (forge.judge.messages); anything else is tampering, too.
    """

    def __init__(self, key: bytes, kinds: tuple[type[Message], ...]) -> None:
        self._sign, self._number, self._buffer = _signer(key), 0, bytearray()
        self._decode = decoder(kinds)

    def feed(self, data: bytes) -> list[Any]:
        self._buffer += data
        messages = []
        head = _LENGTH.size + MAC_BYTES
        while len(self._buffer) >= head:
            (length,) = _LENGTH.unpack_from(self._buffer)
            if length > MAX_FRAME_BYTES:
                raise ChannelTampered("a frame of impossible length")
            if len(self._buffer) < head + length:
                break
            mac = bytes(self._buffer[_LENGTH.size : head])
            payload = bytes(self._buffer[head : head + length])
            if not hmac.compare_digest(mac, self._sign(self._number, payload)):
                raise ChannelTampered("a frame without the worker's signature")
            try:
                messages.append(self._decode(payload))
            except Malformed as error:
                raise ChannelTampered(f"a frame that is no message ({error})") from None
            self._number += 1
            del self._buffer[: head + length]
        return messages

    @property
    def incomplete(self) -> bool:
        """Bytes wait that make no frame: normal for a moment, evidence once the worker is done or dead."""
        return bool(self._buffer)


def open_channel() -> tuple[socket.socket, socket.socket, bytes]:
    """(the evaluator's socket, the worker's, the key). The key already waits in the worker's."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    key = os.urandom(KEY_BYTES)
    ours.sendall(key)
    return ours, theirs, key


def send_command(ours: socket.socket, message: Any) -> None:
    """Evaluator to worker. Not signed: the submission cannot write in this direction."""
    payload = encoder()(message)
    ours.sendall(_LENGTH.pack(len(payload)) + payload)


def worker_end(fd: int, kinds: tuple[type[Message], ...]) -> tuple[Callable[[Any], None], Callable[[], Any]]:
    """The worker's (send, receive). To be called before any code of the submission is imported.

    kinds: what the evaluator sends. The key lives in closures only, and all that they call to send is bound here:
    replacing os.write, msgspec.msgpack.encode or hmac.new later changes nothing.
    """
    line = socket.socket(fileno=fd)
    line.set_inheritable(False)
    sendall, recv, length_bytes, encode, decode = line.sendall, line.recv, _LENGTH.pack, encoder(), decoder(kinds)

    def exactly(count: int) -> bytes | None:
        data = b""
        while len(data) < count:
            chunk = recv(count - len(data))
            if not chunk:
                return None
            data += chunk
        return data

    key = exactly(KEY_BYTES)
    if key is None:
        raise ConnectionError("the evaluator closed the channel")
    sign = _signer(key)
    del key
    number = 0
    getpid, leave, worker_pid = os.getpid, os._exit, os.getpid()

    def send(message: Any) -> None:
        nonlocal number
        if getpid() != worker_pid:
            leave(0)  # a copy of the worker, from a fork in the submission: it has nothing to report
        payload = encode(message)
        sendall(length_bytes(len(payload)) + sign(number, payload) + payload)
        number += 1

    def receive() -> Any:
        """The next command; None when the evaluator has hung up."""
        head = exactly(4)
        body = exactly(_LENGTH.unpack(head)[0]) if head else None
        return decode(body) if body else None

    return send, receive
