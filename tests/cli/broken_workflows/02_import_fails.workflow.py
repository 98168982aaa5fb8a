"""It imports what is not installed."""

import no_such_package_anywhere
from pi_workflows import Workflow

wf = Workflow("import_fails")


@wf.compute()
def work() -> int:
    return no_such_package_anywhere.value


workflow = wf.build(start=work)
