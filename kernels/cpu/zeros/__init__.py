"""The op ``support``: total support of zero patterns by maximum flow and strongly connected components."""
