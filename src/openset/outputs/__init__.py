"""`Outputs`: the outputs of a network on one split, in the caller's array library."""

# No `__all__`: the API reference has `Outputs` on the page of `openset`, and the others
# are for the package only.
from openset.outputs.checks import leading_rows as leading_rows
from openset.outputs.checks import need_same_classes as need_same_classes
from openset.outputs.checks import picked as picked
from openset.outputs.files import is_outputs as is_outputs
from openset.outputs.files import put_about as put_about
from openset.outputs.files import replacing as replacing
from openset.outputs.invalid import Invalid as Invalid
from openset.outputs.invalid import WithGaps as WithGaps
from openset.outputs.invalid import is_undetermined as is_undetermined
from openset.outputs.invalid import need_valid as need_valid
from openset.outputs.outputs import Outputs as Outputs
from openset.outputs.outputs import need_kind as need_kind
from openset.outputs.outputs import need_outputs as need_outputs
from openset.outputs.outputs import replaced as replaced
