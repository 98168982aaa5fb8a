"""The output of a node that decides where the run goes."""

from enum import Enum
from typing import ClassVar, Generic, TypeVar

from pydantic import BaseModel, ConfigDict

K = TypeVar("K", bound=Enum)


class Decision(BaseModel, Generic[K]):
    """What `wf.route` reads: an output one field of which is a member of an enum."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    decided_by: ClassVar[str] = ""


class Route(Decision[K], Generic[K]):
    """A decision between the members of one enum, for `wf.route`.

    Subclass `Route[Next]` to carry more fields beside the decision.

    Attributes:
        route: the member whose case is taken.
    """

    decided_by: ClassVar[str] = "route"

    route: K
