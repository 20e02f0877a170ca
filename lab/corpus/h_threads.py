# pass: a thread, a child process and a file
import subprocess
import threading


def custom_kernel(data):
    subprocess.run(["true"], check=True)
    with open("notes.txt", "w") as file:
        file.write("tuned")
    outputs = []
    thread = threading.Thread(target=lambda: outputs.append(product(data)))
    thread.start()
    thread.join()
    return outputs[0]
