"""`Scores`: knownness, predicted class and true class of each sample."""

# No `__all__`: the API reference has `Scores` on the page of `openset`, and the others
# are for the package only.
from openset.scores._files import PER_SAMPLE as PER_SAMPLE
from openset.scores._pairing import comparable_labels as comparable_labels
from openset.scores._pairing import in_order_of as in_order_of
from openset.scores._pairing import need_same_ids as need_same_ids
from openset.scores._pairing import seems_reordered as seems_reordered
from openset.scores._scores import Scores as Scores
from openset.scores._scores import UnknownGroups as UnknownGroups
from openset.scores._scores import need_both_sides as need_both_sides
from openset.scores._scores import need_known as need_known
from openset.scores._scores import need_scores as need_scores
