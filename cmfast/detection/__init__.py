"""Object detection: match boxes by intersection over union (IoU), and count confusions with a background class."""

from typing import TYPE_CHECKING

from cmfast._core.usual_names import make_missing_name_error
from cmfast.detection._counting import confusion_matrix, count
from cmfast.detection._match import match

__all__ = ["confusion_matrix", "count", "match"]

if not TYPE_CHECKING:  # so that type checkers refuse names that are none

    def __getattr__(name):
        """Raise AttributeError that says what to call for a name of another library."""
        raise make_missing_name_error(__name__, name, __all__)

    def __dir__():
        """Return the public names."""
        return __all__
