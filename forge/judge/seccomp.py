"""A filter of system calls (seccomp-bpf) for x86-64: what a submission has no use for is refused at the kernel's door.

Numbers, layouts: Linux, include/uapi/linux/{filter,seccomp,audit,sched}.h, arch/x86/entry/syscalls/syscall_64.tbl.
"""

import ctypes
import errno
import platform
import socket
import struct
from collections.abc import Iterable

from forge.judge import libc

SECCOMP_MODE_FILTER = 2
ALLOW, ERRNO, KILL_PROCESS = 0x7FFF0000, 0x00050000, 0x80000000
AUDIT_ARCH_X86_64, X32_BIT = 0xC000003E, 0x40000000
LOAD, JUMP_EQUAL, JUMP_AT_LEAST, JUMP_ANY_SET, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
NUMBER, ARCH, ARGUMENT = 0, 4, (16, 24)  # offsets in seccomp_data: of arguments the lower half

CLONE, UNSHARE, CLONE3, IOCTL, SOCKET, PERSONALITY = 56, 272, 435, 16, 41, 135
NEW_NAMESPACES = 0x7E020080  # cgroup, uts, ipc, user, pid, net; mount; time
TIOCSTI, TIOCLINUX = 0x5412, 0x541C  # which put words into a terminal's mouth
FS_SETFLAGS, FS_SETXATTR = 0x40086602, 0x401C5820  # as chattr does
# Mounts and roots, modules and kernels, clocks, keys, swap, ports; what looks into other processes or hooks into the
# kernel; namespaces of others; and calls with a record of faults that nothing here needs.
REFUSED = {
    "uselib": 134,
    "vhangup": 153,
    "pivot_root": 155,
    "chroot": 161,
    "acct": 163,
    "settimeofday": 164,
    "mount": 165,
    "umount2": 166,
    "swapon": 167,
    "swapoff": 168,
    "reboot": 169,
    "sethostname": 170,
    "setdomainname": 171,
    "iopl": 172,
    "ioperm": 173,
    "init_module": 175,
    "delete_module": 176,
    "quotactl": 179,
    "lookup_dcookie": 212,
    "clock_settime": 227,
    "kexec_load": 246,
    "add_key": 248,
    "request_key": 249,
    "keyctl": 250,
    "perf_event_open": 298,
    "fanotify_init": 300,
    "open_by_handle_at": 304,
    "clock_adjtime": 305,
    "setns": 308,
    "process_vm_readv": 310,
    "process_vm_writev": 311,
    "kcmp": 312,
    "finit_module": 313,
    "kexec_file_load": 320,
    "bpf": 321,
    "userfaultfd": 323,
    "ptrace": 101,
    "syslog": 103,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "pidfd_getfd": 438,
    "process_madvise": 440,
    "mount_setattr": 442,
    "quotactl_fd": 443,
    "process_mrelease": 448,
    "open_tree_attr": 467,
}
ABSENT = {
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "clone3": CLONE3,
}  # callers know a way
LASTING = {"shmget": 29, "semget": 64, "msgget": 68, "mq_open": 240}  # what they make outlives all processes
# What a file's owner may change of any that it can name or open, whatever Landlock says: its rights, owner, times and
# attributes.
MARKS = {"chmod": 90, "fchmod": 91, "fchmodat": 268, "fchmodat2": 452, "chown": 92, "fchown": 93, "lchown": 94}
MARKS |= {"fchownat": 260, "utime": 132, "utimes": 235, "futimesat": 261, "utimensat": 280, "file_setattr": 469}
MARKS |= {"setxattr": 188, "lsetxattr": 189, "fsetxattr": 190, "setxattrat": 463}
MARKS |= {"removexattr": 197, "lremovexattr": 198, "fremovexattr": 199, "removexattrat": 466}
FAMILIES = (socket.AF_UNIX, socket.AF_NETLINK)  # of sockets; netlink: to list interfaces
INTERNET = (socket.AF_INET, socket.AF_INET6)


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_uint16), ("code", ctypes.c_char_p)]


def _op(code: int, k: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("=HBBI", code, yes, no, k)


def _fail(number: int) -> bytes:
    return _op(RETURN, ERRNO | number)


def _where(call: int, body: list[bytes]) -> list[bytes]:
    """`body`, which returns, for this call alone; the call's number is loaded."""
    return [_op(JUMP_EQUAL, call, 0, len(body)), *body]


def filter_of(refused: Iterable[int], families: Iterable[int], ignored: Iterable[int] = ()) -> bytes:
    """A program that lets all calls pass but these, and sockets of these families alone. ignored: do nothing, and say
    that they have: who copies files takes rights and times along."""
    families = list(families)
    code = [
        _op(LOAD, ARCH),
        _op(JUMP_EQUAL, AUDIT_ARCH_X86_64, 1, 0),
        _op(RETURN, KILL_PROCESS),
        _op(LOAD, NUMBER),
        _op(JUMP_AT_LEAST, X32_BIT, 0, 1),
        _fail(errno.ENOSYS),
    ]
    for call in ABSENT.values():
        code += _where(call, [_fail(errno.ENOSYS)])
    for call in refused:
        code += _where(call, [_fail(errno.EPERM)])
    for call in ignored:
        code += _where(call, [_fail(0)])
    for call in (CLONE, UNSHARE):
        first = [
            _op(LOAD, ARGUMENT[0]),
            _op(JUMP_ANY_SET, NEW_NAMESPACES, 0, 1),
            _fail(errno.EPERM),
            _op(RETURN, ALLOW),
        ]
        code += _where(call, first)
    second = [_op(LOAD, ARGUMENT[1])]
    for word in (TIOCSTI, TIOCLINUX, FS_SETFLAGS, FS_SETXATTR):
        second += _where(word, [_fail(errno.EPERM)])
    code += _where(IOCTL, [*second, _op(RETURN, ALLOW)])
    for call, known, error in (
        (PERSONALITY, [0, 0xFFFFFFFF], errno.EPERM),  # the usual one, and asking
        (SOCKET, families, errno.EACCES),
    ):
        allowed = [part for value in known for part in _where(value, [_op(RETURN, ALLOW)])]
        code += _where(call, [_op(LOAD, ARGUMENT[0]), *allowed, _fail(error)])
    return b"".join([*code, _op(RETURN, ALLOW)])


def install(code: bytes) -> None:
    """Holds for this process and all that it starts, for good. Needs no_new_privs. OSError if the kernel has none."""
    if platform.machine() != "x86_64":
        raise OSError(errno.ENOSYS, f"no filter for {platform.machine()}")
    program = _Program(len(code) // 8, code)
    libc.call("prctl", libc.PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0)
