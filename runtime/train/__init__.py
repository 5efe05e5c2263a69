"""Training: a method, data and a folder, so that a run can be killed at any time and resumed."""

from fgg.runtime.train.feed import Feed
from fgg.runtime.train.processes import Processes
from fgg.runtime.train.run_folder import Checkpoint
from fgg.runtime.train.run_settings import RunSettings
from fgg.runtime.train.trainer import Epoch, Trainer

__all__ = ["Checkpoint", "Epoch", "Feed", "Processes", "RunSettings", "Trainer"]
