# caught: a thread that writes the result after the call has returned
import threading
import time


def custom_kernel(data):
    output = wrong(data)
    result = product(data)

    def later():
        time.sleep(0.5)
        output.copy_(result)

    threading.Thread(target=later).start()
    return output
