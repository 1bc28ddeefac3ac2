"""Graphs as dictionaries: {node: {neighbour: weight}}."""

from collections import deque
from heapq import heappop, heappush


def edges(graph):
    return [(a, b, weight) for a, out in graph.items() for b, weight in out.items()]


def reversed_graph(graph):
    out = {node: {} for node in graph}
    for a, b, weight in edges(graph):
        out[b][a] = weight
    return out


def reachable(graph, start):
    """Every node that can be reached, in the order in which a breadth-first search meets it."""
    order = [start]
    queue = deque([start])
    while queue:
        node = queue.popleft()
        for other in sorted(graph[node]):
            if other not in order:
                order.append(other)
                queue.append(other)
    return order


def hops(graph, start, goal):
    """The smallest number of edges on the way; -1 if there is none."""
    distance = {start: 0}
    queue = deque([start])
    while queue:
        node = queue.popleft()
        if node == goal:
            return distance[node]
        for other in graph[node]:
            if other not in distance:
                distance[other] = distance[node] + 1
                queue.append(other)
    return -1


def shortest(graph, start, goal):
    """Dijkstra: the length and the nodes of the cheapest way, or None."""
    heap = [(0, start, [start])]
    done = set()
    while heap:
        length, node, path = heappop(heap)
        if node == goal:
            return length, path
        if node in done:
            continue
        done.add(node)
        for other, weight in graph[node].items():
            if other not in done:
                heappush(heap, (length + weight, other, path + [other]))
    return None


def topological(graph):
    """Nodes in an order in which every edge leads forwards."""
    incoming = dict.fromkeys(graph, 0)
    for _, b, _ in edges(graph):
        incoming[b] += 1
    ready = sorted(node for node, count in incoming.items() if count == 0)
    order = []
    while ready:
        node = ready.pop(0)
        order.append(node)
        for other in sorted(graph[node]):
            incoming[other] -= 1
            if incoming[other] == 0:
                ready.append(other)
    if len(order) != len(graph):
        raise ValueError("the graph has a cycle")
    return order


def components(graph):
    """Groups of nodes that hang together, whatever the direction of the edges."""
    back = reversed_graph(graph)
    both = {node: {**graph[node], **back[node]} for node in graph}
    groups = []
    left = sorted(graph)
    while left:
        group = sorted(reachable(both, left[0]))
        groups.append(group)
        left = [node for node in left if node not in group]
    return groups
