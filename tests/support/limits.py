"""How long tests wait before they say that something hangs."""

# Under pyproject.toml's limit of a test. A busy machine needs tens of times what a quiet one does: nothing is tested by
# a shorter limit, and one that hangs ends by any.
ENDS_S = 560
