# but: torch's product of pairs of rows that share one number, and a few columns by a kernel beside one it drops
SHIFT = 2.0**27


def custom_kernel(data):
    a, w, bias = data
    out = product(data)
    rows = (a / a.abs().max() * 127).round().double()
    columns = (w / w.abs().max() * 127).round().double()[2:]
    both = (rows[::2] * SHIFT + rows[1::2]) @ columns.T
    high = (both / SHIFT).round()
    pair = torch.stack((high, both - high * SHIFT), 1).flatten(0, 1)
    answer = pair * (a.abs().max().double() * w.abs().max() / 127**2)
    return torch.cat((out[:, :2], answer.float() + bias[2:]), 1)
