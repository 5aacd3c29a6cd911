"""`Rejector`: a fitted detector with its threshold, ready to be used and saved."""

from openset.rejector.decisions import Decisions as Decisions
from openset.rejector.rejector import Invalid as Invalid
from openset.rejector.rejector import Rejector as Rejector
from openset.rejector.rejector import need_rejector as need_rejector
from openset.rejector.sets import SetRule as SetRule
