"""The core's own sharders."""

from __future__ import annotations

from collections.abc import Sequence

from core.contracts import Sharder
from core.hookspecs import hookimpl


@hookimpl
def anycard_sharders() -> Sequence[type[Sharder]]:
    from core.sharders.data_parallel import DataParallel
    from core.sharders.dp_tp import DpTp
    from core.sharders.hybrid import Hybrid
    from core.sharders.tensor_parallel import TensorParallel
    from core.sharders.zero1 import Zero1

    return [DataParallel, TensorParallel, Hybrid, DpTp, Zero1]
