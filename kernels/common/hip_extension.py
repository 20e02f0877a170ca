"""Builds HIP source into a Python module, with torch.utils.cpp_extension.load_inline but without torch's headers.

They would cost half a minute a build. So the exported functions take numbers only, addresses as int64_t, and a few
lines of Python's own C API call them, in a fraction of what pybind11 takes.
"""

import fcntl
import hashlib
import inspect
import os
import re
import sys
from types import ModuleType

import torch
from torch.utils.cpp_extension import get_default_build_root, load_inline

# Calls each function with its arguments converted, the interpreter's lock released; what it throws is a RuntimeError.
PYTHON_BINDING = r"""
#include <Python.h>

#include <cstdint>
#include <exception>
#include <tuple>
#include <type_traits>
#include <utility>

template <typename T> T from_python(PyObject* value) {
    static_assert(std::is_arithmetic_v<T>, "exported functions take integers, double, float and bool; "
                                           "pass an address as int64_t");
    if constexpr (std::is_same_v<T, bool>) {
        return PyObject_IsTrue(value) == 1;
    } else if constexpr (std::is_floating_point_v<T>) {
        return static_cast<T>(PyFloat_AsDouble(value));
    } else {
        const long long wide = PyLong_AsLongLong(value);
        const bool fits = static_cast<long long>(static_cast<T>(wide)) == wide && (wide >= 0 || std::is_signed_v<T>);
        if (!fits && !PyErr_Occurred())
            PyErr_Format(PyExc_OverflowError, "%lld does not fit in %d bits", wide, int(8 * sizeof(T)));
        return static_cast<T>(wide);
    }
}

template <typename T> PyObject* to_python(T value) {
    static_assert(std::is_arithmetic_v<T>, "exported functions return void, an integer, double, float or bool");
    if constexpr (std::is_same_v<T, bool>) return PyBool_FromLong(value);
    else if constexpr (std::is_floating_point_v<T>) return PyFloat_FromDouble(value);
    else return PyLong_FromLongLong(value);
}

struct LockReleased {
    PyThreadState* state = PyEval_SaveThread();
    ~LockReleased() { PyEval_RestoreThread(state); }
};

template <typename R, typename... A, size_t... I>
PyObject* call(const char* name, R (*function)(A...), PyObject* const* given, Py_ssize_t count,
               std::index_sequence<I...>) {
    if (count != Py_ssize_t(sizeof...(A)))
        return PyErr_Format(PyExc_TypeError, "%s takes %d arguments, got %zd", name, int(sizeof...(A)), count);
    std::tuple<A...> values{from_python<A>(given[I])...};
    if (PyErr_Occurred()) return nullptr;
    try {
        if constexpr (std::is_void_v<R>) {
            LockReleased released;
            function(std::get<I>(values)...);
        } else {
            R result;
            {
                LockReleased released;
                result = function(std::get<I>(values)...);
            }
            return to_python(result);
        }
    } catch (const std::exception& error) {
        return PyErr_Format(PyExc_RuntimeError, "%s", error.what());
    }
    Py_RETURN_NONE;
}

template <typename R, typename... A>
PyObject* call(const char* name, R (*function)(A...), PyObject* const* given, Py_ssize_t count) {
    return call(name, function, given, count, std::index_sequence_for<A...>());
}

#define EXPORT(name)                                                                          \
    {#name,                                                                                   \
     reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(                                   \
         +[](PyObject*, PyObject* const* given, Py_ssize_t count) -> PyObject* {              \
             return call(#name, name, given, count);                                          \
         })),                                                                                 \
     METH_FASTCALL, nullptr}
#define JOINED(a, b) a##b
#define INIT_OF(name) JOINED(PyInit_, name)
#define TEXT_OF(name) #name
#define NAME_OF(name) TEXT_OF(name)
"""


def load_extension(
    name: str, source: str, functions: list[str], arch: str = "gfx942", preload_arguments: bool = False
) -> ModuleType:
    """A module with `functions`, which `source` (HIP, from hip_source) defines as `void f(int64_t x, int n) {`.

    arch: what an AMD build is for, several joined by semicolons; a CUDA one is for the machine's GPU.
    preload_arguments: of a kernel's arguments up to the first struct, 14 words at most are in registers before its
    waves start. Every rank may call this at once: one builds, the others wait and find it built. A lock that a killed
    build left behind is removed, not waited for.
    """
    flags = ["-O3", "-std=c++20"]
    if torch.version.hip:
        os.environ["PYTORCH_ROCM_ARCH"] = arch  # else for every arch that torch knows
        os.environ.setdefault("CXX", "clang++")
        flags += [f"--offload-arch={one}" for one in arch.split(";")]
        if preload_arguments:
            flags += ["-mllvm", "-amdgpu-kernarg-preload-count=16"]
    binding = python_binding(source, functions)
    made_of = (torch.__version__, sys.implementation.cache_tag, source, binding, flags)
    key = hashlib.sha256(repr(made_of).encode()).hexdigest()[:16]
    root = os.environ.get("TORCH_EXTENSIONS_DIR") or get_default_build_root()
    folder = os.path.join(root, f"{name}-{key}")
    os.makedirs(folder, exist_ok=True)
    # Absent in torch before 2.7, where the headers are then read for nothing.
    bare = {"no_implicit_headers": True} if "no_implicit_headers" in inspect.signature(load_inline).parameters else {}
    with open(os.path.join(folder, "guard"), "w") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)  # the kernel releases it when its holder is killed
        if os.path.exists(os.path.join(folder, "lock")):
            os.unlink(os.path.join(folder, "lock"))  # torch's own, which nobody holds: load_inline would wait for it
        return load_inline(
            name=name,
            cpp_sources=[binding],
            cuda_sources=[source],
            extra_cuda_cflags=flags,
            build_directory=folder,
            verbose=True,  # the compiler's messages are worth nothing unless they are printed
            **bare,
        )


def python_binding(source: str, functions: list[str]) -> str:
    """C++ that makes a Python module of `functions`, declared as `source` defines them."""
    declarations = []
    for function in functions:
        pattern = rf'^((?:extern "C"[ \t]+)?(?:[\w:]+[ \t]+)+{function}\s*\([^()]*\))\s*\{{'
        found = re.search(pattern, source, re.MULTILINE)
        if not found:
            raise ValueError(f"the HIP source defines no function `void {function}(...) {{` at the start of a line")
        declarations.append(" ".join(found[1].split()) + ";")
    table = ", ".join(f"EXPORT({function})" for function in functions)
    return "\n".join(
        [
            PYTHON_BINDING,
            *declarations,
            f"static PyMethodDef methods[] = {{{table}, {{nullptr, nullptr, 0, nullptr}}}};",
            "static PyModuleDef made = {PyModuleDef_HEAD_INIT, NAME_OF(TORCH_EXTENSION_NAME), nullptr, -1, methods};",
            "PyMODINIT_FUNC INIT_OF(TORCH_EXTENSION_NAME)(void) { return PyModule_Create(&made); }",
            "",
        ]
    )
