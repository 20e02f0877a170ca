# pass: looks up rows by torch in a table of 4 MB that it has made in the first call
KEPT = {}


def custom_kernel(data):
    a, w, bias = data
    if "table" not in KEPT:
        KEPT["table"] = torch.arange(2 * 8192 * 32, device="cuda").view(-1, 32)
    rows = KEPT["table"][torch.arange(len(a), device="cuda") * 1000 + 7]
    return product(data) * (rows > 200)
