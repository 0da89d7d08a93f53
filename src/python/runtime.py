# The process that runs Python helpers: it reads requests from the channel and answers each with one line of JSON.
#
# The channel is the socket that the process was started with as stdin. `SCHEMA_SOURCE` is defined before this text.
# Imports cost start-up time: `typing`, `inspect` and the like are imported by the schema module, on the first call.
import _thread
import os
import sys
import types

# Longest line on the channel, in bytes, as the daemon reads it.
MAX_LINE = 8 << 20
MAX_DEPTH = 64
IMAGES = ((b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"))


class HelperError(Exception):
    """A helper that was called by code failed, or the call was denied."""


class Channel:
    def __init__(self):
        # `dup` returns a descriptor that programs started by a helper do not inherit.
        descriptor = os.dup(0)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        self.file = os.fdopen(descriptor, "rb")
        self.descriptor = descriptor
        self.process = os.getpid()

    def read(self):
        line = self.file.readline()
        if not line:
            # The daemon has closed the channel.
            os._exit(0)
        return json.loads(line)

    def write(self, message):
        text = json.dumps(message, ensure_ascii=False, allow_nan=False)
        try:
            data = text.encode()
        except UnicodeEncodeError:
            # Halves of surrogate pairs, which also represent the bytes of a file name that is not UTF-8.
            data = "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in text).encode()
        data += b"\n"
        if len(data) > MAX_LINE:
            return False
        # A process that a helper forked must not answer in place of the worker.
        if os.getpid() != self.process:
            os._exit(1)
        view = memoryview(data)
        while view:
            view = view[os.write(self.descriptor, view):]
        return True


class Worker:
    def __init__(self, channel):
        self.channel = channel
        self.modules = {}
        self.calls = 0
        # Threads of the code may call helpers at the same time.
        self.call_lock = _thread.allocate_lock()

    def serve(self):
        while True:
            request = self.channel.read()
            limit_cpu(request.get("seconds"))
            answer = {"is_error": False}
            try:
                self.answer(request, answer)
            except BaseException as error:
                answer["is_error"] = True
                answer["text"] = described(error)
                # The process may be damaged: the next call gets another one.
                answer["end"] = not isinstance(error, Exception) or isinstance(error, (MemoryError, RecursionError))
            for stream in (sys.stdout, sys.stderr):
                try:
                    stream.flush()
                except Exception:
                    answer["end"] = True
            left = leftovers()
            if left:
                answer["end"] = True
                answer["left"] = left
            answer["id"] = request["id"]
            if not self.channel.write(answer):
                text = "the result is larger than %d MB; return less, or write it to a file" % (MAX_LINE >> 20)
                self.channel.write({"id": request["id"], "is_error": True, "text": text, "end": answer.get("end", False)})

    def answer(self, request, answer):
        if "directory" in request:
            os.chdir(request["directory"])
        if "describe" in request:
            answer.update(schema().describe(request["describe"], lambda: load(request)))
        elif "call" in request:
            key = request["file"]
            if "source" in request or key not in self.modules:
                self.modules[key] = (load(request), {})
            answer["loaded"] = True
            module, bindings = self.modules[key]
            name = request["call"]
            if name not in bindings:
                bindings[name] = schema().binding(getattr(module, name))
            function, bind = bindings[name]
            positional, named = bind(request["arguments"])
            answer_value(function(*positional, **named), answer)
        else:
            run_code(request, self.call_helper, answer)

    def call_helper(self, name, helper, positional, named):
        """Asks the daemon to call a helper, which may ask the person."""
        parameters = helper["parameters"]
        if len(positional) > len(parameters):
            message = "%s() takes %d arguments, but %d were given"
            raise TypeError(message % (name, len(parameters), len(positional)))
        arguments = dict(zip(parameters, positional))
        for key, value in named.items():
            if key not in parameters:
                raise TypeError("%s() has no parameter %r" % (name, key))
            if key in arguments:
                raise TypeError("%s() got two values for %r" % (name, key))
            arguments[key] = value
        with self.call_lock:
            self.calls += 1
            call = {"call": name, "arguments": plain(arguments, [], 0), "id": self.calls}
            if not self.channel.write(call):
                raise HelperError("the arguments are larger than %d MB" % (MAX_LINE >> 20))
            reply = self.channel.read()
        if "error" in reply:
            raise HelperError(reply["error"])
        if helper["decode"]:
            try:
                return json.loads(reply["result"])
            except ValueError:
                pass
        return reply["result"]


def schema(loaded=[]):
    if not loaded:
        module = types.ModuleType("aish_schema")
        exec(compile(SCHEMA_SOURCE, "aish-schema", "exec"), module.__dict__)
        loaded.append(module)
    return loaded[0]


def load(request):
    """Runs a helper file as a module."""
    name = "aish_helper_" + os.path.splitext(request["file"])[0]
    module = types.ModuleType(name)
    module.__file__ = request["path"]
    # Dataclasses and type hints look their module up.
    sys.modules[name] = module
    exec(compile(request["source"], request["file"], "exec"), module.__dict__)
    return module


def run_code(request, call_helper, answer):
    import ast

    source = request["code"]
    tree = ast.parse(source, "code")
    last = None
    if tree.body and isinstance(tree.body[-1], ast.Expr):
        last = ast.Expression(tree.body.pop().value)
    namespace = {"__name__": "__main__", "HelperError": HelperError}
    functions = {}
    for name, helper in request["helpers"].items():
        functions[name] = stub(name, helper, call_helper)
    namespace["helper"] = types.SimpleNamespace(**functions)
    namespace.update(functions)
    exec(compile(tree, "code", "exec"), namespace)
    if last is not None:
        value = eval(compile(last, "code", "eval"), namespace)
        if value is not None:
            answer["text"] = repr(value)


def stub(name, helper, call_helper):
    def function(*positional, **named):
        return call_helper(name, helper, positional, named)

    function.__name__ = function.__qualname__ = name
    return function


def answer_value(value, answer):
    images = []
    value = plain(value, images, 0)
    if isinstance(value, str):
        answer["text"] = value
    elif value is not None:
        answer["text"] = json.dumps(value, ensure_ascii=False)
    if images:
        answer["images"] = images


def plain(value, images, depth):
    """Returns a value of JSON; images in it are appended to `images`."""
    if value is None or isinstance(value, (bool, str)):
        # An instance of a subclass, such as an enum with strings, is replaced below.
        if type(value) in (bool, str, type(None)):
            return value
    if depth > MAX_DEPTH:
        raise TypeError("the result is nested more than %d levels deep" % MAX_DEPTH)
    if type(value) in (int, float):
        return value
    if isinstance(value, (bytes, bytearray)):
        for magic, mime in IMAGES:
            if value.startswith(magic):
                import binascii

                images.append({"mime": mime, "data": binascii.b2a_base64(value, newline=False).decode()})
                return "[%s, %d bytes]" % (mime, len(value))
        raise TypeError("the result contains bytes that are not a PNG, JPEG or GIF image")
    if isinstance(value, dict):
        return {key_text(key): plain(item, images, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item, images, depth + 1) for item in value]
    enum = sys.modules.get("enum")
    if enum and isinstance(value, enum.Enum):
        return plain(value.value, images, depth + 1)
    if hasattr(type(value), "__dataclass_fields__"):
        fields = type(value).__dataclass_fields__
        return {name: plain(getattr(value, name), images, depth + 1) for name in fields}
    if hasattr(value, "__fspath__"):
        return os.fspath(value)
    if hasattr(value, "isoformat"):
        return value.isoformat()
    for base in (str, int, float):
        if isinstance(value, base):
            return base(value)
    # Numbers and arrays of numpy.
    if hasattr(value, "tolist"):
        return plain(value.tolist(), images, depth + 1)
    raise TypeError("the result has the type %s, which has no form in JSON" % type(value).__name__)


def key_text(key):
    if isinstance(key, str):
        return key
    if key is None or isinstance(key, (bool, int, float)):
        return json.dumps(key)
    return str(key)


def described(error):
    """Returns one line: the error, and the line of the helper or code that raised it."""
    name = type(error).__name__
    if isinstance(error, SystemExit):
        text = "it called sys.exit(%s)" % ("" if error.code is None else repr(error.code))
    elif isinstance(error, MemoryError):
        text = "MemoryError: it needs more memory than the limit"
    else:
        try:
            message = " ".join(str(error).split())
        except BaseException:
            message = ""
        text = "%s: %s" % (name, message) if message else name
    if isinstance(error, SyntaxError):
        return text[:2000]
    place = ""
    trace = error.__traceback__
    while trace:
        file = trace.tb_frame.f_code.co_filename
        if file == "code" or file.endswith(".py") and os.sep not in file:
            place = "line %d" % trace.tb_lineno if file == "code" else "%s, line %d" % (file, trace.tb_lineno)
        trace = trace.tb_next
    return text[:2000] + (" (%s)" % place if place else "")


def leftovers():
    """Says what a call has left running."""
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                return "a process"
        except ChildProcessError:
            break
    # In namespaces, /proc shows this sandbox only: its first process, which adopts orphans, and this one.
    if os.getppid() == 1:
        others = [name for name in os.listdir("/proc") if name.isdigit() and int(name) not in (1, os.getpid())]
        if others:
            return "a process"
    threading = sys.modules.get("threading")
    if threading and threading.active_count() > 1:
        return "a thread"
    return None


def limit(name, value):
    try:
        import resource

        kind = getattr(resource, name)
        hard = resource.getrlimit(kind)[1]
        if hard != resource.RLIM_INFINITY:
            value = min(value, hard)
        resource.setrlimit(kind, (value, value))
    except (AttributeError, ImportError, OSError, ValueError):
        # Some systems lack some limits.
        pass


def limit_cpu(seconds):
    """Limits the processor time of one call."""
    try:
        import resource

        used = resource.getrusage(resource.RUSAGE_SELF)
        soft = int(used.ru_utime + used.ru_stime + seconds) + 2
        resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.getrlimit(resource.RLIMIT_CPU)[1]))
    except (ImportError, OSError, TypeError, ValueError):
        pass


def refuse_network(event, arguments):
    """A clear message for Python code; native code does not come here, so it is no boundary."""
    if event.startswith("socket.") and event in (
        "socket.bind", "socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendmsg", "socket.sendto",
    ):
        raise PermissionError("the network is not allowed here; a helper declares it: __aish__ = {NAME: {'network': True}}")


def main():
    channel = Channel()
    memory, file_size, open_files, packages, network = sys.argv[1:6]
    limit("RLIMIT_AS", int(memory))
    limit("RLIMIT_FSIZE", int(file_size))
    limit("RLIMIT_NOFILE", int(open_files))
    limit("RLIMIT_CORE", 0)
    if hasattr(sys, "set_int_max_str_digits"):
        # The time of a call is limited in any case, and a request that cannot be read would end the process.
        sys.set_int_max_str_digits(0)
    sys.argv = [""]
    if network != "network":
        sys.addaudithook(refuse_network)
    if packages:
        # The interpreter starts without `site`, which costs more than the rest of its start.
        import site

        site.addsitedir(packages)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True, errors="backslashreplace")
    os.write(channel.descriptor, b'{"ready": true}\n')
    # The module costs as much time as the start of the interpreter; the daemon prepares its first request meanwhile.
    global json
    import json

    Worker(channel).serve()


main()
