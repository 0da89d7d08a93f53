"""Ways out of the sandbox. Each function raises, or returns what it reached; then ESCAPED is printed."""

import ctypes
import fcntl
import os
import signal
import socket
import stat
import struct
import subprocess
import sys
import threading
import time

NAME, BASE, VICTIM, PORT = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
HOME, WS, OUT = BASE + "/home", BASE + "/ws", BASE + "/outside"
SECRET, FILE = OUT + "/secret", OUT + "/file"
libc = ctypes.CDLL(None, use_errno=True)


def check(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return True


def read(path):
    with open(path, "rb") as file:
        return b"secret" in file.read()


def write(path):
    with open(path, "a") as file:
        file.write("x")
    return True


def run(*words):
    return b"secret" in subprocess.check_output(words, stderr=subprocess.DEVNULL)


def syscall(*words):
    return check(libc.syscall(*[ctypes.c_long(word) for word in words]))


def native(name):
    return b"ESCAPED" in subprocess.check_output([WS + "/native", name], stderr=subprocess.DEVNULL)


def symlink_read():
    os.symlink(SECRET, WS + "/link")
    return read(WS + "/link")


def symlink_write():
    os.symlink(OUT + "/new", WS + "/link")
    return write(WS + "/link")


def symlinked_directory():
    os.symlink(OUT, WS + "/directory")
    return write(WS + "/directory/new")


def dot_dot():
    return read(WS + "/../outside/secret")


def proc_self_root():
    return read("/proc/self/root" + SECRET)


def proc_self_cwd():
    os.chdir(WS)
    return read("/proc/self/cwd/../outside/secret")


def proc_parent_root():
    return read("/proc/%d/root%s" % (os.getppid(), SECRET))


def proc_victim_root():
    return read("/proc/%d/root%s" % (VICTIM, SECRET))


def proc_victim_environ():
    return read("/proc/%d/environ" % VICTIM)


def proc_victim_cmdline():
    with open("/proc/%d/cmdline" % VICTIM) as file:
        return "sleep" in file.read()


def proc_victim_mem():
    return open("/proc/%d/mem" % VICTIM, "r+b") is not None


def inherited_descriptor():
    return os.write(9, b"x") == 1


def loader():
    return run("/lib64/ld-linux-x86-64.so.2", OUT + "/program", SECRET)


def program_outside():
    return run(OUT + "/program", SECRET)


def memfd_program():
    fd = os.memfd_create("x", 0)
    with open("/bin/cat", "rb") as file:
        os.write(fd, file.read())
    return run("/proc/%d/fd/%d" % (os.getpid(), fd), SECRET)


def type_into_terminal():
    fcntl.ioctl(0, 0x5412, b"x")
    return True


def type_with_high_bits():
    return check(libc.ioctl(0, ctypes.c_ulong(0x100005412), b"x"))


def take_terminal():
    os.setsid()
    fcntl.ioctl(0, 0x540E, 1)
    return True


def line_discipline():
    fcntl.ioctl(0, 0x5423, struct.pack("i", 0))
    return True


def resize_terminal():
    fcntl.ioctl(0, 0x5414, struct.pack("HHHH", 5, 5, 0, 0))
    return True


def open_own_terminal():
    return os.open("/dev/tty", os.O_RDWR) > 0


def set_namespace():
    return check(libc.setns(os.open("/proc/self/ns/uts", os.O_RDONLY), 0))


def late_path():
    with open(WS + "/fifo") as file:
        file.read()
    return read(HOME + "/.aws/credentials")


def hard_link_in():
    os.link(FILE, WS + "/link")
    return True


def hard_link_out():
    os.link(WS + "/file", OUT + "/link")
    return True


def rename_out():
    os.rename(WS + "/file", OUT + "/renamed")
    return True


def rename_in():
    os.rename(FILE, WS + "/renamed")
    return True


def exchange():
    return syscall(316, -100, id_of(WS + "/file"), -100, id_of(FILE), 2)


KEPT = []


def id_of(text):
    KEPT.append(ctypes.create_string_buffer(text.encode()))
    return ctypes.addressof(KEPT[-1])


def delete_outside():
    os.unlink(FILE)
    return True


def truncate_outside():
    os.truncate(FILE, 0)
    return True


def truncate_by_open():
    os.open(FILE, os.O_RDONLY | os.O_TRUNC)
    return True


def make_directory_outside():
    os.mkdir(OUT + "/new")
    return True


def unix_socket():
    socket.socket(socket.AF_UNIX).connect(OUT + "/socket")
    return True


def abstract_socket():
    socket.socket(socket.AF_UNIX).connect("\0aish-sandbox-test-%d" % VICTIM)
    return True


def pair_of_datagrams():
    one, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    return one.sendto(b"x", OUT + "/datagrams") == 1


def pair_of_raw():
    one, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_RAW)
    return one.sendto(b"x", OUT + "/datagrams") == 1


def udp():
    return socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", 9)) == 1


def tcp():
    socket.create_connection(("127.0.0.1", PORT), 5)
    return True


def tcp_server():
    server = socket.socket()
    server.bind(("127.0.0.1", 0))
    return True


def netlink():
    return socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) is not None


def packet_socket():
    return socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) is not None


def vsock():
    return socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM, 0) is not None


def trace():
    check(libc.ptrace(16, VICTIM, 0, 0))
    libc.ptrace(17, VICTIM, 0, 0)
    return True


def trace_parent():
    check(libc.ptrace(0x4206, os.getppid(), 0, 0))
    libc.ptrace(17, os.getppid(), 0, 0)
    return True


def read_memory():
    buffer = ctypes.create_string_buffer(8)
    local = struct.pack("PP", ctypes.addressof(buffer), 8)
    with open("/proc/self/maps") as file:
        address = int(file.readline().split("-")[0], 16)
    remote = struct.pack("PP", address, 8)
    # An address that is not mapped fails with EFAULT after the check of permissions.
    if libc.process_vm_readv(VICTIM, local, 1, remote, 1, 0) < 0 and ctypes.get_errno() != 14:
        raise OSError(ctypes.get_errno(), "process_vm_readv")
    return True


def write_memory():
    buffer = ctypes.create_string_buffer(8)
    local = struct.pack("PP", ctypes.addressof(buffer), 8)
    remote = struct.pack("PP", 1, 8)
    if libc.process_vm_writev(VICTIM, local, 1, remote, 1, 0) < 0 and ctypes.get_errno() != 14:
        raise OSError(ctypes.get_errno(), "process_vm_writev")
    return True


def send_signal():
    os.kill(VICTIM, signal.SIGCONT)
    return True


def send_thread_signal():
    return syscall(234, VICTIM, VICTIM, signal.SIGCONT)


def send_pidfd_signal():
    return syscall(424, os.pidfd_open(VICTIM), signal.SIGCONT, 0, 0)


def steal_descriptor():
    return syscall(438, os.pidfd_open(VICTIM), 0, 0)


def limit_victim():
    import resource

    resource.prlimit(VICTIM, resource.RLIMIT_NOFILE, (100, 1000))
    return True


def renice_victim():
    os.setpriority(os.PRIO_PROCESS, VICTIM, 1)
    return True


def idle_class_of_user():
    # ioprio_set of all processes of the user: the idle class.
    put, get = (251, 252) if os.uname().machine == "x86_64" else (30, 31)
    syscall(put, 3, 0, 3 << 13)
    return libc.syscall(get, 1, VICTIM) >> 13 == 3


def renice_user():
    os.setpriority(os.PRIO_USER, 0, os.getpriority(os.PRIO_PROCESS, 0) + 1)
    return os.getpriority(os.PRIO_PROCESS, VICTIM) > 0


def io_uring():
    return syscall(425, 1, ctypes.addressof(ctypes.create_string_buffer(512)))


def mount():
    return check(libc.mount(b"tmpfs", (WS + "/mount").encode(), b"tmpfs", 0, None))


def open_tree():
    return syscall(428, -100, id_of(OUT), 1)


def change_root():
    os.chroot(WS)
    return True


def keep_privileges():
    return libc.prctl(39, 0, 0, 0, 0) == 0


def change_user():
    os.setuid(1)
    return True


def kernel_log():
    return check(libc.klogctl(3, ctypes.create_string_buffer(64), 64))


def kernel_memory():
    return os.open("/dev/mem", os.O_RDONLY) > 0


def make_device():
    os.mknod(WS + "/device", stat.S_IFCHR | 0o600, os.makedev(1, 3))
    return True


def core_pattern():
    return os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY) > 0


def sysctl():
    return os.open("/proc/sys/vm/overcommit_memory", os.O_WRONLY) > 0


def sysrq():
    return os.open("/proc/sysrq-trigger", os.O_WRONLY) > 0


def cgroup():
    return os.open("/sys/fs/cgroup/" + ("cgroup.procs" if os.path.exists("/sys/fs/cgroup/cgroup.procs") else "pids/cgroup.procs"), os.O_WRONLY) > 0


def key_ring():
    return syscall(250, 0, -3, 0)


def bpf():
    # The map that is asked for makes no sense, which is found out after the check of permissions.
    if libc.syscall(321, 0, ctypes.create_string_buffer(128), 128) < 0 and ctypes.get_errno() != 22:
        raise OSError(ctypes.get_errno(), "bpf")
    return True


def performance_events():
    return check(libc.syscall(298, struct.pack("IIQ", 1, 128, 0) + bytes(112), 0, -1, -1, 0))


def user_faults():
    return syscall(323, 1)


def open_by_handle():
    handle = ctypes.create_string_buffer(136)
    struct.pack_into("I", handle, 0, 128)
    mount_id = ctypes.c_int()
    check(libc.name_to_handle_at(-100, SECRET.encode(), handle, ctypes.byref(mount_id), 0))
    root = os.open(BASE, os.O_RDONLY)
    return check(libc.open_by_handle_at(root, handle, os.O_RDONLY))


QUEUE = ("/aish-sandbox-test-%d" % VICTIM).encode()


def make_objects():
    check(libc.shmget(VICTIM, 16, 0o1600))
    check(libc.semget(VICTIM, 1, 0o1600))
    return check(libc.mq_open(QUEUE, os.O_RDONLY | os.O_CREAT, 0o600, None))


def remove_objects():
    check(libc.shmctl(libc.shmget(VICTIM, 16, 0), 0, None))
    check(libc.semctl(libc.semget(VICTIM, 1, 0), 0, 0))
    return check(libc.mq_unlink(QUEUE))


def shared_memory():
    return check(libc.shmget(VICTIM, 16, 0))


def semaphore():
    return check(libc.semget(VICTIM, 1, 0))


def message_queue():
    return check(libc.mq_open(QUEUE, os.O_RDONLY))


def shared_memory_file():
    return os.open("/dev/shm/aish-sandbox-test-%d" % VICTIM, os.O_RDWR) > 0


def chmod_outside():
    os.chmod(FILE, 0o600)
    return True


def chmod_by_descriptor():
    # A toolchain may be read, so it can be opened.
    os.fchmod(os.open(HOME + "/.cargo/bin/tool", os.O_RDONLY), 0o700)
    return True


def change_standard_input():
    # The file is opened by the process that starts the sandbox; half of it has been read.
    if os.read(0, 100) != b"secret":
        raise RuntimeError("not the rest of the file")
    done = []
    for change in [
        lambda: os.fchmod(0, 0o777),
        lambda: os.chmod("/dev/stdin", 0o777),
        lambda: os.utime(0, (1, 1)),
        lambda: os.chown(0, os.getuid(), os.getgid()),
    ]:
        try:
            change()
            done.append(change)
        except OSError as error:
            print("held:", error)
    return bool(done)


def standard_input_to_others():
    with socket.socket(fileno=os.dup(0)) as inherited:
        if inherited.type == socket.SOCK_DGRAM:
            inherited.sendto(b"x", OUT + "/datagrams")
        else:
            inherited.connect(OUT + "/socket")
    return True


def chmod_through_symlink():
    os.symlink(FILE, WS + "/link")
    os.chmod(WS + "/link", 0o600)
    return True


def chmod_through_proc():
    fd = os.open(HOME + "/.cargo/bin/tool", os.O_RDONLY)
    os.chmod("/proc/self/fd/%d" % fd, 0o700)
    return True


def chmod_hooks():
    os.chmod(WS + "/.git/hooks/sample", 0o755)
    return True


def times_outside():
    os.utime(FILE, (1, 1))
    return True


def times_by_descriptor():
    os.utime(os.open(HOME + "/.cargo/bin/tool", os.O_RDONLY), (1, 1))
    return True


def attribute_outside():
    os.setxattr(FILE, "user.x", b"x")
    return True


def inode_flags():
    fd = os.open(HOME + "/.cargo/bin/tool", os.O_RDONLY)
    fcntl.ioctl(fd, 0x40086602, struct.pack("l", 0x40))
    return True


def chown_outside():
    os.chown(FILE, os.getuid(), os.getgid())
    return True


def set_user_id():
    os.chmod(WS + "/file", 0o4755)
    return True


def set_user_id_at_creation():
    fd = os.open(WS + "/suid", os.O_CREAT | os.O_WRONLY, 0o4755)
    return os.fstat(fd).st_mode & 0o4000 != 0


def set_user_id_without_a_name():
    fd = os.open(WS, os.O_TMPFILE | os.O_RDWR, 0o4755)
    return os.fstat(fd).st_mode & 0o4000 != 0


def untraced_child():
    # CLONE_UNTRACED: a supervisor that traces would not see it.
    child = syscall(56, 0x00800000 | signal.SIGCHLD, 0, 0, 0, 0)
    if child == 0:
        os._exit(0)
    return True


def chmod_device():
    os.chmod("/dev/full", stat.S_IMODE(os.stat("/dev/full").st_mode))
    return True


def chmod_own_program():
    # The first process of the namespace; with its mode as it is.
    os.chmod("/proc/1/exe", stat.S_IMODE(os.stat("/proc/1/exe").st_mode))
    return True


def inode_version():
    # EXT4_IOC_SETVERSION, by a descriptor that cannot write.
    fd = os.open(HOME + "/.cargo/bin/tool", os.O_RDONLY)
    fcntl.ioctl(fd, 0x40086604, struct.pack("l", 1))
    return True


def filter_listener():
    # A filter of the command's own, whose listener lets `chmod` continue: its answer counts more than a tracer.
    def step(code, yes, no, value):
        return struct.pack("HBBI", code, yes, no, value)

    seccomp, chmod = (317, 90) if os.uname().machine == "x86_64" else (277, 53)
    steps = step(0x20, 0, 0, 0) + step(0x15, 0, 1, chmod) + step(6, 0, 0, 0x7FC00000) + step(6, 0, 0, 0x7FFF0000)
    text = ctypes.create_string_buffer(steps)
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", 4, ctypes.addressof(text)))
    check(libc.prctl(38, 1, 0, 0, 0))
    listener = libc.syscall(seccomp, 1, 8, program)
    check(listener)
    child = os.fork()
    if child == 0:
        call = libc.chmod(FILE.encode(), 0o600) if chmod == 90 else libc.fchmodat(-100, FILE.encode(), 0o600, 0)
        os._exit(call != 0)
    notice = bytearray(80)
    fcntl.ioctl(listener, 0xC0502100, notice)
    # SECCOMP_USER_NOTIF_FLAG_CONTINUE
    fcntl.ioctl(listener, 0xC0182101, notice[:8] + struct.pack("qiI", 0, 0, 1))
    return os.waitpid(child, 0)[1] == 0


def open_without_access():
    # Neither for reading nor for writing.
    return os.open(FILE, 3) > 0


def lease_of_readable_file():
    fcntl.fcntl(os.open(HOME + "/.cargo/bin/tool", os.O_RDONLY), 1024, fcntl.F_RDLCK)
    return True


def start_up_file():
    return write(HOME + "/.zshrc")


def ssh_key():
    return read(HOME + "/.ssh/id")


def cargo_credentials():
    return read(HOME + "/.cargo/credentials.toml")


def shell_history():
    return read(HOME + "/.zsh_history")


def own_configuration():
    return read(HOME + "/aish/config/keys/k")


def own_events():
    return os.open(HOME + "/aish/run/events", os.O_RDWR | os.O_NONBLOCK) > 0


def toolchain_write():
    return write(HOME + "/.cargo/bin/tool")


def other_project():
    return read(SECRET)


def shadow_passwords():
    with open("/etc/shadow") as file:
        return "root" in file.read()


def environment():
    return b"secret" in open("/proc/self/environ", "rb").read() or "SSH_AUTH_SOCK" in os.environ


def core_dump():
    import resource

    return resource.getrlimit(resource.RLIMIT_CORE) != (0, 0)


def symlink_race():
    # The path leads into the workspace when it is checked, and outside when it is used.
    os.symlink(FILE, WS + "/out")
    os.symlink(WS + "/file", WS + "/in")
    stop = time.monotonic() + 1

    def swap():
        while time.monotonic() < stop:
            for source in ("/in", "/out"):
                try:
                    os.link(WS + source, WS + "/next", follow_symlinks=False)
                    os.rename(WS + "/next", WS + "/race")
                except OSError:
                    pass

    swapper = threading.Thread(target=swap)
    swapper.start()
    while time.monotonic() < stop:
        try:
            os.chmod(WS + "/race", 0o640)
        except OSError:
            pass
    swapper.join()
    return stat.S_IMODE(os.stat(FILE).st_mode) == 0o640


def many_processes():
    children = 0
    try:
        while children < 3000:
            if os.fork() == 0:
                signal.pause()
            children += 1
    finally:
        if children < 3000:
            raise OSError("only %d" % children)
    return True


def much_memory():
    return len(bytearray(1 << 29)) > 0


def full_temporary_directory():
    for number in range(64):
        with open("%s/%d" % (os.environ["TMPDIR"], number), "wb") as file:
            file.write(bytes(1 << 20))
    # Where no file system has the limit, the supervisor ends the command.
    signal.sigtimedwait([signal.SIGUSR1], 10)
    return True


def deep_temporary_directory():
    # Below paths that are too long for the supervisor, which is not to find the files there.
    at = os.open(os.environ["TMPDIR"], os.O_RDONLY)
    for _ in range(30):
        os.mkdir("d" * 200, dir_fd=at)
        at = os.open("d" * 200, os.O_RDONLY, dir_fd=at)
    signal.sigtimedwait([signal.SIGUSR1], 60)
    return True


def large_file():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with open(WS + "/large", "wb") as file:
        file.truncate(1 << 30)
    return True


try:
    if NAME.startswith("native_"):
        REACHED = native(NAME[len("native_") :])
    else:
        REACHED = globals()[NAME]()
except Exception as error:
    print("held:", type(error).__name__, error)
    sys.exit(1)
print("ESCAPED" if REACHED else "held: nothing reached")
