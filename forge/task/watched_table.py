"""A submission's TUNING in place of which a report or a tuner sees what its host code looks up."""

from typing import Any


class WatchedTable(dict[Any, Any]):
    """TUNING that notes the keys that were asked for, in order, whether or not it has a row for them."""

    def __init__(self, rows: dict[Any, Any]) -> None:
        super().__init__(rows)
        self.asked: list[Any] = []

    def get(self, key: Any, default: Any = None) -> Any:
        self.asked.append(key)
        return super().get(key, default)

    def __getitem__(self, key: Any) -> Any:
        self.asked.append(key)
        return super().__getitem__(key)

    def __contains__(self, key: Any) -> bool:
        self.asked.append(key)
        return super().__contains__(key)
