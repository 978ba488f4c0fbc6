"""Single message transforms and their predicates, as a configuration gives them.

chain           what is asked for, as values: a step for each transform, with its condition
read_chain      the chain from `transforms`, `predicates` and their families, with every problem, and the
                topics that records can come to
alias_options   the options of one alias, read one by one
readers         Kafka's classes, and what each one's options mean; vendor_readers has Lenses' and Debezium's
java_regex      Java's regular expressions as Python's
"""

from headrace.options.transforms.chain import NO_TRANSFORMS, TransformChain

__all__ = ["NO_TRANSFORMS", "TransformChain"]
