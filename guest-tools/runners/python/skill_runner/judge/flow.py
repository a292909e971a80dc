"""The flow of a part of a script: how its runs continue, and what they need."""

import typing

# The findings that are told of a script. Guards against: a script whose verdict fills the model's memory.
MOST_FINDINGS = 5

# Ways out of a part of a script that may end well.
BREAK, CONTINUE, RETURN, EXIT = "break", "continue", "return", "exit"
FUNCTION_ENDS = frozenset((RETURN, BREAK, CONTINUE))
LOOP_ENDS = frozenset((BREAK, CONTINUE))


class Need(typing.NamedTuple):
    """Something that a script needs and that is unsupported or unknown in the sandbox."""

    path: str
    line: int | None
    what: str
    why: str
    # What a run fails with there, if that is known.
    error: type | None = None
    # Whether something before it may fail, too.
    is_late: bool = False


class Flow:
    """The ways in which a part of a script can end. A need does not end it, so all needs are found."""

    __slots__ = ("goes_on", "exits", "fails", "raised", "surely", "maybe")

    def __init__(self):
        # Whether a run may come to the end of the part.
        self.goes_on = True
        # The other ways out, without failing.
        self.exits = set()
        # Whether anything may raise an exception, and what is raised expressly.
        self.fails = False
        self.raised = set()
        # Needs that each run comes to, in order, and others.
        self.surely = []
        self.maybe = {}

    def need(self, need, surely=True):
        """Adds a need."""
        if surely and not self.exits and len(self.surely) < MOST_FINDINGS:
            self.surely.append(need._replace(is_late=need.is_late or self.fails))
        elif len(self.maybe) < 2 * MOST_FINDINGS:
            self.maybe[need] = None

    def follow(self, part, ends=frozenset()):
        """Adds a part that runs next. Some exits, such as its `return`, end only the part."""
        for need in part.surely:
            self.need(need)
        for need in part.maybe:
            self.need(need, False)
        self._leave(part.goes_on or bool(part.exits & ends), part, ends)

    def join(self, *parts):
        """Adds parts of which a run takes one."""
        for part in parts:
            for need in [*part.surely, *part.maybe]:
                self.need(need, False)
        goes_on = any(part.goes_on for part in parts)
        for part in parts:
            self._leave(goes_on, part)

    def perhaps(self, part, ends=frozenset()):
        """Adds a part that a run may leave out."""
        inner = Flow()
        inner.follow(part, ends)
        self.join(inner, Flow())

    def _leave(self, goes_on, part, ends=frozenset()):
        self.exits |= part.exits - ends
        self.raised |= part.raised
        self.fails = self.fails or part.fails
        self.goes_on = self.goes_on and goes_on


# What nobody follows, and a function that calls itself: what it does in between, its own flow has.
ANYTHING, ITSELF = Flow(), Flow()
ANYTHING.exits = {BREAK, CONTINUE, RETURN, EXIT}
ANYTHING.fails = ITSELF.fails = True
