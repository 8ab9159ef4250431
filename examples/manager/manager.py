"""A block manager in Python: manager.c in fewer words, without windows, groups and forks.

    python manager.py

needs the Python package kvgold and the program; README.md says how."""

import kvgold.pool
from kvgold.pool import Exhausted


class Manager:
    """Blocks are known by all tokens up to their end. The one that was let go first is given away first, which is a
    promise that kvgold holds it to."""

    oldest_first = tail_first = True

    def __init__(self, blocks, block_tokens):
        self.size, self.users = block_tokens, [0] * blocks
        self.idle = list(range(blocks))  # in the order in which they are given away
        self.known, self.name_of = {}, {}  # name to block, and back
        self.sequences = {}

    def name(self, salt, tokens):
        return salt, *tokens

    def find(self, salt, tokens):
        found = []
        for end in range(self.size, len(tokens), self.size):
            block = self.known.get(self.name(salt, tokens[:end]))
            if block is None:
                break
            found.append(block)
        return found

    def hold(self, block):
        self.users[block] += 1
        if self.users[block] == 1:
            self.idle.remove(block)

    def let_go(self, block):
        self.users[block] -= 1
        if self.users[block] == 0:
            self.idle.append(block)

    def take(self):
        block = self.idle[0]
        self.forget(block)
        self.hold(block)
        return block

    def forget(self, block):
        self.known.pop(self.name_of.pop(block, None), None)

    def extend(self, table, tokens):
        missing = -(-len(tokens) // self.size) - len(table)
        if missing > len(self.idle):
            raise Exhausted
        return table + [self.take() for _ in range(missing)]

    def admit(self, sequence, salt, tokens):
        found, idle = self.find(salt, tokens), list(self.idle)
        for block in found:
            self.hold(block)
        try:
            table = self.extend(found, tokens)
        except Exhausted:
            for block in found:
                self.let_go(block)
            self.idle = idle
            raise
        self.sequences[sequence] = salt, list(tokens), table
        return table, len(found) * self.size

    def grow(self, sequence, tokens):
        salt, _, table = self.sequences[sequence]
        table = self.extend(table, tokens)
        self.sequences[sequence] = salt, list(tokens), table
        return table

    def written(self, sequence, count):
        salt, tokens, table = self.sequences[sequence]
        for i in range(count // self.size):
            name = self.name(salt, tokens[:(i + 1) * self.size])
            if name not in self.known and table[i] not in self.name_of:
                self.known[name], self.name_of[table[i]] = table[i], name

    def release(self, sequence):
        for block in reversed(self.sequences.pop(sequence)[2]):
            self.let_go(block)

    def available(self):
        return len(self.idle)


if __name__ == "__main__":
    print(kvgold.pool.check(Manager))
