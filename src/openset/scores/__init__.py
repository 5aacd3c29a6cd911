"""`Scores`: knownness, predicted class and true class of each sample."""

# No `__all__`: the API reference has `Scores` on the page of `openset`, and the others
# are for the package only.
from openset.scores._scores import Scores as Scores
from openset.scores._scores import UnknownGroups as UnknownGroups
from openset.scores._scores import need_both_sides as need_both_sides
from openset.scores._scores import need_known as need_known
from openset.scores._scores import need_scores as need_scores
