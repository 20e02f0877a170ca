# pass: a captured graph, replayed on inputs that are copied in
captured = {}


def custom_kernel(data):
    key = tuple(tensor.shape for tensor in data)
    if key not in captured:
        inputs, graph = [tensor.clone() for tensor in data], torch.cuda.CUDAGraph()
        product(inputs)
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            output = product(inputs)
        captured[key] = graph, inputs, output
    graph, inputs, output = captured[key]
    for mine, theirs in zip(inputs, data):
        mine.copy_(theirs)
    graph.replay()
    return output
