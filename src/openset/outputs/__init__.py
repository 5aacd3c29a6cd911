"""`Outputs`: the outputs of a network on one split, in the caller's array library."""

# No `__all__`: the API reference has `Outputs` on the page of `openset`, and the others
# are for the package only.
from openset.outputs._checks import leading_rows as leading_rows
from openset.outputs._checks import named_layers as named_layers
from openset.outputs._files import is_outputs as is_outputs
from openset.outputs._files import put_folder as put_folder
from openset.outputs._gaps import WithGaps as WithGaps
from openset.outputs._invalid import Invalid as Invalid
from openset.outputs._invalid import is_undetermined as is_undetermined
from openset.outputs._invalid import need_valid as need_valid
from openset.outputs._outputs import Outputs as Outputs
from openset.outputs._outputs import need_kind as need_kind
from openset.outputs._outputs import need_outputs as need_outputs
from openset.outputs._outputs import need_same_classes as need_same_classes
from openset.outputs._outputs import replaced as replaced
