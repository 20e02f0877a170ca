"""The library behind gen_submission.py and eval.py."""
