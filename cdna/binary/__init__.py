"""Machine code, as assembly or as a code object: read, decoded, and what it takes of the card."""
