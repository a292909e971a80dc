"""The flow of a part of a script: the ways in which it can end, and its needs."""

import typing

# The maximum number of findings to report for a script. Guards against: a script whose verdict fills the
# model's context.
MAX_FINDINGS = 5

# The ways to leave a part of a script without a failure.
BREAK, CONTINUE, RETURN, EXIT = "break", "continue", "return", "exit"
FUNCTION_ENDS = frozenset((RETURN, BREAK, CONTINUE))
LOOP_ENDS = frozenset((BREAK, CONTINUE))


class Need(typing.NamedTuple):
    """A feature that a script needs and that is unsupported or unknown in the sandbox."""

    path: str
    line: int | None
    feature: str
    reason: str
    # The exception that a run gets there, if it is known.
    error: type | None = None
    # True if code before it may fail, too.
    is_late: bool = False
    # The origins of a request that the grant does not allow; None for other needs.
    origins: tuple | None = None


class Flow:
    """The ways in which a part of a script can end. A need does not end the flow, so that all needs are found."""

    __slots__ = ("can_continue", "exits", "fails", "raised", "certain", "possible")

    def __init__(self):
        # True if a run may reach the end of the part.
        self.can_continue = True
        # The other ways to leave it without a failure.
        self.exits = set()
        # True if any code may raise an exception; and the exceptions of `raise` statements.
        self.fails = False
        self.raised = set()
        # The needs that every run reaches, in order, and the other needs.
        self.certain = []
        self.possible = {}

    def need(self, need, is_certain=True):
        """Adds a need."""
        # Requests do not displace other needs, which decide the verdict.
        def count(needs):
            return sum((it.origins is None) == (need.origins is None) for it in needs)

        if is_certain and not self.exits and count(self.certain) < MAX_FINDINGS:
            self.certain.append(need._replace(is_late=need.is_late or self.fails))
        elif count(self.possible) < 2 * MAX_FINDINGS:
            self.possible[need] = None

    def follow(self, part, ends=frozenset()):
        """Adds a part that runs next. The exits in `ends`, such as its `return`, end only this part."""
        for need in part.certain:
            self.need(need)
        for need in part.possible:
            self.need(need, False)
        self._leave(part.can_continue or bool(part.exits & ends), part, ends)

    def join(self, *parts):
        """Adds alternative parts, of which a run takes one."""
        for part in parts:
            for need in [*part.certain, *part.possible]:
                self.need(need, False)
        can_continue = any(part.can_continue for part in parts)
        for part in parts:
            self._leave(can_continue, part)

    def follow_optional(self, part, ends=frozenset()):
        """Adds a part that a run may skip."""
        inner = Flow()
        inner.follow(part, ends)
        self.join(inner, Flow())

    def _leave(self, can_continue, part, ends=frozenset()):
        self.exits |= part.exits - ends
        self.raised |= part.raised
        self.fails = self.fails or part.fails
        self.can_continue = self.can_continue and can_continue


# The flow of code that is not followed.
ANYTHING = Flow()
# The flow of a function's call of itself. The function's own flow has its needs.
ITSELF = Flow()
ANYTHING.exits = {BREAK, CONTINUE, RETURN, EXIT}
ANYTHING.fails = ITSELF.fails = True
