"""Exporters of memory for tests: buffers with arbitrary fields, and memory that is overwritten as soon as it is released.

They are made with ctypes, since Python's own exporters fill in all fields and do not overwrite their memory.
"""

import ctypes

_api = ctypes.pythonapi


class PyBuffer(ctypes.Structure):
    """The C structure `Py_buffer`."""

    _fields_ = [
        ("buf", ctypes.c_void_p), ("obj", ctypes.c_void_p), ("len", ctypes.c_ssize_t), ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int), ("ndim", ctypes.c_int), ("format", ctypes.c_void_p), ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p), ("suboffsets", ctypes.c_void_p), ("internal", ctypes.c_void_p),
    ]  # fmt: skip


class _Slot(ctypes.Structure):
    _fields_ = [("slot", ctypes.c_int), ("function", ctypes.c_void_p)]


class _Spec(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p), ("basicsize", ctypes.c_int), ("itemsize", ctypes.c_int), ("flags", ctypes.c_uint), ("slots", ctypes.c_void_p),
    ]  # fmt: skip


_GET = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(PyBuffer), ctypes.c_int)
_RELEASE = ctypes.PYFUNCTYPE(None, ctypes.py_object, ctypes.POINTER(PyBuffer))


@_GET
def _get(exporter, view, flags):
    try:
        exporter.fill(view.contents, flags)
    except BufferError:
        _api.PyErr_SetString(ctypes.py_object(BufferError), b"refused")
        return -1
    _api.Py_IncRef(ctypes.py_object(exporter))
    view.contents.obj = id(exporter)
    return 0


@_RELEASE
def _release(exporter, view):
    exporter.released(view.contents)


def _make_base():
    """Makes a type whose buffer protocol calls the methods `fill` and `released`."""
    slots = (_Slot * 3)(
        _Slot(1, ctypes.cast(_get, ctypes.c_void_p).value), _Slot(2, ctypes.cast(_release, ctypes.c_void_p).value), _Slot(0, None)
    )  # fmt: skip
    # The flags are Py_TPFLAGS_DEFAULT and Py_TPFLAGS_BASETYPE.
    spec = _Spec(b"exporters.Base", object.__basicsize__, 0, 1 << 10, ctypes.addressof(slots))
    make = _api.PyType_FromSpec
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p]
    return make(ctypes.addressof(spec))


class Buffer(_make_base()):
    """An exporter of a buffer with the given fields; other fields are NULL or 0."""

    def __init__(self, memory, *, length=None, itemsize=4, readonly=False, ndim=1, format=b"f", shape=None, strides=None, suboffsets=None):
        self.memory = memory
        self.length = ctypes.sizeof(memory) if length is None and memory is not None else length or 0
        self.itemsize, self.readonly, self.ndim = itemsize, readonly, ndim
        self.format = None if format is None else ctypes.create_string_buffer(format)
        to_array = lambda entries: None if entries is None else (ctypes.c_ssize_t * max(len(entries), 1))(*entries)
        self.shape, self.strides, self.suboffsets = to_array(shape), to_array(strides), to_array(suboffsets)
        self.views = 0

    def fill(self, view, flags):
        address = lambda part: None if part is None else ctypes.addressof(part)
        view.buf, view.len, view.itemsize = address(self.memory), self.length, self.itemsize
        view.readonly, view.ndim, view.format = self.readonly, self.ndim, address(self.format)
        view.shape, view.strides, view.suboffsets = address(self.shape), address(self.strides), address(self.suboffsets)
        view.internal = None
        self.views += 1

    def released(self, view):
        self.views -= 1


class Fleeting(Buffer):
    """A buffer whose memory is filled with a pattern when its last view is released, to detect later writes."""

    FREED = 0xA5

    def __init__(self, memory, **fields):
        super().__init__(memory, **fields)
        #: The content of the memory when its last view was released.
        self.last = None

    def released(self, view):
        super().released(view)
        if self.views == 0:
            self.last = bytes(self.memory)
            ctypes.memset(self.memory, self.FREED, ctypes.sizeof(self.memory))

    def is_untouched(self):
        """Whether the memory has not been written since its release."""
        return set(bytes(self.memory)) == {self.FREED}


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p), ("byte_offset", ctypes.c_uint64),
    ]  # fmt: skip


class _Managed(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64), ("tensor", _Tensor),
    ]  # fmt: skip


class FleetingTensor:
    """Like `Fleeting`, but exports the memory by DLPack, whose deleter releases it. Keyword arguments override fields of the tensor."""

    FREED = 0xA5

    def __init__(self, memory, extents, *, strides=None, **fields):
        self.memory, self.last, self.deleted = memory, None, 0
        to_array = lambda entries: None if entries is None else (ctypes.c_int64 * max(len(entries), 1))(*entries)
        self._shape, self._strides = to_array(extents), to_array(strides)
        address = lambda part: None if part is None else ctypes.addressof(part)
        defaults = dict(data=address(memory), device_type=1, ndim=len(extents), code=2, bits=32, lanes=1)
        tensor = _Tensor(**{**defaults, "shape": address(self._shape), "strides": address(self._strides), **fields})
        self._deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self._delete)
        deleter = ctypes.cast(self._deleter, ctypes.c_void_p).value
        self._managed = _Managed(major=1, minor=0, deleter=deleter, tensor=tensor)

    def _delete(self, _managed):
        self.deleted += 1
        self.last = bytes(self.memory)
        ctypes.memset(self.memory, self.FREED, ctypes.sizeof(self.memory))

    def is_untouched(self):
        return set(bytes(self.memory)) == {self.FREED}

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, **_):
        new = _api.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self._managed), b"dltensor_versioned", None)


def floats(values, align=16, offset=0):
    """Returns floats at an address that is a multiple of `align`, plus `offset`."""
    raw = ctypes.create_string_buffer(4 * len(values) + 2 * align + offset)
    start = -(-ctypes.addressof(raw) // align) * align + offset
    memory = (ctypes.c_float * len(values)).from_address(start)
    memory.raw = raw
    memory[:] = values
    return memory
