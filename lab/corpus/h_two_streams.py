# pass, benchmark: each half of its rows on a stream of its own
def custom_kernel(data):
    a, w, bias = data
    out = torch.empty((len(a), len(w)), device="cuda")
    half = len(a) // 2
    streams = [torch.cuda.Stream(), torch.cuda.Stream()]
    here = torch.cuda.current_stream()
    for place, stream in enumerate(streams):
        stream.wait_stream(here)
        with torch.cuda.stream(stream):
            rows = slice(place * half, (place + 1) * half)
            product((a[rows], w, bias), out[rows])
    for stream in streams:
        here.wait_stream(stream)
    return out
