# pass: two ways timed in the first call, the quicker one kept
import time

choice = []


def custom_kernel(data):
    if not choice:
        times = []
        for way in (product, lambda data: product(data, torch.zeros((len(data[0]), len(data[1])), device="cuda"))):
            started = time.perf_counter()
            way(data)
            times.append((time.perf_counter() - started, len(times), way))
        choice.append(min(times)[2])
    return choice[0](data)
