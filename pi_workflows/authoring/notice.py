"""What a notification leaves behind."""

from dataclasses import dataclass
from typing import ClassVar

from pydantic import ConfigDict
from pydantic.alias_generators import to_camel


@dataclass(frozen=True, slots=True)
class Notified:
    """The output of a notification; stored with camelCase names.

    Attributes:
        notification_id: of the message.
        target_session_id: of the conversation that gets it.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(
        alias_generator=to_camel, populate_by_name=True
    )

    notification_id: str
    target_session_id: str
