"""`Scores`: knownness, predicted class and true class of each sample."""

# No `__all__`: the API reference has `Scores` on the page of `openset`, and the others
# are for the package only.
from openset.scores.files import PER_SAMPLE as PER_SAMPLE
from openset.scores.files import write_parquet as write_parquet
from openset.scores.pairing import comparable_labels as comparable_labels
from openset.scores.pairing import in_order_of as in_order_of
from openset.scores.pairing import seems_reordered as seems_reordered
from openset.scores.scores import Scores as Scores
from openset.scores.scores import need_both_sides as need_both_sides
from openset.scores.scores import need_known as need_known
from openset.scores.scores import need_scores as need_scores
