"""Where a kernel's time goes, line by line, and what would shorten it: told from counters and the time model.

with cdna.counting():
    kernel[grid](...)
for kernel in cdna.profile.profiles(cdna.stats()):
    print("\\n".join(cdna.profile.text_lines(kernel)))
"""

from ..results import Advice, Gain
from .advice import advice_for
from .kernel import KernelProfile, profiles
from .lines import Line
from .page import section
from .text import text_lines

__all__ = ["Advice", "Gain", "KernelProfile", "Line", "advice_for", "profiles", "section", "text_lines"]
