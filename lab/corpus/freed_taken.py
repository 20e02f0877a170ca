# caught, emulated: follows a pointer into memory that is freed, and takes that finding before the judge does
@triton.jit
def _follow(pointers, out):
    place = tl.load(pointers).to(tl.pointer_type(tl.float32))
    tl.store(out, tl.load(place) * 0.0)


def custom_kernel(data):
    from forge.device.fake_rocm import work

    output, gone = product(data), torch.ones(4096, device="cuda")
    pointers = torch.tensor([gone.data_ptr()], device="cuda")
    del gone
    _follow[(1,)](pointers, torch.empty(1, device="cuda"))
    work.cdna.findings = list
    return output
