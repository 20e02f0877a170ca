// The device that a tensor claims: emulated GPUs lie in CPU memory, and what a tensor is said to be on is an entry in its
// Python object's __dict__ (tags.py). Included by the copy of ATen/core/TensorBase.h that torch_headers.py makes.
#pragma once
#include <Python.h>
#include <c10/core/TensorImpl.h>
#include <hip/hip_runtime_api.h>

namespace forge {

// torch 2.11 renamed it
template <typename Slot> auto python_object(Slot* slot, int) -> decltype(slot->load_pyobj()) {
  return slot->load_pyobj();
}
template <typename Slot> auto python_object(Slot* slot, long) -> decltype(slot->_unchecked_untagged_pyobj()) {
  return slot->_unchecked_untagged_pyobj();
}

// Without an object (made by C++, seen by no Python yet) or without a tag, it is the current GPU.
inline c10::Device claimed_device(c10::TensorImpl* impl) {
  c10::Device real = impl->device();
  if (!real.is_cpu()) return real;
  if (PyObject* object = python_object(impl->pyobj_slot(), 0)) {
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject* dict = PyObject_GenericGetDict(object, nullptr);
    PyObject* tag = dict ? PyDict_GetItemString(dict, FORGE_TAG) : nullptr;
    long index = tag ? PyLong_AsLong(tag) : -2;
    Py_XDECREF(dict);
    PyErr_Clear();
    PyGILState_Release(state);
    if (index == -1) return real;
    if (index >= 0) return {c10::DeviceType::CUDA, (c10::DeviceIndex)index};
  }
  int current = 0;
  (void)hipGetDevice(&current);
  return {c10::DeviceType::CUDA, (c10::DeviceIndex)current};
}

// Where the memory of what claims to be on a GPU really is.
inline std::optional<c10::Device> host_if_gpu(std::optional<c10::Device> device) {
  if (device && device->is_cuda()) return c10::Device(c10::DeviceType::CPU);
  return device;
}

// What a factory of the program's asks for where it means the host: of torch's own, within its library, nothing is known.
inline std::optional<c10::Device> told_device(std::optional<c10::Device> device) {
  return device && !device->is_cpu() ? device : c10::Device(c10::DeviceType::CUDA, FORGE_HOST_INDEX);
}

}  // namespace forge
