"""HIP beside a Python variant: `SOURCE = hip_source("kernel.hip")` at the top level of a kernel file.

gen_submission.py writes the file's text, its local includes taken in, in the place of the call.
"""


def hip_source(file_name: str) -> str:
    raise RuntimeError(
        f'hip_source("{file_name}") stands for a text that gen_submission.py puts in: a kernel with HIP in it runs as '
        "the generated file (./gen_submission.py PROBLEM --variant V -o submission.py)"
    )
