"""Statistical tests: two detectors, several folds or seeds, many methods."""

from openset.stats.boards import Leaderboard as Leaderboard
from openset.stats.boards import direction as direction
from openset.stats.boards import leaderboard as leaderboard
from openset.stats.friedman import Ranks as Ranks
from openset.stats.friedman import ranks as ranks
from openset.stats.same_runs import PairedTest as PairedTest
from openset.stats.same_runs import adjust as adjust
from openset.stats.same_runs import independent_runs as independent_runs
from openset.stats.same_runs import paired_t as paired_t
from openset.stats.same_samples import Comparison as Comparison
from openset.stats.same_samples import compare as compare
from openset.stats.score_files import METRICS as METRICS
from openset.stats.score_files import read_results as read_results
