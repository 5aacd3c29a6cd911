"""Protocols: which classes are known and which are unknown, drawn once and saved."""

from openset.protocols import classes as classes
from openset.protocols import sampling as sampling
from openset.protocols.drawing import default as default
from openset.protocols.drawing import holdout as holdout
from openset.protocols.drawing import operational as operational
from openset.protocols.drawing import outlier as outlier
from openset.protocols.draws import Draws as Draws
from openset.protocols.draws import load as load
from openset.protocols.grids import grid as grid
from openset.protocols.grids import leave_classes_out as leave_classes_out
from openset.protocols.grids import pairs as pairs
from openset.protocols.protocol import Protocol as Protocol
from openset.protocols.protocol import openness as openness
from openset.protocols.published_splits import names as names
from openset.protocols.published_splits import published as published
from openset.protocols.published_splits import splits as splits
