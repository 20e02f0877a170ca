"""The subcommands of `python -m cdna`, a file each."""
