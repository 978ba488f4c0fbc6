"""The consumer group: who is a member, in which generation, and whose offset commits are accepted."""

from typing import NamedTuple


class Metadata(NamedTuple):
    """Group metadata as it travels with a batch of work."""

    member: str
    generation: int


# What a client gives that is no member: to the broker a consumer without a group, with nothing to check.
NO_MEMBER = Metadata("", -1)


class Group(NamedTuple):
    """The group of one ingester's name. The leader is the member that holds the ledger's partition."""

    leader: str
    members: tuple[str, ...]
    generation: int = 1

    def accepts(self, metadata: Metadata) -> bool:
        """Whether an offset commit with this metadata passes; a waiting member's does as the leader's."""
        if metadata == NO_MEMBER:
            return True
        return metadata.generation == self.generation and metadata.member in self.members

    def metadata_of(self, member: str) -> Metadata:
        """What the client of this member would give now."""
        return Metadata(member, self.generation) if member in self.members else NO_MEMBER

    def joined(self, member: str) -> "Group":
        """With one more waiting member: the generation rises for all."""
        return self._replace(members=tuple(sorted({*self.members, member})), generation=self.generation + 1)

    def handed_over(self, member: str) -> "Group":
        """The leader has not been heard of for a session timeout: it is out, and this member leads."""
        members = tuple(sorted({*self.members, member} - {self.leader}))
        return Group(member, members, self.generation + 1)

    def rotated(self, member: str) -> "Group":
        """The leader with a new member id under the same group instance id: the old id is refused at once."""
        members = tuple(sorted({*self.members, member} - {self.leader}))
        return self._replace(leader=member, members=members)
