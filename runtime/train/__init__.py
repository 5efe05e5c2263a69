"""Training: a method, data and a folder that can be killed at any moment and taken up again."""

from fgg.runtime.train.checkpoint import Checkpoint
from fgg.runtime.train.feeding import Feed
from fgg.runtime.train.processes import Processes
from fgg.runtime.train.settings import Settings
from fgg.runtime.train.trainer import Epoch, Trainer

__all__ = ["Checkpoint", "Epoch", "Feed", "Processes", "Settings", "Trainer"]
