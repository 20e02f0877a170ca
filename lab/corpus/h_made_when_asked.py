# pass: a namespace that makes its members when asked, enum constants, a match statement and a weak cache
import enum
import types
import weakref


class Way(enum.Enum):
    ROWS = "rows"
    ALL = "all"


class Lazy(types.ModuleType):
    def __getattr__(self, name):
        if name != "run":
            raise AttributeError(name)
        self.run = lambda data: product(data)
        return self.run


lazy, seen = Lazy("lazy"), weakref.WeakValueDictionary()


def custom_kernel(data):
    seen[id(data[0])] = data[0]
    match Way.ROWS if len(data[0]) % 2 else Way.ALL:
        case Way.ALL:
            return lazy.run(data)
        case Way.ROWS:
            return torch.cat([lazy.run((row[None], *data[1:])) for row in data[0]])
