"""Runs one solution against its tests, in as much of a sandbox as the system grants.

Reads one JSON job from standard input, writes one JSON report to standard output. Everything here happens before the
solution is looked at: limits are set that can not be raised again, then the solution runs in a process of its own.
"""

import ctypes
import fcntl
import json
import os
import resource
import socket
import struct
import sys
import traceback

NEW_MOUNTS, NEW_IPC, NEW_USER, NEW_PROCESSES, NEW_NETWORK = 0x20000, 0x08000000, 0x10000000, 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 4, 32, 4096, 16384, 1 << 18
NO_NEW_PRIVILEGES, DROP_FROM_BOUNDS, KILL_WITH_PARENT = 38, 24, 1
NOBODY = 65534
SEEN_READ_ONLY = [
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d",
    "/etc/alternatives", "/etc/localtime", "/etc/timezone", "/etc/passwd", "/etc/group", "/etc/nsswitch.conf",
    "/etc/hosts", "/etc/mime.types", "/etc/ssl", "/etc/fonts", "/etc/services", "/etc/protocols",
]
DEVICES = ["null", "zero", "full", "random", "urandom"]

libc = ctypes.CDLL(None, use_errno=True)


def call(name, *arguments):
    if getattr(libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


def mount(source, target, kind, flags, options=None):
    encode = lambda text: None if text is None else text.encode()
    call("mount", encode(source), encode(target), encode(kind), ctypes.c_ulong(flags), encode(options))


def leave_namespaces(was_root):
    """New namespaces: a user who is not root needs one of their own to be allowed the others."""
    flags = NEW_MOUNTS | NEW_NETWORK | NEW_PROCESSES | NEW_IPC
    user, group = os.getuid(), os.getgid()
    if was_root:
        call("unshare", flags)
        return
    call("unshare", flags | NEW_USER)
    write("/proc/self/setgroups", "deny")
    write("/proc/self/uid_map", f"{user} {user} 1")
    write("/proc/self/gid_map", f"{group} {group} 1")


def start_loopback():
    """A new network has nothing but a loopback device, and that is down."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, 0x8914, struct.pack("16sH14s", b"lo", 0x1 | 0x40, b""))


def show(path, root):
    """Makes one file or folder of the disk visible beneath the new root, read only."""
    if not os.path.lexists(path):
        return
    target = root + path
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if os.path.islink(path):
        if not os.path.lexists(target):
            os.symlink(os.readlink(path), target)
        return
    if os.path.exists(target) and os.path.samefile(path, target):
        return
    if os.path.isdir(path):
        os.makedirs(target, exist_ok=True)
    else:
        write(target, "")
    mount(path, target, None, MS_BIND | MS_REC)
    mount(None, target, None, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV)


def hide_disk(job):
    """A root of its own: the interpreter and the system's libraries to read, and a bounded place to write."""
    root = job["root"]
    mount(None, "/", None, MS_REC | MS_PRIVATE)
    mount("none", root, "tmpfs", MS_NOSUID | MS_NODEV, f"mode=755,size={job['disk_bytes']}")
    for path in SEEN_READ_ONLY + job["interpreter"]:
        show(path, root)
    os.makedirs(root + "/dev/shm")
    for device in DEVICES:
        write(f"{root}/dev/{device}", "")
        mount(f"/dev/{device}", f"{root}/dev/{device}", None, MS_BIND)
    for folder in ["/tmp", "/box", "/proc", "/var/tmp", "/dev/shm"]:
        os.makedirs(root + folder, exist_ok=True)
        os.chmod(root + folder, 0o1777)
    mount("proc", root + "/proc", "proc", MS_NOSUID | MS_NODEV)
    os.chroot(root)
    os.makedirs("/box", exist_ok=True)
    os.chmod("/box", 0o777)
    os.chdir("/box")


def give_up_rights(was_root, granted):
    """Without rights, and with no way to get them back."""
    if was_root and granted["disk_hidden"]:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
        granted["other_user"] = True
    else:
        for capability in range(64):
            libc.prctl(DROP_FROM_BOUNDS, capability, 0, 0, 0)
        header = struct.pack("Ii", 0x20080522, 0)
        libc.capset(header, bytes(24))
    granted["no_new_privileges"] = libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0) == 0


def processes_of_user():
    """How many threads this user has now: the limit counts all of them."""
    total, user = 0, os.getuid()
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and os.stat("/proc/" + name).st_uid == user:
                total += len(os.listdir(f"/proc/{name}/task"))
        except OSError:
            pass
    return total


def set_limits(job, others):
    limits = {
        resource.RLIMIT_AS: job["memory_bytes"],
        resource.RLIMIT_FSIZE: job["file_bytes"],
        resource.RLIMIT_CPU: job["seconds"] + 1,
        resource.RLIMIT_NOFILE: 256,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NPROC: job["processes"] + others,
    }
    for which, limit in limits.items():
        hard = resource.getrlimit(which)[1]
        limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(which, (limit, limit))


def run_tests(job, report):
    """The solution and its tests as one module, the way the benchmark runs them."""
    import builtins
    import types
    import unittest

    class Result(unittest.TestResult):
        def __init__(self):
            super().__init__()
            self.cases = {}

        def record(self, test, outcome, why=""):
            # A test that failed in a part of it has failed.
            name = test.id().split(".")[-1].split(" ")[0]
            if self.cases.get(name, ("passed",))[0] in ("passed", "skipped"):
                self.cases[name] = (outcome, why)

        def addSuccess(self, test):
            self.cases.setdefault(test.id().split(".")[-1], ("passed", ""))

        def addSkip(self, test, reason):
            self.record(test, "skipped", reason)

        def addFailure(self, test, error):
            self.record(test, "failed", self._exc_info_to_string(error, test))

        def addError(self, test, error):
            self.record(test, "error", self._exc_info_to_string(error, test))

        def addSubTest(self, test, part, error):
            if error is not None:
                kind = "failed" if issubclass(error[0], test.failureException) else "error"
                self.record(test, kind, self._exc_info_to_string(error, test))

        def addExpectedFailure(self, test, error):
            self.addSuccess(test)

        def addUnexpectedSuccess(self, test):
            self.record(test, "failed", "succeeded, and was expected not to")

    module = types.ModuleType("__test__")
    module.__dict__.update({"__builtins__": builtins, "__file__": "__test__.py", "sys": sys, "os": os, "environ": os.environ})
    sys.modules["__test__"] = module
    try:
        exec(compile(job["code"] + "\n" + job["test"], "__test__.py", "exec"), module.__dict__)
        cases = module.TestCases
    except BaseException as error:
        report["broken"] = f"{type(error).__name__}: {error}"
        return
    result = Result()
    unittest.TestLoader().loadTestsFromTestCase(cases).run(result)
    report["cases"] = [[name, outcome, why[-2000:]] for name, (outcome, why) in result.cases.items()]


def work(job, answers):
    """Runs the tests with nothing to read and nobody to write to, and answers through a pipe."""
    code = 1
    try:
        libc.prctl(KILL_WITH_PARENT, 9, 0, 0, 0)
        nothing = os.open("/dev/null", os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nothing, stream)
        report = {}
        try:
            run_tests(job, report)
        except BaseException as error:
            report["broken"] = f"{type(error).__name__}: {error}"
        text = json.dumps(report).encode()
        while text:
            text = text[os.write(answers, text):]
        code = 0
    finally:
        # Whatever happens here, what comes after is the supervisor's.
        os._exit(code)


def collect(answers):
    pieces = []
    while True:
        piece = os.read(answers, 1 << 16)
        if not piece:
            return b"".join(pieces)
        pieces.append(piece)


def supervise(job, granted, was_root, others):
    """The first process of its namespace: when it ends, everything in it ends."""
    libc.prctl(KILL_WITH_PARENT, 9, 0, 0, 0)
    if granted["processes_apart"]:
        try:
            hide_disk(job)
            granted["disk_hidden"] = True
        except OSError as error:
            granted["disk_refused"] = str(error)
    os.environ["HOME"] = os.getcwd()
    if not granted["disk_hidden"]:
        os.environ["TMPDIR"] = os.getcwd()
    give_up_rights(was_root, granted)
    # Changing the user forgets it.
    libc.prctl(KILL_WITH_PARENT, 9, 0, 0, 0)
    set_limits(job, 0 if granted["other_user"] else others)
    reader, writer = os.pipe()
    worker = os.fork()
    if worker == 0:
        os.close(reader)
        work(job, writer)
    os.close(writer)
    answer = collect(reader)
    _, status = os.waitpid(worker, 0)
    try:
        report = json.loads(answer)
    except ValueError:
        how = f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"exit code {os.WEXITSTATUS(status)}"
        report = {"broken": f"the solution ended the process: {how}"}
    report["granted"] = granted
    sys.stdout.write(json.dumps(report))
    sys.stdout.flush()
    os._exit(0)


def main():
    job = json.loads(sys.stdin.buffer.read())
    granted = dict.fromkeys(["network_off", "processes_apart", "disk_hidden", "other_user", "no_new_privileges"], False)
    was_root = os.getuid() == 0
    others = processes_of_user() if job["apart"] or not was_root else 0
    os.chdir(job["root"])
    if job["apart"]:
        try:
            leave_namespaces(was_root)
            granted["processes_apart"] = granted["network_off"] = True
            start_loopback()
        except OSError as error:
            granted["namespaces_refused"] = str(error)
    child = os.fork()
    if child == 0:
        try:
            supervise(job, granted, was_root, others)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    os.waitpid(child, 0)


main()
