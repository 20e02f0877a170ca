# pass: inference mode, a tensor that asks for gradients, and another stream's default
def custom_kernel(data):
    with torch.inference_mode():
        output = product(data)
    return output
