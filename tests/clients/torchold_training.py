# SPDX-License-Identifier: Apache-2.0
"""Unmodified programs with an older PyTorch. They start warm, too, and a change of what a compile calls is seen there.
torch_training.py and torch_tables.py test the rest, with a newer PyTorch."""

import unittest

import torch_tables
import torch_training


class Training(torch_training.Training):
    pass


class Changes(torch_tables.Changes):
    missing = 2  # of the table user_lowerings, which is newer


if __name__ == "__main__":
    unittest.main()
