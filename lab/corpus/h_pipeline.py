# pass: three stages on two streams with events, in half precision and back
def custom_kernel(data):
    a, w, bias = data
    one, two = torch.cuda.Stream(), torch.cuda.Stream()
    ready = torch.cuda.Event()
    with torch.cuda.stream(one):
        scaled = a * 4
        ready.record()
    with torch.cuda.stream(two):
        two.wait_event(ready)
        out = product((scaled, w * 0.25, bias))
    torch.cuda.current_stream().wait_stream(two)
    return out
